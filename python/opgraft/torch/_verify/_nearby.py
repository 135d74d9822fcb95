"""Compares at nearby numbers if an example lies on a jump of the model.

At 2.0, rounding decides whether `floor` is 1 or 2, so neither result is wrong. At 1.97, 2 is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch._capture._examples import Example
from opgraft.torch._verify._rounding import MOST, Comparison

#: The fractions by which numbers are reduced, so that probabilities and positive numbers stay so.
#: Either each by a different one, which breaks ties, or all by the same, which keeps their ratios.
_LEAST, _SPREAD, _GOLDEN = 0.01, 0.02, 0.6180339887498949


@dataclass
class Finding:
    """The outcome for an example, and for nearby numbers if they were needed."""

    #: What is wrong; empty if nothing is.
    problem: str
    #: Whether the program does not run, or its results have a wrong type or shape.
    fails: bool
    #: The arguments that this was found with.
    example: Example
    #: Which elements of the example's results prove nothing; empty if there are none.
    excuse: str = ""
    #: Whether enough of the elements prove something, here or nearby.
    is_decided: bool = True

    def undecided(self) -> str:
        """Returns the problem to report if too few elements prove anything."""
        return (
            f"{self.excuse}. An output is not verified if that affects more than {MOST:.0%} of its "
            "elements"
        )


#: Runs an example. Returns the comparison, and `Finding.fails`.
Compare = Callable[[Example], tuple[Comparison, bool]]


def settled(example: Example, compare: Compare, results: Callable[..., list[Any]]) -> Finding:
    """Compares at the example, and nearby if rounding decides there. `results` runs the model with
    other arguments."""
    first, fails = compare(example)
    if first.problem or not first.excused:
        return Finding(first.problem, fails, example)
    finding = Finding("", False, example, _excuse(first), first.is_decided)
    fewest = first.total + 1
    for other in nearby(example, results):
        found, fails = compare(other)
        if found.problem:
            return Finding(found.problem, fails, other)
        finding.is_decided |= found.is_decided
        if found.excused < fewest:
            fewest = found.excused
            others = f"{found.excused} of {found.total} do too" if found.excused else "all agree"
            finding.excuse = f"{_excuse(first)}; at nearby numbers {others}"
        if not found.excused:
            break
    return finding


def _excuse(found: Comparison) -> str:
    return (
        f"{found.excused} of {found.total} elements differ (the worst is {found.worst}) where "
        "rounding of the arguments changes the result by as much: the model jumps there"
    )


def nearby(example: Example, results: Callable[..., list[Any]]) -> Iterator[Example]:
    """Yields the example with nearby numbers, none of them round, if the model takes them."""
    for each in (True, False):
        leaves = [shifted(leaf, each=each) for leaf in example.leaves]
        if all(one is other for one, other in zip(leaves, example.leaves, strict=True)):
            return
        try:
            wanted = results(leaves, example.tree)
        except Exception:  # the model may not take these numbers
            continue
        if _count_numbers(wanted) < _count_numbers(example.wanted):
            continue
        what = f"numbers near {example.what}"
        yield Example(what, leaves, example.tree, wanted, example.sizes)


def shifted(value: Any, *, each: bool = True) -> Any:
    """Returns the tensor with nearby numbers, always the same ones. Other values are unchanged."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    if value.layout != torch.strided or not value.numel() or value.element_size() == 1:
        return value
    share = torch.full((), _LEAST + _SPREAD * _GOLDEN, dtype=torch.float64)
    if each:
        places = torch.arange(1, value.numel() + 1, dtype=torch.float64).reshape(value.shape)
        share = _LEAST + _SPREAD * (places * _GOLDEN).frac()
    wide = value.detach().cpu().to(torch.complex128 if value.is_complex() else torch.float64)
    return (wide * (1 - share)).to(value.device, value.dtype)


def _count_numbers(values: list[Any]) -> float:
    """Returns the fraction of elements that are finite."""
    floats = [one for one in values if isinstance(one, torch.Tensor) and one.is_floating_point()]
    count = sum(one.numel() for one in floats)
    return sum(int(torch.isfinite(one).sum()) for one in floats) / count if count else 1.0
