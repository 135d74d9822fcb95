"""renorm: slices that are too long, shortened. torch's tracing exporter lacks it, and torch's C
interface has no place for its numbers."""

from __future__ import annotations

import math

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function

#: What torch adds to a length before it divides by it.
_ADDED = 1e-7


@function("aten::renorm")
def renorm(call: Call, x: Value, p: float, dim: int, maxnorm: float) -> Value:
    op = call.op
    rank = call.example(0).dim()
    axes = call.constant([axis for axis in range(rank) if axis != dim % rank], np.int64)
    wide = call.double(x)
    sizes = op.Abs(wide)
    if p == math.inf:
        length = op.ReduceMax(sizes, axes, keepdims=1)
    else:
        powers = op.ReduceSum(op.Pow(sizes, call.constant(float(p))), axes, keepdims=1)
        length = op.Pow(powers, call.constant(1 / p))
    most = call.constant(float(maxnorm))
    scale = op.Div(most, op.Add(length, call.constant(_ADDED)))
    scale = op.Where(op.Greater(length, most), scale, call.constant(1.0))
    return call.as_result(op.Mul(wide, scale))
