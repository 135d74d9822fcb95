"""trapezoid with a fixed step, where ONNX Runtime lacks its parts: of bfloat16."""

from __future__ import annotations

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function


def _has_ends(call: Call) -> bool:
    example, dim = call.example(0), call.argument("dim")
    return bool(call.result.is_floating_point()) and example.shape[dim] != 0


@function("aten::trapezoid.dx", when=_has_ends)
def trapezoid(call: Call, y: Value, *, dx: float = 1, dim: int = -1) -> Value:
    """The sum, the ends by half."""
    op = call.op
    axis = dim % call.example(0).dim()
    wide = call.working(y)
    sum = op.ReduceSum(wide, call.constant([axis], np.int64), keepdims=0)
    ends = (op.Gather(wide, call.constant(place, np.int64), axis=axis) for place in (0, -1))
    half = op.Mul(op.Add(*ends), call.working_constant(0.5))
    return call.as_result(op.Mul(op.Sub(sum, half), call.working_constant(float(dx))))
