"""Random numbers of torch, Python and NumPy: what draws some in here leaves the sequences as they
were."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

#: What a model may draw from that is not torch's, and how to ask where its sequence is.
SOURCES: dict[str, Callable[[], Any]] = {
    "Python's `random`": random.getstate,
    "NumPy's `numpy.random`": lambda: _plain(np.random.get_state(legacy=False)),
}


@contextmanager
def keeping_random_state() -> Iterator[None]:
    """GPUs count where the process uses them already: an export for the CPU is not to start CUDA,
    which takes memory and keeps processes that are forked later from using it."""
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


#: Seeds to try a model with that draws outside of torch: a few, and those whose first numbers are
#: the least and the greatest of many, since a model may do something else only once in a hundred.
_SEEDS = 2000
_PLAIN_SEEDS = 8


@functools.cache
def seeds() -> tuple[int, ...]:
    """Found once: it takes some milliseconds."""
    of_python = [(random.Random(seed).random(), seed) for seed in range(_SEEDS)]
    of_numpy = [(np.random.RandomState(seed).random_sample(), seed) for seed in range(_SEEDS)]
    extreme = [choose(one)[1] for one in (of_python, of_numpy) for choose in (min, max)]
    return tuple(dict.fromkeys([*range(_PLAIN_SEEDS), *extreme]))


def seed_others(seed: int) -> None:
    """All that is not torch's begins anew."""
    random.seed(seed)
    np.random.seed(seed)


def _plain(state: Any) -> Any:
    """A state of NumPy's as what can be compared."""
    if isinstance(state, dict):
        return {name: _plain(one) for name, one in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
