"""remainder: what is left of a division, with the sign of the divisor."""

from __future__ import annotations

from typing import Any

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.integers import Whole, gives_integers


def _is_taken(call: Call) -> bool:
    return gives_integers(call) or bool(call.result.is_floating_point())


@function(
    "aten::remainder.Tensor",
    "aten::remainder.Scalar",
    "aten::remainder.Scalar_Tensor",
    when=_is_taken,
    replaces_torchs=True,
)
def remainder(call: Call, x: Any, y: Any) -> Value:
    if gives_integers(call):
        return call.as_result(Whole.for_result(call).remainder(x, y))
    return call.as_result(of_floats(call, *(_working(call, one) for one in (x, y))))


def _working(call: Call, value: Any) -> Value:
    is_number = isinstance(value, (int, float))
    return call.working_constant(float(value)) if is_number else call.working(value)


def of_floats(call: Call, x: Value, y: Value) -> Value:
    """As torch computes it. Its exporter has x - floor(x / y) * y, where x / y may overflow."""
    op = call.op
    zero = call.working_constant(0.0)
    rest = op.Mod(x, y, fmod=1)
    is_other_sign = op.Xor(op.Less(y, zero), op.Less(rest, zero))
    is_zero = op.Equal(rest, zero)
    wrapped = op.Add(rest, y)
    return op.Where(op.And(op.Not(is_zero), is_other_sign), wrapped, rest)
