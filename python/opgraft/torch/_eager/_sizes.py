"""Applies shape rules to torch's symbolic sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opgraft import _pyop
from opgraft._base._errors import Error

#: A size while torch traces. In a Shape, None is a size that the rule leaves open.
Size = int | torch.SymInt
Shape = Sequence[int | torch.SymInt | None]
#: Takes shapes with a name for each symbolic size, and returns shapes with expressions of them.
Infer = Callable[[Sequence[Any]], Sequence[Any]]


def infer_by_names(shapes: Sequence[Sequence[Size] | None], infer: Infer) -> list[Shape | None]:
    """Applies a rule that works on text. Each symbolic size gets a name; sizes that are certainly
    equal get the same name.

    If the rule leaves a size open, for example because either of two sizes may be 1, it is applied
    again as if two of the sizes were equal. If that helps, and torch finds that they are equal, the
    second result is used.
    """
    symbols: dict[str, torch.SymInt] = {}
    texts: dict[str, str] = {}

    def name(size: Size) -> int | str:
        if isinstance(size, int):
            return size
        known = texts.setdefault(str(size), f"n{len(texts)}")
        symbols[known] = size
        return known

    named = [None if shape is None else tuple(map(name, shape)) for shape in shapes]
    found = infer(named)
    for first, second in itertools.combinations(list(symbols), 2):
        if not _count_open(found):
            break
        merged = [_replaced(shape, second, first) for shape in named]
        better = infer(merged)
        if _count_open(better) < _count_open(found) and _is_same(symbols[first], symbols[second]):
            named, found = merged, better
    return [
        None if shape is None else [_evaluated(size, symbols) for size in shape] for shape in found
    ]


def _count_open(shapes: Sequence[Any]) -> int:
    return sum(1 if shape is None else list(shape).count(None) for shape in shapes)


def _is_same(one: torch.SymInt, other: torch.SymInt) -> bool:
    """Asks torch, which adds a guard. False for sizes that depend on data."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return bool(one == other)
    except GuardOnDataDependentSymNode:
        return False


def _replaced(shape: Any, old: str, new: str) -> Any:
    return None if shape is None else tuple(new if size == old else size for size in shape)


def _evaluated(size: int | str | None, symbols: Mapping[str, torch.SymInt]) -> Any:
    return evaluate(size, symbols) if isinstance(size, str) else size


def evaluate(text: str, symbols: Mapping[str, Any]) -> Any:
    """Returns the value of an expression such as `(n0 + 2)//n1`."""
    value = _pyop.evaluate_size(text, dict(symbols))
    if value is None:
        raise Error(f"a shape rule returned the size {text!r}, which is no expression of sizes")
    return value
