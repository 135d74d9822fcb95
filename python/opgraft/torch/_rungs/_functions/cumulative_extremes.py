"""cummax and cummin: in a number of steps that is the logarithm of the size.

Of equal elements the last one counts, like in torch, and of NaN each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function
from opgraft.torch._rungs._functions.selection import last_marked


def _is_taken(call: Call) -> bool:
    return axes.is_real(call.example(0).dtype)


@function("aten::cummax", when=_is_taken)
def cummax(call: Call, x: Value, dim: int) -> list[Value]:
    return _cumulative(call, x, dim, is_max=True)


@function("aten::cummin", when=_is_taken)
def cummin(call: Call, x: Value, dim: int) -> list[Value]:
    return _cumulative(call, x, dim, is_max=False)


def _cumulative(call: Call, x: Value, dim: int, *, is_max: bool) -> list[Value]:
    """The extremes so far say at which elements there is a new one; its place is the index of all
    up to the next, and the index gives the value."""
    op = call.op
    example = call.example(0)
    rank = example.dim()
    if rank == 0:
        return [op.Identity(x), call.constant(0, np.int64)]
    if any(axes.known(length) and length == 0 for length in example.shape):
        return [op.Identity(x), call.cast(x, torch.int64)]
    axis = dim % rank
    turned = axes.moved(call, x, rank, axis, rank - 1)
    dtype = axes.compared_in(example.dtype)
    numbers = call.cast(turned, dtype)
    worst = axes.extreme(call, dtype, largest=not is_max)
    is_nan = None
    if dtype.is_floating_point:
        is_nan = op.IsNaN(numbers)
        numbers = op.Where(is_nan, worst, numbers)
    best = _so_far(call, numbers, rank, example.shape[axis], worst, "Max" if is_max else "Min")
    is_new = op.Equal(numbers, best)
    if is_nan is not None:  # from the first NaN on, only NaN is new
        nans = op.CumSum(call.cast(is_nan, torch.int32), call.constant(rank - 1, np.int64))
        is_new = op.Or(is_nan, op.And(is_new, op.Equal(nans, call.constant(0, np.int32))))
    places = last_marked(call, axes.flat(call, is_new))
    shape = op.Shape(turned)
    values = op.Reshape(op.GatherElements(axes.flat(call, turned), places), shape, allowzero=1)
    if rank > 1:
        length = op.Max(axes.size(call, turned, rank - 1), axes.integers(call, 1))
        places = op.Mod(places, length)
    indices = op.Reshape(places, shape, allowzero=1)
    return [axes.moved(call, one, rank, rank - 1, axis) for one in (values, indices)]


def _so_far(call: Call, x: Value, rank: int, length: Any, worst: Value, better: str) -> Value:
    """The extreme of the elements up to each one on the last axis: of 2, of 4, of 8 and so on."""
    op = call.op

    def step(x: Value, distance: Value) -> Value:
        """The better one of each element and the one at this distance before it."""
        nothing = axes.integers(call, *[0] * (rank - 1))
        pads = op.Concat(nothing, distance, nothing, op.Neg(distance), axis=0)
        return getattr(op, better)(x, op.Pad(x, pads, worst))

    if axes.known(length):
        for power in range((length - 1).bit_length()):
            distance = 1 << power
            pads = axes.integers(call, *[0] * (rank - 1), distance, *[0] * (rank - 1), -distance)
            x = getattr(op, better)(x, op.Pad(x, pads, worst))
        return x
    dtype = axes.compared_in(call.example(0).dtype)
    one, two = axes.integers(call, 1), axes.integers(call, 2)

    def build(_: Value, __: Value, x: Value, distance: Value) -> list[Value]:
        doubled = op.Mul(distance, two)
        return [op.Less(op.Squeeze(doubled), size), step(x, distance), doubled]

    size = op.Squeeze(axes.size(call, x, rank - 1))
    scalar, vector = (torch.int64, 0), (torch.int64, 1)
    inputs = [("trip", *scalar), ("goes_on", torch.bool, 0), ("x", dtype, rank)]
    outputs = [(torch.bool, 0), (dtype, rank), vector]
    body = axes.body(call, [*inputs, ("distance", *vector)], build, outputs)
    has_many = op.Greater(size, call.constant(1, np.int64))
    return call.append("Loop", [None, has_many, x, one], 2, body=body)[0]
