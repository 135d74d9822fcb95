"""Models that draw random numbers: whether their results depend on them, and whether a captured
graph draws the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._verify import _rounding

#: Runs a model or a graph with the current random state, and returns its results.
Results = Callable[[], Sequence[Any]]

#: For a model with random operators whose results do not depend on the seed.
SEEDED = (
    "the model draws random numbers, but returns the same results for every seed, as if it set "
    "its own seed, which an ONNX model cannot do. Fix: draw them once, outside of forward, and "
    "keep them in a buffer"
)
OTHERWISE = (
    "the captured graph draws its random numbers differently than the model, so the two cannot be "
    "compared"
)


def is_random(results: Results) -> bool:
    """Whether two seeds give different results."""
    return bool(_rounding.difference(_with_seed(results, 1), _with_seed(results, 2)))


def compare(model: Results, graph: Results) -> tuple[str, str]:
    """Compares a graph with the model under the same random state.

    Returns what is wrong, and the reason if they cannot be compared; both are empty if they agree.
    """
    wanted, got = model(), graph()
    if not _rounding.difference(wanted, got):
        return "", ""
    seeds = iter(range(1, 100))
    far = _rounding.difference(wanted, got, lambda: _with_seed(model, next(seeds)))
    return (far, "") if far else ("", OTHERWISE)


def _with_seed(results: Results, number: int) -> Sequence[Any]:
    with keeping_random_state():
        torch.manual_seed(torch.initial_seed() + number)
        return results()
