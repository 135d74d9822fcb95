"""Shape rules on torch's symbolic sizes: symbols in, expressions out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opgraft import _pyop
from opgraft._base._errors import Error

#: What a size is while torch traces; None where a rule leaves it open.
Size = int | torch.SymInt
Shape = Sequence[int | torch.SymInt | None]
#: From shapes with names for what is symbolic to shapes with expressions of those names.
Infer = Callable[[Sequence[Any]], Sequence[Any]]


def infer_by_names(shapes: Sequence[Sequence[Size] | None], infer: Infer) -> list[Shape | None]:
    """What a rule says that takes and gives text: sizes that are symbolic have names, the same
    where they are certainly the same.

    Where it cannot tell, as of two sizes of which either may be 1, it is asked again with some of
    them taken for one; if that helps, torch is told that they are the same, if they are.
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
    """Asks torch, which makes a condition of it. Of a size that depends on values nobody knows."""
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
    """The value of an expression such as `(n0 + 2)//n1`."""
    value = _pyop.evaluate_size(text, dict(symbols))
    if value is None:
        raise Error(f"a shape rule gave the size {text!r}, which is no expression of sizes")
    return value
