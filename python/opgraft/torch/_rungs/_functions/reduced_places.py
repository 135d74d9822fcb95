"""Reductions into places of a tensor: scatter_reduce, index_reduce and put.

ONNX's ScatterElements reduces; what it lacks is means, and NaN among the largest and the smallest.
"""

from __future__ import annotations

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function
from opgraft.torch._rungs._functions.integers import Whole, gives_integers

_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def is_taken(call: Call) -> bool:
    dtype = call.example(0).dtype
    return axes.is_real(dtype) and dtype != torch.bool


@function("aten::index_reduce", when=is_taken)
def index_reduce(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """The indices, repeated for all elements of a slice."""
    op = call.op
    rank = call.example(0).dim()
    if rank == 0:
        x, source = axes.flat(call, x), axes.flat(call, source)
    axis = dim % max(rank, 1)
    index = axes.along(call, call.cast(index, torch.int64), max(rank, 1), axis)
    index = op.Expand(index, op.Shape(source))
    result = reduced(call, x, axis, index, source, reduce, include_self=include_self)
    return call.as_result(op.Squeeze(result) if rank == 0 else result)


def _is_wrong_in_torch(call: Call, _: int) -> bool:
    """Of means torch's exporter writes one after the other to the same place, among the largest and
    the smallest it drops NaN, and it wants as many sources as indices."""
    shapes = [list(map(str, call.argument(name).shape)) for name in ("index", "src")]
    return call.argument("reduce") in ("mean", "amax", "amin") or shapes[0] != shapes[1]


@function("aten::scatter_reduce.two", when=is_taken, replaces_torchs=_is_wrong_in_torch)
def scatter_reduce(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    op = call.op
    rank = call.example(0).dim()
    if rank == 0:
        x, index, source = (axes.flat(call, one) for one in (x, index, source))
    # Of the source as much counts as there are indices.
    every = axes.integers(call, *range(max(rank, 1)))
    start = axes.integers(call, *[0] * max(rank, 1))
    source = op.Slice(source, start, op.Shape(index), every)
    axis = dim % max(rank, 1)
    result = reduced(call, x, axis, index, source, reduce, include_self=include_self)
    return call.as_result(op.Squeeze(result) if rank == 0 else result)


def reduced(
    call: Call,
    x: Value,
    axis: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool,
) -> Value:
    """The tensor with the elements of the source, for each of which there is an index, reduced into
    it; in the type in which that was computed."""
    op = call.op
    dtype = _wide(call, reduce)
    x, source = call.cast(x, dtype), call.cast(source, dtype)
    kind = _REDUCTIONS[reduce]
    start = x
    is_reached: Value | None = None
    if not include_self:
        ones = op.Expand(call.constant(1, np.int32), op.Shape(index))
        nowhere = op.Expand(call.constant(0, np.int32), op.Shape(x))
        is_reached = call.cast(op.ScatterElements(nowhere, index, ones, axis=axis), torch.bool)
        start = op.Where(is_reached, _neutral(call, reduce, dtype), x)
    if reduce not in ("amax", "amin") or not dtype.is_floating_point:
        result = op.ScatterElements(start, index, source, axis=axis, reduction=kind)
        is_mean = reduce == "mean"
        return _mean(call, result, axis, index, is_reached, dtype) if is_mean else result
    worst = axes.extreme(call, dtype, largest=reduce == "amin")
    is_nan, comes_nan = op.IsNaN(start), op.IsNaN(source)
    start, source = op.Where(is_nan, worst, start), op.Where(comes_nan, worst, source)
    result = op.ScatterElements(start, index, source, axis=axis, reduction=kind)
    was, comes = call.cast(is_nan, torch.int32), call.cast(comes_nan, torch.int32)
    has_nan = op.ScatterElements(was, index, comes, axis=axis, reduction="max")
    nan = axes.constant_of(call, np.nan, dtype)
    return op.Where(call.cast(has_nan, torch.bool), nan, result)


def _wide(call: Call, reduce: str) -> torch.dtype:
    dtype = axes.compared_in(call.example(0).dtype)
    if reduce in ("amax", "amin"):
        return dtype
    return torch.float64 if dtype.is_floating_point else torch.int64


def _neutral(call: Call, reduce: str, dtype: torch.dtype) -> Value:
    if reduce in ("amax", "amin"):
        return axes.extreme(call, dtype, largest=reduce == "amin")
    return axes.constant_of(call, 1 if reduce == "prod" else 0, dtype)


def _mean(
    call: Call,
    sums: Value,
    axis: int,
    index: Value,
    is_reached: Value | None,
    dtype: torch.dtype,
) -> Value:
    """Sums over how many there are of each, at least one; whole ones rounded down."""
    op = call.op
    one = axes.constant_of(call, 1, dtype)
    ones = op.Expand(one, op.Shape(index))
    start = op.Expand(one, op.Shape(sums))
    if is_reached is not None:
        start = op.Where(is_reached, axes.constant_of(call, 0, dtype), start)
    counts = op.ScatterElements(start, index, ones, axis=axis, reduction="add")
    if gives_integers(call):
        # torch adds up in the type of the result, in which both may overflow.
        sums, counts = (call.cast(call.as_result(every), dtype) for every in (sums, counts))
        counts = op.Where(op.Equal(counts, axes.constant_of(call, 0, dtype)), one, counts)
        return Whole(call, dtype).floor(sums, counts)
    return op.Div(sums, counts)


@function("aten::put", when=is_taken)
def put(call: Call, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """Into the elements as one vector; sums as integers or doubles."""
    op = call.op
    elements, places, values = (axes.flat(call, one) for one in (x, index, source))
    places = call.cast(places, torch.int64)
    if accumulate:
        dtype = _wide(call, "sum")
        elements, values = call.cast(elements, dtype), call.cast(values, dtype)
    kind = "add" if accumulate else "none"
    result = op.ScatterElements(elements, places, values, axis=0, reduction=kind)
    return call.as_result(op.Reshape(result, op.Shape(x), allowzero=1))
