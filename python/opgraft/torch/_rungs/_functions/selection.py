"""Order statistics: kthvalue, median, nanmedian and mode.

Of equal elements torch's index is any: here it is the first one's (the last one's of `mode`, like
torch's for rows of up to 16). NaN counts as the largest number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function


def _is_taken(call: Call) -> bool:
    example, dim = call.example(0), call.arguments.get("dim", None)
    sizes = example.shape if dim is None or not example.dim() else [example.shape[dim]]
    has_elements = not any(axes.known(size) and size == 0 for size in sizes)
    return has_elements and axes.is_real(example.dtype)


class _Rows:
    """The elements along one axis, in which some are looked for."""

    def __init__(self, call: Call, x: Value, dim: int | None) -> None:
        """`dim` is None for all elements."""
        self.call, self.op = call, call.op
        example = call.example(0)
        rank = 1 if dim is None else example.dim()
        self.is_scalar = rank == 0
        self.axis = dim % rank if rank and dim is not None else 0
        self.dtype = axes.compared_in(example.dtype)
        self.is_float = self.dtype.is_floating_point
        x = call.cast(x, self.dtype)
        self.x = axes.flat(call, x) if dim is None or self.is_scalar else x
        if dim is None and self.is_float:
            self.x = self._never_empty(self.x, example)
        self.axes = axes.integers(call, self.axis)
        self.count = axes.size(call, self.x, self.axis)
        self.numbers = self.x
        if self.is_float:
            self.is_nan = self.op.IsNaN(self.x)
            infinity = axes.extreme(call, self.dtype, largest=True)
            self.numbers = self.op.Where(self.is_nan, infinity, self.x)
            self.nans = self.op.ReduceSum(
                call.cast(self.is_nan, torch.int64), self.axes, keepdims=1
            )

    def _never_empty(self, x: Value, example: torch.Tensor) -> Value:
        """NaN where there is nothing, which is what torch returns."""
        if all(map(axes.known, example.shape)):
            return x
        nan = self.op.CastLike(self.call.constant([np.nan]), x)
        lacking = self.op.Sub(axes.integers(self.call, 1), axes.size(self.call, x, 0))
        lacking = self.op.Max(lacking, axes.integers(self.call, 0))
        return self.op.Concat(x, self.op.Expand(nan, lacking), axis=0)

    def smallest(self, k: Value) -> Value:
        """The k-th smallest, by selecting k elements without sorting them."""
        values, _ = self.call.append(
            "TopK", [self.numbers, k], 2, axis=self.axis, largest=0, sorted=0
        )
        return self.op.ReduceMax(values, self.axes, keepdims=1)

    def upwards(self, k: Value) -> Value:
        """The k smallest, sorted."""
        return self.call.append("TopK", [self.numbers, k], 2, axis=self.axis, largest=0)[0]

    def or_nan(self, value: Value, is_nan: Value) -> Value:
        return self.op.Where(is_nan, axes.constant_of(self.call, np.nan, self.dtype), value)

    def place(self, value: Value, is_nan: Value | None, *, last: bool = False) -> Value:
        """The index of the value."""
        mask = self.op.Equal(self.x, value)
        if is_nan is not None:
            mask = self.op.And(mask, self.op.Not(is_nan))
            mask = self.op.Or(mask, self.op.And(self.is_nan, is_nan))
        mask = self.call.cast(mask, torch.int32)
        return self.op.ArgMax(mask, axis=self.axis, keepdims=1, select_last_index=int(last))

    def arranged(self, value: Value, *, keepdim: bool) -> Value:
        return value if keepdim and not self.is_scalar else self.op.Squeeze(value, self.axes)

    def with_place(
        self, value: Value, is_nan: Value | None, *, keepdim: bool, last: bool = False
    ) -> list[Value]:
        place = self.place(value, is_nan, last=last)
        found = value if is_nan is None else self.or_nan(value, is_nan)
        found = self.call.cast(found, self.call.result[0].dtype)
        return [self.arranged(one, keepdim=keepdim) for one in (found, place)]


@function("aten::kthvalue", when=_is_taken)
def kthvalue(call: Call, x: Value, k: Any, dim: int = -1, keepdim: bool = False) -> list[Value]:
    rows = _Rows(call, x, dim)
    wanted = call.op.Reshape(axes.whole(call, k), axes.integers(call, 1))
    value = rows.smallest(wanted)
    is_nan = None
    if rows.is_float:
        is_nan = call.op.Greater(wanted, call.op.Sub(rows.count, rows.nans))
    return rows.with_place(value, is_nan, keepdim=keepdim)


@function("aten::median", when=_is_taken)
def median(call: Call, x: Value) -> Value:
    value, is_nan = _median(call, rows := _Rows(call, x, None))
    value = value if is_nan is None else rows.or_nan(value, is_nan)
    return call.as_result(rows.arranged(value, keepdim=False))


@function("aten::median.dim", when=_is_taken)
def median_along(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    value, is_nan = _median(call, rows := _Rows(call, x, dim))
    return rows.with_place(value, is_nan, keepdim=keepdim)


@function("aten::nanmedian", when=_is_taken)
def nanmedian(call: Call, x: Value) -> Value:
    value, is_nan = _nanmedian(call, rows := _Rows(call, x, None))
    value = value if is_nan is None else rows.or_nan(value, is_nan)
    return call.as_result(rows.arranged(value, keepdim=False))


@function("aten::nanmedian.dim", when=_is_taken)
def nanmedian_along(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    value, is_nan = _nanmedian(call, rows := _Rows(call, x, dim))
    return rows.with_place(value, is_nan, keepdim=keepdim)


def _median(call: Call, rows: _Rows) -> tuple[Value, Value | None]:
    """The lower one of the two in the middle, and whether there is a NaN."""
    value = rows.smallest(_half(call, rows.count))
    if not rows.is_float:
        return value, None
    return value, call.op.Greater(rows.nans, axes.integers(call, 0))


def _nanmedian(call: Call, rows: _Rows) -> tuple[Value, Value | None]:
    """The same of what is not NaN; the places of the middle differ between the rows."""
    if not rows.is_float:
        return _median(call, rows)
    op, zero = call.op, axes.integers(call, 0)
    numbers = op.Sub(rows.count, rows.nans)
    upwards = rows.upwards(_half(call, rows.count))
    middle = op.Max(op.Sub(_half(call, numbers), axes.integers(call, 1)), zero)
    return op.GatherElements(upwards, middle, axis=rows.axis), op.Equal(numbers, zero)


def _half(call: Call, count: Value) -> Value:
    """Half the count, rounded up, and at least one: TopK refuses one of nothing, as torch does."""
    op = call.op
    half = op.Div(op.Add(count, axes.integers(call, 1)), axes.integers(call, 2))
    return op.Max(half, axes.integers(call, 1))


@function("aten::mode", when=_is_taken)
def mode(call: Call, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """Sorts, and finds the first of the longest runs of equal elements."""
    op = call.op
    rows = _Rows(call, x, dim)
    rank = max(call.example(0).dim(), 1)
    upwards = rows.upwards(rows.count)
    begins = _differs_from_previous(call, upwards, rows.axis)
    turned = axes.moved(call, begins, rank, rows.axis, rank - 1)
    # Each row begins with a mark, so that all rows can be one.
    begin = op.Reshape(last_marked(call, axes.flat(call, turned)), op.Shape(turned), allowzero=1)
    begin = axes.moved(call, begin, rank, rank - 1, rows.axis)
    own = op.Reshape(axes.counted(call, op.Size(turned)), op.Shape(turned), allowzero=1)
    own = axes.moved(call, own, rank, rank - 1, rows.axis)
    length = op.Sub(own, begin)
    is_nan = None
    if rows.is_float:  # NaN was taken for infinity
        infinity = axes.extreme(call, rows.dtype, largest=True)
        length = op.Where(op.Equal(upwards, infinity), op.Sub(length, rows.nans), length)
        is_nan = op.Equal(rows.nans, rows.count)
    end = op.ArgMax(length, axis=rows.axis, keepdims=1)
    value = op.GatherElements(upwards, end, axis=rows.axis)
    return rows.with_place(value, is_nan, keepdim=keepdim, last=True)


def _differs_from_previous(call: Call, x: Value, axis: int) -> Value:
    """Whether an element is another than the one before; the first one is."""
    op = call.op
    later, earlier = axes.part(call, x, axis, 1, axes.END), axes.part(call, x, axis, 0, -1)
    first = axes.part(call, x, axis, 0, 1)
    return op.Concat(op.Equal(first, first), op.Not(op.Equal(later, earlier)), axis=axis)


def last_marked(call: Call, marks: Value) -> Value:
    """The place of the last mark at each place or before, in a vector that begins with a mark."""
    op = call.op
    places = axes.flat(call, op.NonZero(marks))
    counts = op.CumSum(call.cast(marks, torch.int64), call.constant(0, np.int64))
    # Much faster than Gather, which copies element by element.
    return op.GatherElements(places, op.Sub(counts, call.constant(1, np.int64)))
