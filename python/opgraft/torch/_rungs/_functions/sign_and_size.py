"""Elementwise operators of C that ONNX lacks: copysign, fmax and fmin."""

from __future__ import annotations

from typing import Any

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.signs import is_negative


@function("aten::copysign.Tensor", "aten::copysign.Scalar")
def copysign(call: Call, x: Value, sign: Any) -> Value:
    """Times a sign, since ONNX Runtime's Where makes 0 of -0."""
    op = call.op
    one, minus_one = call.working_constant(1.0), call.working_constant(-1.0)
    if isinstance(sign, (int, float)):
        factor = minus_one if np.signbit(sign) else one
    else:
        factor = op.Where(is_negative(call, call.working(sign)), minus_one, one)
    return call.as_result(op.Mul(op.Abs(call.working(x)), factor))


def _is_floating(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function("aten::fmax", when=_is_floating)
def fmax(call: Call, x: Value, y: Value) -> Value:
    x, y = _known(call, x, y)
    return call.as_result(call.op.Max(x, y))


@function("aten::fmin", when=_is_floating)
def fmin(call: Call, x: Value, y: Value) -> Value:
    x, y = _known(call, x, y)
    return call.as_result(call.op.Min(x, y))


def _known(call: Call, x: Value, y: Value) -> tuple[Value, Value]:
    """Replaces what is NaN by the other number."""
    op = call.op
    x, y = call.working(x), call.working(y)
    return op.Where(op.IsNaN(x), y, x), op.Where(op.IsNaN(y), x, y)
