"""Our kernels of com.microsoft against ONNX Runtime's own and torch's, one thread, float32.

Inverse: milliseconds for a batch of n x n matrices, and how many times ours is as fast as the
faster of the two. Gelu: microseconds, against ONNX Runtime's. Sessions run a chain of so many
nodes, and torch is called so many times, so that the call of a session, which takes 5 microseconds
and more, is spread; the figures are for one. All columns are measured in one run, call by call in
turn; medians. Run it by `make bench`.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import onnxruntime
import torch
from onnx import parser

import opgraft

SIZES = (2, 3, 4, 8, 16, 32, 64, 128, 512)
BATCHES = (1, 100, 10_000)
LARGEST = 300_000_000  # bytes of one tensor
SECONDS = 1.5  # for each row
CHAIN = 8  # nodes of one session
GELU_SIZES = (1_000, 100_000, 1_000_000, 10_000_000)


def sessions(operator: str, rank: int) -> tuple[onnxruntime.InferenceSession, ...]:
    """ONNX Runtime's kernel, and ours."""
    shape = ", ".join("abc"[:rank])
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        f"graph (float[{shape}] v0) => (float[{shape}] v{CHAIN}) {{"
        + "".join(f" v{i + 1} = com.microsoft.{operator} (v{i})" for i in range(CHAIN))
        + " }"
    ).SerializeToString()
    options = [onnxruntime.SessionOptions() for _ in range(2)]
    for one in options:
        one.intra_op_num_threads = one.inter_op_num_threads = 1
    return (
        onnxruntime.InferenceSession(model, options[0]),
        opgraft.InferenceSession(model, options[1], prefer=[f"com.microsoft::{operator}"]),
    )


def measure(columns: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median of each column in seconds, for one node."""
    for call in columns.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in columns}
    end = time.perf_counter() + SECONDS
    while len(times["ours"]) < 3 or (time.perf_counter() < end and len(times["ours"]) < 20_000):
        for name, call in columns.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) / CHAIN for name, taken in times.items()}


def inverse() -> None:
    theirs, ours = sessions("Inverse", 3)
    print("| n | batch | ONNX Runtime | torch | **ours** | times as fast as the faster |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for n in SIZES:
        for batch in BATCHES:
            if batch * n * n * 4 > LARGEST:
                continue
            generator = np.random.default_rng(n)
            x = generator.standard_normal((batch, n, n), np.float32) + n * np.eye(n, dtype="f4")
            tensor = torch.from_numpy(x)
            np.testing.assert_allclose(  # an even number of times
                ours.run(None, {"v0": x})[0], x, rtol=1e-2, atol=1e-2 * n
            )
            taken = measure(
                {
                    "runtime": lambda x=x: theirs.run(None, {"v0": x}),  # type: ignore[misc]
                    "torch": lambda t=tensor: [torch.linalg.inv(t) for _ in range(CHAIN)],  # type: ignore[misc]
                    "ours": lambda x=x: ours.run(None, {"v0": x}),  # type: ignore[misc]
                }
            )
            ratio = min(taken["runtime"], taken["torch"]) / taken["ours"]
            ratios.append(ratio)
            cells = " | ".join(f"{taken[name] * 1e3:,.3f}" for name in ("runtime", "torch", "ours"))
            print(f"| {n} | {batch:,} | {cells} | {ratio:.2f} |", flush=True)
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"\nGeometric mean of the last column: {mean:.2f}\n")


def gelu() -> None:
    theirs, ours = sessions("Gelu", 1)
    print("| floats | ONNX Runtime's Gelu | **ours** | times as fast |")
    print("|---|---|---|---|")
    for size in GELU_SIZES:
        x = np.random.default_rng(0).standard_normal(size, np.float32)
        taken = measure(
            {
                "runtime": lambda x=x: theirs.run(None, {"v0": x}),  # type: ignore[misc]
                "ours": lambda x=x: ours.run(None, {"v0": x}),  # type: ignore[misc]
            }
        )
        print(f"| {size:,} | {taken['runtime'] * 1e6:,.1f} | {taken['ours'] * 1e6:,.1f} "
              f"| {taken['runtime'] / taken['ours']:.2f} |", flush=True)  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    print(f"Python {sys.version.split()[0]}, ONNX Runtime {onnxruntime.__version__}", end=", ")
    print(f"torch {torch.__version__}\n")
    inverse()
    gelu()


if __name__ == "__main__":
    main()
