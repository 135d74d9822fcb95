"""Times Trilu in microseconds, against torch on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch


def one_node_on_gpu() -> tuple[Callable[[], object], Callable[[], object]]:
    """Returns a call of our operator, and one of torch's."""
    from gpu_timing import bound, session

    x = torch.randn(1, 32, 32, device="cuda")
    ours = session("com.microsoft.Trilu", "float", 3)
    return (
        bound(ours, x, torch.empty_like(x), torch.cuda.current_stream()),
        lambda: torch.triu(x),
    )
