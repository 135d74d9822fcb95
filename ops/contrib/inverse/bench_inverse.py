"""Times Inverse against ONNX Runtime's own and torch's: milliseconds for a batch of n x n matrices
on the CPU, microseconds on a GPU, and how many times as fast ours is."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import torch

SIZES = (2, 3, 4, 8, 16, 32, 64, 128, 512)
BATCHES = (1, 100, 10_000)
LARGEST = 300_000_000  # bytes of one tensor
CHAIN = 8  # nodes of one session
ON_GPU = [
    *((n, batch) for batch in (20_000, 100_000) for n in (2, 3, 4, 8, 16, 32, 64)),
    *((256, 1), (256, 100), (1024, 1), (1024, 4)),
]


def on_cpu() -> None:
    from timing import bound, measure, sessions

    theirs, ours = sessions("Inverse", 3, CHAIN)
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
            np.testing.assert_allclose(  # inverted an even number of times
                ours.run(None, {"v0": x})[0], x, rtol=1e-2, atol=1e-2 * n
            )
            taken = measure(
                {
                    "runtime": bound(theirs, x),
                    "torch": lambda t=tensor, y=out: [  # type: ignore[misc]
                        torch.linalg.inv(t, out=y) for _ in range(CHAIN)
                    ],
                    "ours": bound(ours, x),
                },
                CHAIN,
            )
            ratio = min(taken["runtime"], taken["torch"]) / taken["ours"]
            ratios.append(ratio)
            cells = " | ".join(f"{taken[name] * 1e3:,.3f}" for name in ("runtime", "torch", "ours"))
            print(f"| {n} | {batch:,} | {cells} | {ratio:.2f} |", flush=True)
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"\nGeometric mean of the last column: {mean:.2f}\n")


def matrices(n: int, batch: int) -> Any:
    """Returns well-conditioned matrices with shuffled rows, so that pivoting has work to do."""
    x = torch.randn(batch, n, n, device="cuda") + 2 * n * torch.eye(n, device="cuda")
    return x[:, torch.randperm(n, device="cuda")].contiguous()


def on_gpu() -> None:
    from gpu_timing import bound, by_events, by_graph, session

    try:
        import cupy
    except ImportError:
        cupy = None
    one = session("com.microsoft.Inverse", "float", 3)
    print("Inverse, us on the device: ours by graph (and by events), theirs by events")
    print("| n | batch | **ours** | by events | torch | CuPy | torch / ours | CuPy / ours |")
    print("|---|---|---|---|---|---|---|---|")
    for n, batch in ON_GPU:
        x = matrices(n, batch)
        y = torch.empty_like(x)
        call = bound(one, x, y)
        call()
        torch.testing.assert_close(y, torch.linalg.inv(x), rtol=1e-3, atol=1e-4)
        ours, events = by_graph(call), by_events(call)
        theirs = by_events(lambda x=x: torch.linalg.inv(x))  # type: ignore[misc]
        cells = ["-", "-"]
        if cupy is not None:
            stream = torch.cuda.current_stream().cuda_stream
            with cupy.cuda.ExternalStream(stream):
                array = cupy.from_dlpack(x)
                taken = by_events(lambda a=array: cupy.linalg.inv(a))  # type: ignore[misc]
            cells = [f"{taken:,.1f}", f"{taken / ours:.1f}"]
            cupy.get_default_memory_pool().free_all_blocks()
        print(
            f"| {n} | {batch:,} | **{ours:,.1f}** | {events:,.1f} | {theirs:,.1f} | {cells[0]} "
            f"| {theirs / ours:.1f} | {cells[1]} |",
            flush=True,
        )
    print()
