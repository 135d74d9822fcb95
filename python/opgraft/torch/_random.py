"""Random numbers of torch: what draws some in here leaves the sequence as it was."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch


def keeping_random_state() -> AbstractContextManager[Any]:
    """GPUs count where the process uses them already: an export for the CPU is not to start CUDA,
    which takes memory and keeps processes that are forked later from using it."""
    is_in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    gpus = torch.cuda.device_count() if is_in_use else 0
    kept: AbstractContextManager[Any] = torch.random.fork_rng(devices=range(gpus))
    return kept
