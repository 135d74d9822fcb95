"""Means and variances of what may be empty: no numbers.

ONNX Runtime gives 0 for the mean of nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opgraft.torch import _private
from opgraft.torch._rungs._functions import Call, Value, function

#: While it captures, torch takes open sizes for 2 at least; they may be any all the same.
_ASSUMED = 2


def reduced_axes(call: Call) -> list[int]:
    """Counted from the front: from the back ONNX Runtime gets the shape of nothing wrong."""
    example, asked = call.example(0), call.arguments.get("dim")
    axes = [asked] if isinstance(asked, int) else list(asked or range(example.dim()))
    return [axis % max(example.dim(), 1) for axis in axes] if example.dim() else []


def may_be_empty(call: Call) -> bool:
    """Whether a mean may be one of nothing, for all that the example says."""
    sizes = [call.example(0).shape[axis] for axis in reduced_axes(call)]
    return any(not isinstance(size, int) and _private.least(size) <= _ASSUMED for size in sizes)


def count(call: Call, x: Value) -> Value:
    """How many elements are reduced to one, as a double."""
    sizes = call.op.Gather(call.op.Shape(x), call.constant(reduced_axes(call), np.int64))
    return call.double(call.op.ReduceProd(sizes, keepdims=0))


def _gives_floats(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function(
    "aten::mean",
    "aten::mean.dim",
    when=_gives_floats,
    replaces_torchs=lambda call, _: may_be_empty(call),
)
def mean(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """With 0 / count added, which is 0, or NaN where there is nothing."""
    op = call.op
    axes = call.constant(reduced_axes(call), np.int64)
    keep = int(call.arguments.get("keepdim", False))
    dtype = call.result.dtype
    wide = x if call.example(0).dtype == dtype else call.as_result(x)
    found = op.ReduceMean(wide, axes, keepdims=keep) if reduced_axes(call) else wide
    nothing = op.Div(call.constant(0.0), count(call, x))
    return op.Add(found, call.cast(nothing, dtype))


#: The reduction of losses that is a mean, as the schema has it.
_MEAN = 1


@function(
    "aten::mse_loss",
    when=lambda call: call.argument("reduction") == _MEAN and _gives_floats(call),
    replaces_torchs=lambda call, _: may_be_empty(call),
)
def mse_loss(call: Call, x: Value, y: Value, *_: Any, **__: Any) -> Value:
    op = call.op
    difference = op.Sub(x, y)
    found = op.ReduceMean(op.Mul(difference, difference), keepdims=0)
    nothing = op.Div(call.constant(0.0), call.double(op.Size(difference)))
    return op.Add(found, call.cast(nothing, call.result.dtype))
