"""The standard deviation, whose squares neither overflow nor vanish on the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opgraft.torch._functions import Call, Value, function


@function("aten::std", "aten::std.dim", "aten::std.correction", replaces_torchs=True, is_kept=True)
def std(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """In doubles, as torch does it. Torch's exporter writes the root of the variance, which of
    numbers about 1e19 is infinite, and of those about 1e-23 nothing."""

    op = call.op
    given = call.arguments
    example = given["self"]
    asked = given.get("dim")
    axes = [asked] if isinstance(asked, int) else list(asked or range(example.ndim))
    axes = [axis % max(example.ndim, 1) for axis in axes]
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
    sizes = [example.shape[axis] for axis in axes] if example.ndim else []
    if all(isinstance(size, int) for size in sizes):
        left = call.constant(max(math.prod(sizes) - correction, 0.0))
    else:
        counts = op.Gather(op.Shape(x), call.constant(axes, np.int64))
        count = call.double(op.ReduceProd(counts, keepdims=0))
        left = op.Max(op.Sub(count, call.constant(correction)), call.constant(0.0))
    return call.as_result(op.Sqrt(op.Div(squares, left)))
