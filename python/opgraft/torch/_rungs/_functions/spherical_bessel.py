"""The spherical Bessel function of order 0."""

from __future__ import annotations

import torch

from opgraft.torch._rungs._functions import Call, Value, function


@function("aten::special_spherical_bessel_j0", when=lambda call: call.result.dtype != torch.float64)
def spherical_bessel_j0(call: Call, x: Value) -> Value:
    """sin(x) / x, which is 1 at 0 and 0 at infinity. Not for doubles, for which the sine of ONNX
    Runtime is less exact than torch's."""
    op = call.op
    x = call.double(x)
    zero, one = call.constant(0.0), call.constant(1.0)
    is_zero, is_infinite = op.Equal(x, zero), op.IsInf(x)
    is_special = op.Or(is_zero, is_infinite)
    size = op.Where(is_special, one, x)
    value = op.Div(op.Sin(size), size)
    return call.as_result(op.Where(is_special, op.Where(is_zero, one, zero), value))
