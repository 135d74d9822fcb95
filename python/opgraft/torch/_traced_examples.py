"""The arguments that a traced model is verified with: those given, other sizes, and other data.

A trace is less to be trusted than a program of torch.export: what became a value of Python's
without a word is in it as a constant. So it is held against the model with other data too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from opgraft.torch._examples import MANY, Example, results_of, with_length
from opgraft.torch._open_sizes import OpenSizes, Size

#: How many other sizes, and how much other data, are tried.
SIZES, DATA = 2, 3


def given(model: torch.nn.Module, leaves: list[Any], tree: Any) -> Example:
    return Example("the given arguments", leaves, tree, results(model, leaves, tree))


def results(model: torch.nn.Module, leaves: list[Any], tree: Any) -> list[Any]:
    """What the model gives, as far as it is a tensor."""
    found = results_of(model, leaves, tree)
    return [one for one in found if isinstance(one, torch.Tensor)]


def other_sizes(
    model: torch.nn.Module, example: Example, sizes: OpenSizes
) -> Iterator[Example | str]:
    """The example with other sizes, until each has been another one and there are as many as
    wanted; in the end, in words, what is lacking."""
    own = {name_of(size): int(size.example or 0) for size, _ in sizes.asked}
    count, refusal, left = 0, "", set(own)
    for numbers in _numbers(sizes, own):
        changed = {name for name, number in numbers.items() if number != own[name]}
        if count >= SIZES and not changed & left:
            continue
        leaves = list(example.leaves)
        for size, _ in sizes.asked:
            if size.axis is not None:
                leaf = leaves[size.position]
                leaves[size.position] = with_length(leaf, size.axis, numbers[name_of(size)])
        try:
            wanted = results(model, leaves, example.tree)
        except Exception as error:
            refusal = f" ({type(error).__name__}: {error}".splitlines()[0] + ")"
            continue
        yield Example("other sizes", leaves, example.tree, wanted, numbers)
        count += 1
        left -= changed
        if count >= SIZES and not left:
            return
    if left:
        yield f"no other size that the model takes was found for {', '.join(sorted(left))}{refusal}"
    elif count < SIZES:
        yield f"no second size that the model takes was found{refusal}"


def _numbers(sizes: OpenSizes, own: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """All sizes changed, then one alone. Fewer first: a part of good data is good data."""
    changes = ((1, -1), (1, 1), (2, 0), (1, -2), (3, 0))
    ways = [(names, *change) for names in (set(own), *({one} for one in own)) for change in changes]
    seen = [dict(own)]
    for names, times, plus in ways:
        numbers = dict(own)
        for size, dim in sizes.asked:
            if (name := name_of(size)) in names:
                least, most = getattr(dim, "min", 1), getattr(dim, "max", MANY)
                number = max(times * own[name] + plus, 1)
                if isinstance(least, int) and isinstance(most, int):
                    number = max(min(number, most), least)
                numbers[name] = number
        if numbers not in seen:
            seen.append(numbers)
            yield numbers


def name_of(size: Size) -> str:
    """What the dimension is called in the model."""
    return size.name or f"{size.parameter}_{size.position}_{size.axis}"


def other_data(model: torch.nn.Module, example: Example) -> Iterator[Example | str]:
    """The example's sizes with other numbers: its own in another order, negative and
    lower ones."""
    count, refusal = 0, ""
    for leaves in other_leaves(example.leaves):
        try:
            wanted = results(model, leaves, example.tree)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        # Of what is no number nothing can be learned.
        if _are_finite(example.wanted) and not _are_finite(wanted):
            continue
        yield Example("other data", leaves, example.tree, wanted)
        count += 1
        if count == DATA:
            return
    if not count:
        yield "no other data that the model takes was found" + (f" ({refusal})" if refusal else "")


def other_leaves(leaves: Sequence[Any]) -> list[list[Any]]:
    """Arguments with other numbers, as often as they can be others."""
    changed = [
        [change(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        for change in (_turned, _lowered, _turned_floats)
    ]
    return [one for one in changed if not _same(one, leaves)]


def _turned(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.flip(tuple(range(leaf.dim())))


def _turned_floats(leaf: torch.Tensor) -> torch.Tensor:
    return _turned(leaf) if leaf.is_floating_point() or leaf.is_complex() else leaf


def _lowered(leaf: torch.Tensor) -> torch.Tensor:
    """Numbers below 0, but whole ones a little lower, so that lengths and indices stay such."""
    if leaf.is_floating_point() or leaf.is_complex():
        return -leaf
    return leaf if leaf.dtype == torch.bool else torch.where(leaf > 1, leaf - 1, leaf)


def _same(leaves: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(
        torch.equal(one, other) if isinstance(one, torch.Tensor) else one is other
        for one, other in zip(leaves, others, strict=True)
    )


def _are_finite(values: Sequence[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(one).all()) for one in values if one.is_floating_point())
