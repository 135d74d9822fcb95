"""Choices of elements: masked_select, nonzero, nonzero_static, fmax, fmin and extremes of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function


@function("aten::masked_select")
def masked_select(call: Call, x: Value, mask: Value) -> Value:
    op = call.op
    shape = op.Shape(op.Or(mask, op.Expand(call.constant(False, bool), op.Shape(x))))
    elements, flags = (axes.flat(call, op.Expand(one, shape)) for one in (x, mask))
    return op.Compress(elements, flags, axis=0)


def _is_scalar(call: Call) -> bool:
    return bool(call.example(0).dim() == 0)


@function("aten::nonzero", when=_is_scalar, replaces_torchs=lambda call, _: _is_scalar(call))
def nonzero(call: Call, x: Value) -> Value:
    """Of a scalar: a row without columns, or no row. torch's exporter has a column."""
    rows = call.op.Reshape(call.cast(call.cast(x, torch.bool), torch.int64), axes.integers(call, 1))
    shape = call.op.Concat(rows, axes.integers(call, 0), axis=0)
    return call.cast(call.op.ConstantOfShape(shape), torch.int64)


@function("aten::nonzero_static")
def nonzero_static(call: Call, x: Value, *, size: Any, fill_value: int = -1) -> Value:
    """As many rows as asked for: the first ones, or others filled."""
    op = call.op
    rank = call.example(0).dim()
    wanted = op.Reshape(axes.whole(call, size), axes.integers(call, 1))
    shape = op.Concat(wanted, axes.integers(call, rank), axis=0)
    if rank == 0:  # rows without columns
        return op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, np.int64)))
    found = op.Transpose(op.NonZero(call.cast(x, torch.bool)), perm=[1, 0])
    filled = op.Expand(call.constant(fill_value, np.int64), shape)
    return axes.part_to(call, op.Concat(found, filled, axis=0), wanted)


def _is_all(call: Call) -> bool:
    return axes.is_real(call.example(0).dtype) and not call.argument("dim")


@function("aten::amax", when=_is_all)
def amax(call: Call, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """Of all elements: torch's exporter wants axes."""
    return _extreme(call, x, is_max=True, keep=keepdim)


@function("aten::amin", when=_is_all)
def amin(call: Call, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    return _extreme(call, x, is_max=False, keep=keepdim)


def _extreme(call: Call, x: Value, *, is_max: bool, keep: bool) -> Value:
    op = call.op
    if _is_scalar(call):
        return op.Identity(x)
    dtype = axes.compared_in(call.example(0).dtype)
    x = call.cast(x, dtype)
    reduce = op.ReduceMax if is_max else op.ReduceMin
    if not dtype.is_floating_point:
        return call.as_result(reduce(x, keepdims=int(keep)))
    is_nan = op.IsNaN(x)
    worst = axes.extreme(call, dtype, largest=not is_max)
    best = reduce(op.Where(is_nan, worst, x), keepdims=int(keep))
    has_nan = op.ReduceMax(call.cast(is_nan, torch.int32), keepdims=int(keep))
    nan = axes.constant_of(call, np.nan, dtype)
    return call.as_result(op.Where(call.cast(has_nan, torch.bool), nan, best))


def _gives_reals(call: Call) -> bool:
    return axes.is_real(call.result.dtype)


@function("aten::fmax", when=_gives_reals)
def fmax(call: Call, x: Value, y: Value) -> Value:
    return _better(call, x, y, "Max")


@function("aten::fmin", when=_gives_reals)
def fmin(call: Call, x: Value, y: Value) -> Value:
    return _better(call, x, y, "Min")


def _better(call: Call, x: Value, y: Value, kind: str) -> Value:
    """The larger or the smaller; the number, if the other is NaN."""
    op = call.op
    dtype = axes.compared_in(call.result.dtype)
    x, y = call.cast(x, dtype), call.cast(y, dtype)
    if dtype.is_floating_point:
        x, y = op.Where(op.IsNaN(x), y, x), op.Where(op.IsNaN(y), x, y)
    return call.as_result(getattr(op, kind)(x, y))
