"""Logarithms and exponentials that keep their digits near zero and do not overflow on the way.

torch's exporter has these as they stand in textbooks, log(exp(x) + exp(y)) and such: right for the
numbers of most examples, and wrong or infinite for smaller and larger ones.
"""

from __future__ import annotations

import math

from opgraft.torch._rungs._functions import Call, Value, function


@function("aten::log1p", "aten::special_log1p", replaces_torchs=True)
def log1p(call: Call, x: Value) -> Value:
    return call.as_result(_log1p(call, call.working(x)))


@function("aten::expm1", "aten::special_expm1", replaces_torchs=True)
def expm1(call: Call, x: Value) -> Value:
    """(exp(x) - 1) / (exp(x) + 1) is tanh(x / 2)."""
    op = call.op
    x = call.working(x)
    half = op.Mul(x, call.working_constant(0.5))
    return call.as_result(op.Mul(op.Tanh(half), op.Add(op.Exp(x), call.working_constant(1.0))))


@function("aten::logaddexp", replaces_torchs=True)
def logaddexp(call: Call, x: Value, y: Value) -> Value:
    return _logaddexp(call, x, y, 1.0)


@function("aten::logaddexp2", replaces_torchs=True)
def logaddexp2(call: Call, x: Value, y: Value) -> Value:
    return _logaddexp(call, x, y, math.log(2))


@function("aten::log_sigmoid", replaces_torchs=True)
def log_sigmoid(call: Call, x: Value) -> Value:
    op = call.op
    x = call.working(x)
    zero = call.working_constant(0.0)
    tail = _log1p(call, op.Exp(op.Neg(op.Abs(x))))
    return call.as_result(op.Sub(op.Where(op.Less(x, zero), x, zero), tail))


def _logaddexp(call: Call, x: Value, y: Value, unit: float) -> Value:
    """By the larger one, so that the other's exponential is at most 1."""
    op = call.op
    x, y = call.working(x), call.working(y)
    scale = call.working_constant(unit)
    is_larger = op.Greater(x, y)
    larger, smaller = op.Where(is_larger, x, y), op.Where(is_larger, y, x)
    # Infinities that are equal have no difference.
    is_same = op.Equal(x, y)
    distance = op.Where(is_same, call.working_constant(0.0), op.Sub(smaller, larger))
    tail = op.Div(_log1p(call, op.Exp(op.Mul(distance, scale))), scale)
    return call.as_result(op.Add(larger, tail))


def _log1p(call: Call, x: Value) -> Value:
    """log(u) for u = 1 + x as it is rounded, times what the rounding took."""
    op = call.op
    one = call.working_constant(1.0)
    u = op.Add(one, x)
    taken = op.Sub(u, one)
    is_tiny = op.Equal(taken, call.working_constant(0.0))
    value = op.Mul(op.Log(u), op.Div(x, op.Where(is_tiny, one, taken)))
    return op.Where(is_tiny, x, op.Where(op.IsInf(x), op.Log(u), value))
