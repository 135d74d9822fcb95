"""Hard numbers of each type, and the tensors of them that an operator is tried with."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._graphs import _graph

EASY = (0.0, -0.0, 1.0, -1.0, 10.0, -10.0, 100.0, -100.0, 0.5, -3.0)
_NOT_NUMBERS = (math.nan, math.inf, -math.inf, 1.0, -2.0, 0.0)
_WHOLE = (0, 1, -1, 10, -10, 100, -100, 7, -3)
#: The first integers that a float, and a double, cannot represent.
_LONG = (2**24 + 1, -(2**24) - 1, 2**53 + 1, -(2**53) - 1)
#: The parts of complex numbers: they cover the axes and all quadrants.
_PARTS = (0.0, -0.0, 1.0, -1.0, 10.0, -10.0)
_DIVIDING = frozenset(
    f"aten::{name}" for name in "div divide floor_divide fmod gcd lcm remainder true_divide".split()
)
_MOST_RUNS = 32
_ROWS_WITH_WEIGHTS = 2
#: The largest size of an axis if tensors are shrunk: more than there are easy numbers.
_SHRUNK = 12

#: A tensor for each input of a node.
Fills = dict[torch.fx.Node, torch.Tensor]


def _hard(dtype: torch.dtype) -> tuple[float, ...]:
    """Returns the large and the small numbers of a type."""
    if dtype == torch.float16:
        return (1e4, -1e4, 1e-4, -1e-4)
    huge = 1e200 if dtype == torch.float64 else 1e30
    return (1e10, -1e10, 1e-10, -1e-10, huge, -huge, 1 / huge, -1 / huge)


class Numbers:
    """The inputs that an operator is tried with, run by run.

    The tensors of an elementwise operator get our own sizes, so that they hold all pairs of
    numbers. Without `resize`, for a translation that is valid only for the example's sizes, they
    keep those, and the smaller tensors change from run to run.
    """

    def __init__(
        self, node: torch.fx.Node, *, resize: bool, chooses: bool = False, shrink: bool = False
    ) -> None:
        """`chooses`: no two elements may be equal. `shrink`: the tensors of operators that are not
        elementwise are made smaller than those of the example."""
        self._node = node
        self._chooses = chooses
        self._values = {one: one.meta["val"] for one in node.all_input_nodes}
        kinds = {one.dtype for one in self._values.values() if one.is_floating_point()}
        self._hard = min((_hard(one) for one in kinds), key=len, default=())
        self._is_pointwise = _graph.is_pointwise(node.target)
        self._divides = _graph.operator_name(node.target).partition(".")[0] in _DIVIDING
        self._most = _SHRUNK if shrink and not self._is_pointwise else None
        if self._is_pointwise:
            self.is_resized = resize and bool(self._resizable())
        else:
            self.is_resized = resize and shrink
        #: Whether the runs so far had all pairs of numbers; for reductions, a row for each number.
        self.is_complete = True

    def ones(self) -> Fills:
        return next(self._runs((1.0,)))

    def easy(self) -> list[Fills]:
        """Returns ones; and different easy numbers if our own sizes affect the result."""
        return [self.ones(), *([] if self._is_pointwise else [next(self._runs((0.5, 1.5, -0.25)))])]

    def finite(self) -> Iterator[Fills]:
        if self._chooses:
            yield self._distinct()
            return
        if self._is_pointwise:
            yield from self._runs((*EASY, *self._hard))
            return
        # One size at a time: in a sum, large numbers hide errors in the others.
        yield from itertools.islice(self._runs(EASY), self._enough)
        for size in sorted({abs(one) for one in self._hard if 1e-10 <= abs(one) <= 1e10}):
            yield from itertools.islice(self._runs((size, -size, size / 2)), 1)

    def extremes(self) -> list[float]:
        """Returns the magnitudes that reductions are tried with in addition to `finite`."""
        if self._is_pointwise or self._chooses:
            return []
        return sorted({abs(one) for one in self._hard if not 1e-10 <= abs(one) <= 1e10})

    def row(self, size: float) -> Fills:
        """Returns numbers of this magnitude; if it is large, with ones among them."""
        return next(self._runs((size, -size, size / 2, 1.0 if size > 1 else 0.0)))

    def not_numbers(self) -> Iterator[Fills]:
        """Yields NaN and infinities among finite numbers."""
        if self._chooses:
            yield self._distinct(with_nan=True)
        elif not any(one.is_complex() for one in self._values.values()):
            yield from itertools.islice(self._runs(_NOT_NUMBERS), self._enough)

    @property
    def _enough(self) -> int | None:
        """The number of runs that is enough: few with weights, whose rows soon have all numbers."""
        return _ROWS_WITH_WEIGHTS if not self._is_pointwise and len(self._values) > 1 else None

    def _distinct(self, *, with_nan: bool = False) -> Fills:
        """Returns distinct numbers in no particular order, with at most one NaN in a row."""
        found = {}
        for one, value in self._values.items():
            sizes = self._sizes(value)
            places = torch.arange(math.prod(sizes)).reshape(sizes)
            # Modulo a prime, so that all are distinct; all are exact in float32.
            found[one] = (places * 7919 % 1048583).to(value.dtype)
            if with_nan:
                diagonal = sum(torch.meshgrid(*map(torch.arange, sizes), indexing="ij"), places * 0)
                found[one][
                    diagonal % max(sizes, default=1) == min(1, max(sizes, default=1) - 1)
                ] = math.nan
        return found

    def _sizes(self, value: torch.Tensor) -> list[int]:
        return [min(size, self._most or size) for size in shape(value)]

    def _resizable(self) -> list[torch.fx.Node]:
        """Returns the inputs that may get another size. A scalar tensor among other types keeps
        its rank, because then it does not affect the type of the result."""
        is_of_one_type = len({one.dtype for one in self._values.values()}) == 1
        return [one for one, value in self._values.items() if value.ndim or is_of_one_type]

    def _runs(self, choice: tuple[float, ...]) -> Iterator[Fills]:
        if not self._is_pointwise:
            all_indices = self._rows(choice)
        elif self.is_resized:
            all_indices = self._pairs(choice)
        else:
            all_indices = self._pairs_in_sizes(choice)
        for run, all_of_run in enumerate(all_indices):
            if run == _MOST_RUNS:
                self.is_complete = False
                return
            yield {one: self._filled(one, choice, indices) for one, indices in all_of_run.items()}

    def without_zeros(self, fills: Fills) -> Fills:
        """Replaces zeros by ones in all integer tensors but the first, because torch refuses to
        divide integers by zero."""
        first, *_ = fills
        return {
            one: value
            if one is first or value.is_floating_point() or value.dtype == torch.bool
            else torch.where(value == 0, torch.ones_like(value), value)
            for one, value in fills.items()
        }

    def _filled(
        self, node: torch.fx.Node, choice: tuple[float, ...], indices: torch.Tensor
    ) -> torch.Tensor:
        """Returns the numbers at these indices of the list, which repeats."""
        row = self._row(node, choice)
        return row[indices % len(row)]

    def _row(self, node: torch.fx.Node, choice: tuple[float, ...]) -> torch.Tensor:
        """Returns the numbers in a node's type. Types other than floats have a fixed list, or
        ones."""
        return _row(self._values[node].dtype, choice, self._is_pointwise, self._divides)

    def _count(self, choice: tuple[float, ...]) -> int:
        """Returns the length of the longest list of numbers among the types."""
        return max(len(self._row(one, choice)) for one in self._values)

    def _rows(self, choice: tuple[float, ...]) -> Iterator[Fills]:
        """Yields indices with which the rows of each axis begin with different numbers."""
        step = _starts(self._node)
        for run in range(-(-len(choice) // step)):
            found = {}
            for place, (one, value) in enumerate(self._values.items()):
                indices = torch.tensor(run * step)
                for size in self._sizes(value):
                    indices = indices.unsqueeze(-1) + torch.arange(size)
                found[one] = indices // len(choice) if place % 2 else indices
            yield found

    def _pairs(self, choice: tuple[float, ...]) -> Iterator[Fills]:
        """Yields indices that hold all pairs of numbers of any two inputs at once, except inputs
        that keep their sizes. The sizes are the same for all lists of numbers."""
        resizable = self._resizable()
        count = self._count(choice)
        flat = torch.arange(self._count((*EASY, *self._hard)) ** min(len(resizable), 2))
        first, second = flat % count, flat // count
        orders = (first, second, first + second)
        found = {}
        for place, one in enumerate(resizable):
            sizes = [1] * (self._values[one].ndim - 1) + [len(flat)]
            found[one] = orders[place % 3].reshape(sizes)
        others = [one for one in self._values if one not in found]
        for run in range(count if others else 1):
            yield found | dict.fromkeys(others, torch.tensor(run))

    def _pairs_in_sizes(self, choice: tuple[float, ...]) -> Iterator[Fills]:
        """Yields indices in the sizes of the example: all pairs of the largest input and each of
        the others."""
        shapes = {one: shape(value) for one, value in self._values.items()}
        counts = [math.prod(sizes) for sizes in shapes.values()]
        count, most = self._count(choice), max(counts)
        is_alike = min(counts) == most  # then an index counts pairs, otherwise numbers
        pairs = count ** min(len(counts), 2)
        for run in range(-(-pairs // most) if is_alike else count * -(-count // most)):
            found = {}
            is_first = True
            for place, (one, sizes) in enumerate(shapes.items()):
                indices = torch.arange(math.prod(sizes)).reshape(sizes)
                if is_alike:
                    indices = indices + run * most
                    indices = indices // count if place % 2 else indices
                elif indices.numel() == most and is_first:
                    is_first = False
                    indices = indices + run // count * most
                else:
                    indices = indices + run
                found[one] = indices
            yield found


def _starts(node: torch.fx.Node) -> int:
    """Returns how many consecutive numbers occur as the first of a row that is reduced."""
    (first, *others) = node.all_input_nodes
    reduced = _graph.arguments(node).get("dim")
    axes = [reduced] if isinstance(reduced, int) else reduced
    if others or not isinstance(axes, (list, tuple)) or not axes:
        return 1
    sizes = shape(first.meta["val"])
    kept = set(range(len(sizes))) - {axis % max(len(sizes), 1) for axis in axes}
    return 1 + sum(sizes[axis] - 1 for axis in kept)


@functools.cache
def _row(
    dtype: torch.dtype, choice: tuple[float, ...], is_pointwise: bool, divides: bool
) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_complex:
        parts = _PARTS if len(choice) > 1 else choice
        return torch.tensor([complex(*pair) for pair in itertools.product(parts, parts)]).to(dtype)
    if dtype.is_floating_point or len(choice) == 1:
        return torch.tensor(choice, dtype=dtype)
    ends = torch.iinfo(dtype)
    # The smallest integer divided by -1 crashes both torch and ONNX Runtime.
    largest = (ends.max, ends.max - 1, *([] if divides else [ends.min]))
    # Sums of large integers overflow, and ONNX Runtime computes them in doubles.
    numbers = dict.fromkeys((*_WHOLE, *_LONG, *largest) if is_pointwise else _WHOLE)
    return torch.tensor([one for one in numbers if ends.min <= one <= ends.max], dtype=dtype)


def tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def shape(value: Any) -> list[int]:
    """Returns the shape, with the example's sizes for open ones; 0, which is never tried, if the
    example has none."""
    return [
        (_private.hint(size) or 0) if isinstance(size, torch.SymInt) else int(size)
        for size in value.shape
    ]
