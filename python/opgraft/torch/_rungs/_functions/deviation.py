"""Standard deviation and variance, without overflow or underflow of the squares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.means import count, may_be_empty, reduced_axes


@function("aten::std", "aten::std.dim", "aten::std.correction", replaces_torchs=True, is_kept=True)
def std(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """Computes in doubles, like torch. torch's exporter writes the root of the variance, which is
    infinite for numbers about 1e19, and 0 for numbers about 1e-23."""
    return call.as_result(call.op.Sqrt(_variance(call, x)))


@function(
    "aten::var",
    "aten::var.dim",
    "aten::var.correction",
    replaces_torchs=lambda call, _: may_be_empty(call),
    is_kept=may_be_empty,
)
def var(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """For inputs that may have no or one element, for which torch's exporter returns -0."""
    return call.as_result(_variance(call, x))


def _variance(call: Call, x: Value) -> Value:
    """Returns the variance in doubles; NaN (0 / 0) if the correction leaves no divisor."""
    op = call.op
    given = call.arguments
    example = given["self"]
    axes = reduced_axes(call)
    correction = given.get("correction", int(given.get("unbiased", True)))
    correction = 1 if correction is None else correction
    keep = int(given.get("keepdim", False))

    wide = call.double(x)
    if example.ndim:
        reduced = call.constant(axes, np.int64)
        off = op.Sub(wide, op.ReduceMean(wide, reduced, keepdims=1))
        squares = op.ReduceSum(op.Mul(off, off), reduced, keepdims=keep)
    else:
        squares = op.Sub(wide, wide)
    sizes = [example.shape[axis] for axis in axes]
    if all(isinstance(size, int) for size in sizes):
        left = call.constant(max(math.prod(sizes) - correction, 0.0))
    else:
        rest = op.Sub(count(call, x), call.constant(correction))
        left = op.Max(rest, call.constant(0.0))
    return op.Div(squares, left)
