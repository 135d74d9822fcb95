"""Operators that tell -0 from 0: signbit and atan2.

torch's exporter has them as comparisons with 0 and quotients: right for the numbers of most
examples, and half a turn off on the axes.
"""

from __future__ import annotations

import math

import torch

from opgraft.torch._rungs._functions import Call, Value, function


def _takes_floats(call: Call) -> bool:
    return bool(call.example(0).is_floating_point())


@function("aten::signbit", when=_takes_floats, replaces_torchs=True)
def signbit(call: Call, x: Value) -> Value:
    return is_negative(call, call.working(x))


def _is_not_double(call: Call) -> bool:
    """Of which ONNX Runtime has no Atan."""
    return bool(call.result.dtype != torch.float64)


@function("aten::atan2", when=_is_not_double, replaces_torchs=True)
def atan2(call: Call, y: Value, x: Value) -> Value:
    """By the angle in the first quadrant, mirrored by the signs."""
    op = call.op
    y, x = call.working(y), call.working(x)
    zero, one = call.working_constant(0.0), call.working_constant(1.0)
    slope = op.Div(op.Abs(y), op.Abs(x))
    slope = op.Where(op.And(op.Equal(y, zero), op.Equal(x, zero)), zero, slope)
    slope = op.Where(op.And(op.IsInf(y), op.IsInf(x)), one, slope)
    angle = op.Atan(slope)
    half_turn = call.working_constant(math.pi)
    angle = op.Where(is_negative(call, x), op.Sub(half_turn, angle), angle)
    # Times a sign, since ONNX Runtime's Where makes 0 of -0.
    sign = op.Where(is_negative(call, y), call.working_constant(-1.0), one)
    return call.as_result(op.Mul(angle, sign))


def is_negative(call: Call, x: Value) -> Value:
    """-0 is, by what 1 / -0 is."""
    op = call.op
    zero = call.working_constant(0.0)
    return op.Or(op.Less(x, zero), op.Less(op.Reciprocal(x), zero))
