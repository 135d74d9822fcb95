"""Division that rounds down; for integers also division that rounds towards zero."""

from __future__ import annotations

from typing import Any

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.integers import Whole, gives_integers
from opgraft.torch._rungs._functions.signs import is_negative


def _is_taken(call: Call) -> bool:
    return gives_integers(call) or bool(call.result.is_floating_point())


def _rounds(call: Call) -> bool:
    mode = call.arguments.get("rounding_mode")
    return _is_taken(call) and (mode == "floor" or (mode == "trunc" and gives_integers(call)))


@function(
    "aten::div.Tensor_mode",
    "aten::div.Scalar_mode",
    when=_rounds,
    replaces_torchs=lambda call, _: _rounds(call),
)
def div_rounded(call: Call, x: Value, y: Any, *, rounding_mode: str) -> Value:
    if not gives_integers(call):
        return _floor(call, x, y)
    whole = Whole.for_result(call)
    rounded = whole.floor(x, y) if rounding_mode == "floor" else whole.truncated(x, y)
    return call.as_result(rounded)


@function("aten::floor_divide", "aten::floor_divide.Scalar", when=_is_taken, replaces_torchs=True)
def floor_divide(call: Call, x: Value, y: Any) -> Value:
    return div_rounded(call, x, y, rounding_mode="floor")


def _floor(call: Call, x: Value, y: Any) -> Value:
    """Divides floating-point numbers in the same way as torch. torch's exporter writes
    floor(x / y), but x / y may be rounded up to an integer (1 / 0.1), and may underflow to -0 where
    the result is -1."""
    op = call.op
    x = call.working(x)
    y = call.working_constant(float(y)) if isinstance(y, (int, float)) else call.working(y)
    zero, one = call.working_constant(0.0), call.working_constant(1.0)
    quotient = op.Div(x, y)
    rest = op.Mod(x, y, fmod=1)
    whole = op.Div(op.Sub(x, rest), y)
    is_other_sign = op.Xor(op.Less(y, zero), op.Less(rest, zero))
    is_above = op.And(op.Not(op.Equal(rest, zero)), is_other_sign)
    whole = op.Where(is_above, op.Sub(whole, one), whole)
    floor = op.Floor(whole)
    is_next = op.Greater(op.Sub(whole, floor), call.working_constant(0.5))
    floor = op.Where(is_next, op.Add(floor, one), floor)
    floor = op.Where(op.Equal(y, zero), quotient, floor)
    # A zero has the sign of the quotient. Multiply: ONNX Runtime's Where turns -0 into 0.
    is_zero = op.Equal(floor, zero)
    is_negative_zero = op.And(is_zero, is_negative(call, quotient))
    sign = op.Where(is_negative_zero, call.working_constant(-1.0), one)
    return call.as_result(op.Mul(op.Where(is_zero, zero, floor), sign))
