"""Times Gelu in microseconds: on the CPU against ONNX Runtime's own, on a GPU against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

SIZES = (1_000, 100_000, 1_000_000, 10_000_000)
CHAIN = 64  # nodes of one session
FLOATS = 1_024  # of one node


def on_cpu() -> None:
    from timing import bound, measure, sessions

    theirs, ours = sessions("Gelu", 1, CHAIN)
    print("| floats | ONNX Runtime's Gelu | **ours** | times as fast |")
    print("|---|---|---|---|")
    for size in SIZES:
        x = np.random.default_rng(0).standard_normal(size, np.float32)
        taken = measure({"runtime": bound(theirs, x), "ours": bound(ours, x)}, CHAIN)
        print(f"| {size:,} | {taken['runtime'] * 1e6:,.1f} | {taken['ours'] * 1e6:,.1f} "
              f"| {taken['runtime'] / taken['ours']:.2f} |", flush=True)  # fmt: skip


def on_gpu() -> None:
    from gpu_timing import bound, by_events, by_graph, session

    size = 1 << 28
    print(f"Gelu of {size:,} elements, us on the device by events; a copy in a graph is slower")
    print("| type | **ours** | ours by graph | copy | copy by graph | torch | share of a copy |")
    print("|---|---|---|---|---|---|---|")
    for kind, dtype in (
        ("float", torch.float32),
        ("float16", torch.float16),
        ("bfloat16", torch.bfloat16),
    ):
        x = torch.randn(size, device="cuda", dtype=dtype)
        y = torch.empty_like(x)
        call = bound(session("com.microsoft.Gelu", kind, 1), x, y)
        call()
        part = slice(0, 1 << 20)
        expected = torch.nn.functional.gelu(x[part].double())
        torch.testing.assert_close(y[part].double(), expected, rtol=2e-2, atol=1e-6)

        def copy(x: Any = x, y: Any = y) -> None:
            y.copy_(x)

        ours, theirs = by_events(call), by_events(copy)
        others = by_events(lambda x=x: torch.nn.functional.gelu(x))  # type: ignore[misc]
        print(
            f"| {kind} | **{ours:,.1f}** | {by_graph(call):,.1f} | {theirs:,.1f} "
            f"| {by_graph(copy):,.1f} | {others:,.1f} | {theirs / ours:.1%} |",
            flush=True,
        )
    print()


def one_node_on_gpu() -> tuple[Callable[[], object], Callable[[], object]]:
    """Returns a call of our operator, and one of torch's."""
    from gpu_timing import bound, session

    x = torch.randn(FLOATS, device="cuda")
    ours = session("com.microsoft.Gelu", "float", 1)
    return (
        bound(ours, x, torch.empty_like(x), torch.cuda.current_stream()),
        lambda: torch.nn.functional.gelu(x),
    )
