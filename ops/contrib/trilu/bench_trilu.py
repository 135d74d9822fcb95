"""Trilu in microseconds, against torch's on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch


def one_node_on_gpu() -> tuple[Callable[[], object], Callable[[], object]]:
    """A call of ours, and torch's."""
    from gpu_timing import bound, session

    x = torch.randn(1, 32, 32, device="cuda")
    ours = session("com.microsoft.Trilu", "float", 3)
    return (
        bound(ours, x, torch.empty_like(x), torch.cuda.current_stream()),
        lambda: torch.triu(x),
    )
