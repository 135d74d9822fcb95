"""Functions of the normal distribution: erfcx, log_ndtr, erfinv and ndtri.

torch's exporter writes erfcx and log_ndtr as they stand in textbooks, which overflows and loses
all digits in the tails.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions._tables import (
    Array,
    Interval,
    Pieces,
    is_exact_enough,
    of_torch,
)

#: Where the variable 1 / (1 + x / scale) of the tables is a half.
_SCALE = 2.0


def _scaled(t: Array) -> Array:
    """erfcx(x) / t."""
    return of_torch(torch.special.erfcx, _SCALE / t - _SCALE) / t


def positive_erfcx(call: Call, x: Value) -> Value:
    """Returns erfcx of doubles that are not negative."""
    op = call.op
    scale = call.constant(_SCALE)
    t = op.Div(scale, op.Add(x, scale))
    return op.Mul(t, Pieces(call, (t, Interval(0, 1, 64), None)).value(_scaled))


@function("aten::special_erfcx", replaces_torchs=True, is_kept=True)
def erfcx(call: Call, x: Value) -> Value:
    """By erfcx(-x) = 2 exp(x * x) - erfcx(x)."""
    op = call.op
    x = call.double(x)
    above = positive_erfcx(call, op.Abs(x))
    two, zero = call.constant(2.0), call.constant(0.0)
    below = op.Sub(op.Mul(two, op.Exp(op.Mul(x, x))), above)
    return call.as_result(op.Where(op.Less(x, zero), below, above))


@function("aten::special_log_ndtr", replaces_torchs=True, is_kept=True)
def log_ndtr(call: Call, x: Value) -> Value:
    """Below -1 by erfcx, of which the exponential is known; above by log(1 - u), as
    -2 artanh(u / (2 - u)) where u is small."""
    op = call.op
    x = call.double(x)
    one, half = call.constant(1.0), call.constant(0.5)
    z = op.Mul(x, call.constant(math.sqrt(0.5)))
    scaled = op.Mul(positive_erfcx(call, op.Abs(z)), half)
    square = op.Mul(op.Mul(x, x), half)
    below = op.Sub(op.Log(scaled), square)
    tail = op.Mul(scaled, op.Exp(op.Neg(square)))
    # From the left, with what is rounded away in 1 - tail put back.
    rest = op.Sub(one, tail)
    taken = op.Sub(one, rest)
    is_lost = op.Equal(taken, call.constant(0.0))
    share = op.Div(tail, op.Where(is_lost, one, taken))
    above = op.Where(is_lost, op.Neg(tail), op.Mul(op.Log(rest), share))
    middle = op.Log(tail)
    is_negative = op.Less(x, call.constant(0.0))
    value = op.Where(is_negative, op.Where(op.Less(x, call.constant(-1.0)), below, middle), above)
    return call.as_result(value)


def _inverse(s: Array) -> Array:
    """erfinv(y) / y for s = sqrt(-log(1 - y * y))."""
    rest = np.exp(-s * s)
    y = np.sqrt(-np.expm1(-s * s))
    near = of_torch(torch.special.erfinv, y) / y
    far = -of_torch(torch.special.ndtri, rest / (1 + y) / 2) / (math.sqrt(2) * y)
    return np.asarray(np.where(s < 0.8, near, far))


def _inverse_over(call: Call, rest: Value, largest: float) -> Value:
    """Returns erfinv(y) / y for rest = 1 - y * y."""
    op = call.op
    s = op.Sqrt(op.Neg(op.Log(rest)))
    value = Pieces(call, (s, Interval(0, largest, int(8 * largest)), None)).value(_inverse)
    infinite = call.constant(math.inf)
    return op.Where(op.Equal(rest, call.constant(0.0)), infinite, value)


@function("aten::erfinv", "aten::special_erfinv", when=is_exact_enough)
def erfinv(call: Call, y: Value) -> Value:
    op = call.op
    y = call.double(y)
    one = call.constant(1.0)
    rest = op.Mul(op.Sub(one, y), op.Add(one, y))
    return call.as_result(op.Mul(y, _inverse_over(call, rest, 6.5)))


@function("aten::special_ndtri", when=is_exact_enough)
def ndtri(call: Call, p: Value) -> Value:
    """sqrt(2) erfinv(2 p - 1)."""
    op = call.op
    p = call.double(p)
    one, two = call.constant(1.0), call.constant(2.0)
    rest = op.Mul(op.Mul(call.constant(4.0), p), op.Sub(one, p))
    value = _inverse_over(call, rest, 10.5)
    y = op.Sub(op.Mul(two, p), one)
    return call.as_result(op.Mul(op.Mul(y, call.constant(math.sqrt(2))), value))
