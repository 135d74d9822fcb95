"""Models that draw random numbers: whether what they give depends on them, and whether a captured
graph draws the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._verify import _rounding

#: What a model or a graph gives, as random numbers are now.
Results = Callable[[], Sequence[Any]]

#: For a model with random operators that gives the same all the same.
SEEDED = (
    "the model draws random numbers, but gives the same whatever the seed is, as one does that "
    "sets its own seed, and an ONNX model does not. Fix: draw them once, outside of forward, and "
    "keep them in a buffer"
)
OTHERWISE = (
    "the captured graph draws its random numbers otherwise than the model, so that nobody can say "
    "whether it is the same"
)


def is_random(results: Results) -> bool:
    """Whether two seeds give two results."""
    return bool(_rounding.difference(_with_seed(results, 1), _with_seed(results, 2)))


def compare(model: Results, graph: Results) -> tuple[str, str]:
    """What is wrong with a graph that draws the same random numbers as the model, in words; or why
    nobody can say."""
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
