"""hypot: the length of a vector, without overflow of the squares."""

from __future__ import annotations

from opgraft.torch._rungs._functions import Call, Value, function


@function("aten::hypot")
def hypot(call: Call, x: Value, y: Value) -> Value:
    """Scales by the longer side, so that no square overflows or underflows."""
    op = call.op
    x, y = op.Abs(call.double(x)), op.Abs(call.double(y))
    zero, one = call.constant(0.0), call.constant(1.0)
    is_longer = op.Greater(x, y)
    longer, shorter = op.Where(is_longer, x, y), op.Where(is_longer, y, x)
    ratio = op.Div(shorter, op.Where(op.Greater(longer, zero), longer, one))
    length = op.Mul(longer, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))
    is_nan = op.Or(op.IsNaN(x), op.IsNaN(y))
    length = op.Where(is_nan, op.Add(x, y), length)
    # If a side is infinite, the length is infinite, even if the other side is NaN.
    is_infinite = op.Or(op.IsInf(x), op.IsInf(y))
    return call.as_result(op.Where(is_infinite, call.constant(float("inf")), length))
