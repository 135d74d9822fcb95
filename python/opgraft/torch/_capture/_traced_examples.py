"""The arguments that a traced model is verified with: those given, other sizes, and other data.

A trace is less reliable than a program of torch.export: a tensor that silently became a Python
value is a constant in it. So it is compared with the model on other data too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture._examples import MANY, Example, is_small, results_of, with_length
from opgraft.torch._capture._open_sizes import OpenSizes, Size

#: How many other sizes, and how much other data, are tried.
SIZES, DATA = 2, 3


def given(model: torch.nn.Module, leaves: list[Any], tree: Any) -> Example:
    return Example("the given arguments", leaves, tree, results(model, leaves, tree))


def results(model: torch.nn.Module, leaves: list[Any], tree: Any) -> list[Any]:
    """The results of the model that are tensors."""
    found = results_of(model, leaves, tree)
    return [one for one in found if isinstance(one, torch.Tensor)]


def other_sizes(
    model: torch.nn.Module, example: Example, sizes: OpenSizes
) -> Iterator[Example | str]:
    """Yields the example with other sizes, until each size has changed and there are enough
    examples; at the end, a message if something is missing."""
    own = {name_of(size): int(size.example or 0) for size, _ in sizes.asked}
    count, refusal, left = 0, "", set(own)
    for numbers in _numbers(sizes, own):
        changed = {name for name, number in numbers.items() if number != own[name]}
        if count >= SIZES and not changed & left:
            continue
        found = _resized(model, example, sizes, numbers)
        if isinstance(found, str):
            refusal = f" ({found})"
            continue
        yield found
        count += 1
        left -= changed
        if count >= SIZES and not left:
            return
    if left:
        names = ", ".join(sorted(left))
        yield f"found no other size that the model accepts for {names}{refusal}"
    elif count < SIZES:
        yield f"found no second size that the model accepts{refusal}"


def ones(model: torch.nn.Module, example: Example, sizes: OpenSizes) -> Iterator[Example]:
    """Yields the example with all sizes 1, and with each size 1, as far as the model accepts
    them."""
    own = {name_of(size): int(size.example or 0) for size, _ in sizes.asked}
    least = {name_of(size): getattr(dim, "min", 1) for size, dim in sizes.asked}
    may_be = [name for name in own if own[name] != 1 and least[name] in (None, 0, 1)]
    for names in (may_be, *([one] for one in may_be)) if len(own) > 1 else (may_be,):
        found = _resized(model, example, sizes, {**own, **dict.fromkeys(names, 1)})
        if names and isinstance(found, Example):
            yield found


def _resized(
    model: torch.nn.Module, example: Example, sizes: OpenSizes, numbers: dict[str, int]
) -> Example | str:
    """The example with other sizes, or a message that says why the model rejects them."""
    leaves = list(example.leaves)
    for size, _ in sizes.asked:
        if size.axis is not None:
            leaf = leaves[size.position]
            leaves[size.position] = with_length(leaf, size.axis, numbers[name_of(size)])
    if not is_small(leaves, example.leaves):
        return "it would be too large to try"
    try:
        wanted = results(model, leaves, example.tree)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return Example("other sizes", leaves, example.tree, wanted, numbers)


def _numbers(sizes: OpenSizes, own: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes to try: all changed, then one at a time. Larger ones, since many errors show only
    there, and smaller ones, since a part of valid data is valid."""
    changes = ((2, 1), (1, -1), (1, 1), (2, 0), (1, -2), (3, 0))
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
    """The name of the dimension in the ONNX model."""
    return size.name or f"{size.parameter}_{size.position}_{size.axis}"


def other_data(model: torch.nn.Module, example: Example) -> Iterator[Example | str]:
    """Yields examples of the same sizes with other numbers: in reverse order, negated or lower."""
    count, refusal = 0, ""
    for leaves in other_leaves(example.leaves, model):
        try:
            wanted = results(model, leaves, example.tree)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        # NaN and infinities show nothing.
        if _are_finite(example.wanted) and not _are_finite(wanted):
            continue
        yield Example("other data", leaves, example.tree, wanted)
        count += 1
        if count == DATA:
            return
    if not count:
        yield "found no other data that the model accepts" + (f" ({refusal})" if refusal else "")


def other_leaves(leaves: Sequence[Any], model: torch.nn.Module) -> list[list[Any]]:
    """Arguments with other numbers, as far as they differ from the given ones. A TorchScript loop
    may never end for negative numbers and cannot be stopped, so there only the order changes."""
    has_loops = _private.has_scripts(model)
    changes = (_turned, _turned_floats) if has_loops else (_turned, _lowered, _turned_floats)
    changed = [
        [change(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        for change in changes
    ]
    return [one for one in changed if not _same(one, leaves)]


def _turned(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.flip(tuple(range(leaf.dim())))


def _turned_floats(leaf: torch.Tensor) -> torch.Tensor:
    return _turned(leaf) if leaf.is_floating_point() or leaf.is_complex() else leaf


def _lowered(leaf: torch.Tensor) -> torch.Tensor:
    """Negates floats. Lowers integers by 1, so that lengths and indices stay valid."""
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
