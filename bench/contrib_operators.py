"""Our kernels of com.microsoft against ONNX Runtime's own and torch's, one thread, float32.

Inverse: milliseconds for a batch of n x n matrices, and how many times ours is as fast as the
faster of the two. Gelu: microseconds, against ONNX Runtime's. Sessions run a chain of so many
nodes, and torch is called so many times, so that the call of a session, which takes some
microseconds, is spread; the figures are for one. Inputs and outputs are bound: no column pays for
fresh memory. All columns are measured in one run, a few calls of each in turn, the first of them
not counted: none pays for the state of the processor that another leaves behind, and torch's MKL
leaves one in which vectors of 512 bits are slow. Medians. Run it by `make bench`.
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
INVERSE_CHAIN = 8  # nodes of one session
GELU_CHAIN = 64
TURN = 4  # calls of one column before the next has its turn
GELU_SIZES = (1_000, 100_000, 1_000_000, 10_000_000)


def sessions(operator: str, rank: int, chain: int) -> tuple[onnxruntime.InferenceSession, ...]:
    """ONNX Runtime's kernel, and ours."""
    shape = ", ".join("abc"[:rank])
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        f"graph (float[{shape}] v0) => (float[{shape}] y) {{"
        + "".join(f" v{i + 1} = com.microsoft.{operator} (v{i})" for i in range(chain - 1))
        + f" y = com.microsoft.{operator} (v{chain - 1}) }}"
    ).SerializeToString()
    options = [onnxruntime.SessionOptions() for _ in range(2)]
    for one in options:
        one.intra_op_num_threads = one.inter_op_num_threads = 1
    return (
        onnxruntime.InferenceSession(model, options[0]),
        opgraft.InferenceSession(model, options[1], prefer=[f"com.microsoft::{operator}"]),
    )


def bound(session: onnxruntime.InferenceSession, x: np.ndarray) -> Callable[[], object]:
    """A call of the session, from and to memory that stays."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("v0", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type(x.shape, x.dtype)
    binding.bind_ortvalue_output("y", y)
    return lambda: session.run_with_iobinding(binding)


def measure(columns: dict[str, Callable[[], object]], chain: int) -> dict[str, float]:
    """The median of each column in seconds, for one node."""
    for call in columns.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in columns}
    end = time.perf_counter() + SECONDS
    while len(times["ours"]) < TURN or time.perf_counter() < end:
        for name, call in columns.items():
            call()
            for _ in range(TURN):
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) / chain for name, taken in times.items()}


def inverse() -> None:
    theirs, ours = sessions("Inverse", 3, INVERSE_CHAIN)
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
            out = torch.empty_like(tensor)
            np.testing.assert_allclose(  # an even number of times
                ours.run(None, {"v0": x})[0], x, rtol=1e-2, atol=1e-2 * n
            )
            taken = measure(
                {
                    "runtime": bound(theirs, x),
                    "torch": lambda t=tensor, y=out: [  # type: ignore[misc]
                        torch.linalg.inv(t, out=y) for _ in range(INVERSE_CHAIN)
                    ],
                    "ours": bound(ours, x),
                },
                INVERSE_CHAIN,
            )
            ratio = min(taken["runtime"], taken["torch"]) / taken["ours"]
            ratios.append(ratio)
            cells = " | ".join(f"{taken[name] * 1e3:,.3f}" for name in ("runtime", "torch", "ours"))
            print(f"| {n} | {batch:,} | {cells} | {ratio:.2f} |", flush=True)
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"\nGeometric mean of the last column: {mean:.2f}\n")


def gelu() -> None:
    theirs, ours = sessions("Gelu", 1, GELU_CHAIN)
    print("| floats | ONNX Runtime's Gelu | **ours** | times as fast |")
    print("|---|---|---|---|")
    for size in GELU_SIZES:
        x = np.random.default_rng(0).standard_normal(size, np.float32)
        taken = measure({"runtime": bound(theirs, x), "ours": bound(ours, x)}, GELU_CHAIN)
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
