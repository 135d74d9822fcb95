"""Hard numbers of each type, and the tensors of them that an operator is tried with."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch

from opgraft.torch import _graph, _private

EASY = (0.0, -0.0, 1.0, -1.0, 10.0, -10.0, 100.0, -100.0, 0.5, -3.0)
_NOT_NUMBERS = (math.nan, math.inf, -math.inf, 1.0, -2.0, 0.0)
_WHOLE = (0, 1, -1, 10, -10, 100, -100, 7, -3)
_MOST_RUNS = 32

#: A tensor for each input of a node.
Fills = dict[torch.fx.Node, torch.Tensor]


def _hard(dtype: torch.dtype) -> tuple[float, ...]:
    """The large and the small numbers of a type."""
    if dtype == torch.float16:
        return (1e4, -1e4, 1e-4, -1e-4)
    huge = 1e200 if dtype == torch.float64 else 1e30
    return (1e10, -1e10, 1e-10, -1e-10, huge, -huge, 1 / huge, -1 / huge)


def ones(node: torch.fx.Node) -> Fills:
    return next(_runs(node, (1.0,), 1))


def numbers(node: torch.fx.Node) -> Iterator[Fills]:
    """What a node is tried with, run by run: all finite."""
    values = [one.meta["val"] for one in node.all_input_nodes]
    kinds = {one.dtype for one in values if one.is_floating_point()}
    hard = min((_hard(one) for one in kinds), key=len, default=())
    if _graph.is_pointwise(node.target):
        all_numbers = (*EASY, *hard)
        yield from _runs(node, all_numbers, len(all_numbers) ** min(len(values), 2))
        return
    # In a sum the large ones hide what becomes of the others.
    yield from _runs(node, EASY, len(EASY))
    for size in sorted({abs(one) for one in hard if 1e-10 <= abs(one) <= 1e10}):
        yield from _runs(node, (size, -size, size / 2), 1)


def not_numbers(node: torch.fx.Node) -> Iterator[Fills]:
    """NaN and infinities, among numbers."""
    yield from _runs(node, _NOT_NUMBERS, len(_NOT_NUMBERS))


def _runs(node: torch.fx.Node, choice: tuple[float, ...], count: int) -> Iterator[Fills]:
    """Tensors that hold so many of all combinations of the numbers, in as many runs as needed; of
    reducing operators each row begins with another number."""
    shapes = {one: shape(one.meta["val"]) for one in node.all_input_nodes}
    is_pointwise = _graph.is_pointwise(node.target)
    step = max(map(math.prod, shapes.values())) if is_pointwise else _starts(node)
    for run in range(min(-(-count // step), _MOST_RUNS)):
        fills = {}
        for place, (one, sizes) in enumerate(shapes.items()):
            if is_pointwise:
                indices = torch.arange(run * step, run * step + math.prod(sizes)).reshape(sizes)
            else:
                indices = torch.tensor(run * step)
                for size in sizes:  # so that rows of any axis begin with another
                    indices = indices.unsqueeze(-1) + torch.arange(size)
            if place % 2:
                indices = indices // len(choice)
            fills[one] = _filled(one.meta["val"].dtype, choice, indices)
        yield fills


def _starts(node: torch.fx.Node) -> int:
    """With how many numbers one after the other the rows begin that an operator reduces."""
    (first, *others) = node.all_input_nodes
    reduced = _graph.arguments(node).get("dim")
    axes = [reduced] if isinstance(reduced, int) else reduced
    if others or not isinstance(axes, (list, tuple)) or not axes:
        return 1
    sizes = shape(first.meta["val"])
    kept = set(range(len(sizes))) - {axis % max(len(sizes), 1) for axis in axes}
    return 1 + sum(sizes[axis] - 1 for axis in kept)


@functools.cache
def _row(dtype: torch.dtype, choice: tuple[Any, ...]) -> torch.Tensor:
    return torch.tensor(choice, dtype=dtype)


def _filled(dtype: torch.dtype, choice: tuple[float, ...], indices: torch.Tensor) -> torch.Tensor:
    """A tensor of the numbers at these places of the list, over and over."""
    if dtype == torch.bool:
        return indices % 2 == 0
    row = _row(dtype, choice if dtype.is_floating_point else _WHOLE)
    return row[indices % len(row)]


def tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def shape(value: Any) -> list[int]:
    """With the sizes of the example; 0, which nobody tries, where it has none."""
    return [
        (_private.hint(size) or 0) if isinstance(size, torch.SymInt) else int(size)
        for size in value.shape
    ]
