"""Saves and restores the random states of torch, Python and NumPy, so that an export does not
change the numbers that the user's code draws afterwards."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

#: Random generators outside of torch that a model may use, and how to get the state of each.
SOURCES: dict[str, Callable[[], Any]] = {
    "Python's `random`": random.getstate,
    "NumPy's `numpy.random`": lambda: _plain(np.random.get_state(legacy=False)),
}


@contextmanager
def keeping_random_state() -> Iterator[None]:
    """Restores all random states at the end.

    The states of GPUs are included only if the process has initialised CUDA already: an export for
    the CPU must not initialise CUDA, which takes memory and cannot be used in forked processes.
    """
    is_in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    gpus = torch.cuda.device_count() if is_in_use else 0
    of_python, of_numpy = random.getstate(), np.random.get_state(legacy=False)
    try:
        with torch.random.fork_rng(devices=range(gpus)):
            yield
    finally:
        if random.getstate() != of_python:
            random.setstate(of_python)
        if _plain(np.random.get_state(legacy=False)) != _plain(of_numpy):
            np.random.set_state(of_numpy)


#: The seeds to try if a model draws random numbers outside of torch: the first few, and those whose
#: first numbers are the smallest and the largest, since a model may branch on a rare number.
_SEEDS = 2000
_PLAIN_SEEDS = 8


@functools.cache
def seeds() -> tuple[int, ...]:
    """Returns the seeds to try. They are cached: finding them takes some milliseconds."""
    of_python = [(random.Random(seed).random(), seed) for seed in range(_SEEDS)]
    of_numpy = [(np.random.RandomState(seed).random_sample(), seed) for seed in range(_SEEDS)]
    extreme = [choose(one)[1] for one in (of_python, of_numpy) for choose in (min, max)]
    return tuple(dict.fromkeys([*range(_PLAIN_SEEDS), *extreme]))


def seed_others(seed: int) -> None:
    """Seeds the generators outside of torch."""
    random.seed(seed)
    np.random.seed(seed)


def _plain(state: Any) -> Any:
    """Converts a state of NumPy to values that == compares."""
    if isinstance(state, dict):
        return {name: _plain(one) for name, one in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
