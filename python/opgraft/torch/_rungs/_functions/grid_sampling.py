"""grid_sample of volumes, which ONNX has from opset 20 on."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function

_NEAREST = 1  # of the modes of interpolation
_ZEROS, _REFLECTION = 0, 2  # of those of padding
#: Where torch looks for what is no number, or beyond all integers: outside.
_NOWHERE = -100.0
_LARGEST = 2.0**31


def _is_taken(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function("aten::grid_sampler_3d", when=_is_taken)
def grid_sampler_3d(
    call: Call,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    """Gathers the corners around each place from each plane, and weighs them."""
    op = call.op
    x, grid = call.working(x), call.working(grid)
    sizes = [axes.size(call, x, axis) for axis in (2, 3, 4)]
    # The last coordinate of the grid is that of the first axis.
    coordinates = [
        _placed(
            call,
            op.Gather(grid, axes.whole(call, 2 - place), axis=4),
            size,
            padding_mode,
            is_aligned=align_corners,
        )
        for place, size in enumerate(sizes)
    ]
    ends = op.Shape(x, start=0, end=2)
    elements = op.Reshape(x, op.Concat(ends, axes.integers(call, -1), axis=0))
    elements = op.Transpose(elements, perm=[0, 2, 1])
    if interpolation_mode == _NEAREST:
        corners = [[(op.Round(one), None)] for one in coordinates]
    else:
        corners = [_neighbours(call, one) for one in coordinates]
    total = None
    for corner in itertools.product(*corners):
        value = _value(call, elements, [place for place, _ in corner], sizes)
        for_corner = [weight for _, weight in reversed(corner) if weight is not None]
        if for_corner:
            weight = op.Mul(op.Mul(for_corner[0], for_corner[1]), for_corner[2])
            value = op.Mul(value, op.Unsqueeze(_in_rows(call, weight), axes.integers(call, -1)))
        total = value if total is None else op.Add(total, value)
    shape = op.Concat(ends, op.Shape(grid, start=1, end=4), axis=0)
    return call.as_result(op.Reshape(op.Transpose(total, perm=[0, 2, 1]), shape, allowzero=1))


def _placed(call: Call, x: Value, size: Value, padding_mode: int, *, is_aligned: bool) -> Value:
    """From -1 to 1 to places on an axis, within it unless it is padded by zeros."""
    op = call.op
    zero, one, two = map(call.working_constant, (0.0, 1.0, 2.0))
    count = call.working(size)
    last = op.Sub(count, one)
    if is_aligned:
        x = op.Mul(op.Div(op.Add(x, one), two), last)
    else:
        x = op.Div(op.Sub(op.Mul(op.Add(x, one), count), one), two)
    if padding_mode == _REFLECTION:
        half = call.working_constant(0.5)
        start, span = (zero, last) if is_aligned else (op.Neg(half), count)
        distance = op.Abs(op.Sub(x, start))
        # An axis of one element has nothing to reflect in.
        is_point = op.Equal(span, zero)
        divisor = op.Where(is_point, one, span)
        extra = op.Mod(distance, divisor, fmod=1)
        flips = op.Floor(op.Div(distance, divisor))
        is_even = op.Equal(op.Mod(flips, two, fmod=1), zero)
        x = op.Add(op.Where(is_even, extra, op.Sub(divisor, extra)), start)
        x = op.Where(is_point, zero, x)
    if padding_mode != _ZEROS:
        # What is no number goes to the end.
        x = op.Where(op.Less(x, zero), zero, x)
        x = op.Where(op.Less(x, last), x, last)
    is_number = op.Less(op.Abs(x), call.working_constant(_LARGEST))
    return op.Where(is_number, x, call.working_constant(_NOWHERE))


def _in_rows(call: Call, x: Value) -> Value:
    """A vector for each element of the batch."""
    return call.op.Flatten(x, axis=1)


def _neighbours(call: Call, x: Value) -> list[tuple[Value, Value]]:
    """The places at both sides, and their weights."""
    op = call.op
    low = op.Floor(x)
    high = op.Add(low, call.working_constant(1.0))
    return [(low, op.Sub(high, x)), (high, op.Sub(x, low))]


def _value(call: Call, elements: Value, corner: list[Value], sizes: list[Value]) -> Value:
    """The elements at a corner; 0 outside."""
    op = call.op
    is_within = where = None
    for place, size in zip(corner, sizes, strict=True):
        whole = call.cast(place, torch.int64)
        inside = op.And(op.GreaterOrEqual(whole, axes.integers(call, 0)), op.Less(whole, size))
        is_within = inside if is_within is None else op.And(is_within, inside)
        where = whole if where is None else op.Add(op.Mul(where, size), whole)
    where = op.Where(is_within, where, call.constant(0, np.int64))
    last = axes.integers(call, -1)
    found = op.GatherND(elements, op.Unsqueeze(_in_rows(call, where), last), batch_dims=1)
    is_within = op.Unsqueeze(_in_rows(call, is_within), last)
    return op.Where(is_within, found, call.working_constant(0.0))
