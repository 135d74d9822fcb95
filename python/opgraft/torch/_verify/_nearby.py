"""Compares where an example lies on a jump of the model: at numbers nearby, which decide.

`floor` is 1 or 2 at 2.0, as rounding goes, so that no result is wrong there. At 1.97 one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch._capture._examples import Example
from opgraft.torch._verify._rounding import MOST, Comparison

#: By which shares numbers are made less, so that what is a probability, or must be positive, stays
#: so. Each by another, which ends ties; all by the same, which keeps what depends on their ratios.
_LEAST, _SPREAD, _GOLDEN = 0.01, 0.02, 0.6180339887498949


@dataclass
class Finding:
    """What came of an example, and of the numbers near it where these had to be asked."""

    #: What is wrong, in words; empty where nothing is.
    problem: str
    #: Whether nobody can use what the program gives.
    fails: bool
    #: With which arguments.
    example: Example
    #: Which elements of the example's results say nothing, in words; empty where all say something.
    excuse: str = ""
    #: Whether enough of them say something, here or nearby.
    is_decided: bool = True

    def undecided(self) -> str:
        """What is wrong where nothing is decided, in words."""
        return (
            f"{self.excuse}. Nothing is verified where that is more than {MOST:.0%} of the "
            "elements of an output"
        )


#: What a run gives, and whether nobody can use that.
Compare = Callable[[Example], tuple[Comparison, bool]]


def settled(example: Example, compare: Compare, results: Callable[..., list[Any]]) -> Finding:
    """Compares at the example, and nearby where rounding decides there. `results` is what the model
    gives for other arguments."""
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
            finding.excuse = f"{_excuse(first)}; at numbers nearby {others}"
        if not found.excused:
            break
    return finding


def _excuse(found: Comparison) -> str:
    return (
        f"{found.excused} of {found.total} elements differ (the worst is {found.worst}) where "
        "rounding of the arguments moves the result as far: the model jumps there"
    )


def nearby(example: Example, results: Callable[..., list[Any]]) -> Iterator[Example]:
    """The example with numbers near its own, none of them round, as far as the model takes them."""
    for each in (True, False):
        leaves = [shifted(leaf, each=each) for leaf in example.leaves]
        if all(one is other for one, other in zip(leaves, example.leaves, strict=True)):
            return
        try:
            wanted = results(leaves, example.tree)
        except Exception:  # they may be none that it takes
            continue
        if _count_numbers(wanted) < _count_numbers(example.wanted):
            continue
        what = f"numbers near {example.what}"
        yield Example(what, leaves, example.tree, wanted, example.sizes)


def shifted(value: Any, *, each: bool = True) -> Any:
    """The tensor with other numbers near its own, always the same; other values as they are."""
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
    """How many elements are finite, of all."""
    floats = [one for one in values if isinstance(one, torch.Tensor) and one.is_floating_point()]
    count = sum(one.numel() for one in floats)
    return sum(int(torch.isfinite(one).sum()) for one in floats) / count if count else 1.0
