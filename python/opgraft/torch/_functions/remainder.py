"""remainder: what is left of a division, with the sign of the divisor."""

from __future__ import annotations

from typing import Any

from opgraft.torch._functions import Call, Value, function


def _takes_floats(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function(
    "aten::remainder.Tensor", "aten::remainder.Scalar", when=_takes_floats, replaces_torchs=True
)
def remainder(call: Call, x: Value, y: Any) -> Value:
    """As torch computes it. Its exporter has x - floor(x / y) * y, where x / y may overflow."""
    op = call.op
    x = call.working(x)
    y = call.working_constant(float(y)) if isinstance(y, (int, float)) else call.working(y)
    zero = call.working_constant(0.0)
    rest = op.Mod(x, y, fmod=1)
    is_other_sign = op.Xor(op.Less(y, zero), op.Less(rest, zero))
    is_zero = op.Equal(rest, zero)
    wrapped = op.Add(rest, y)
    return call.as_result(op.Where(op.And(op.Not(is_zero), is_other_sign), wrapped, rest))
