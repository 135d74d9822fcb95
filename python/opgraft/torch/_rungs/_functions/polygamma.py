"""digamma and polygamma: the derivatives of the logarithm of the gamma function."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions._tables import Array, Exact, Interval, Pieces, of_torch

#: Of higher ones the factorials and powers come close to the ends of doubles.
_MOST = 12


@function("aten::digamma", "aten::special_digamma", "aten::special_psi")
def digamma(call: Call, x: Value) -> Value:
    return _derivative(call, x, 0)


def _is_usual(call: Call) -> bool:
    """At its poles torch's trigamma of doubles gives what the rounding of pi leaves, and ONNX
    Runtime's sine of that is 0."""
    n = call.argument("n")
    return isinstance(n, int) and 0 <= n <= _MOST and not (n == 1 and call.gives_doubles)


@function(
    "aten::polygamma",
    "aten::special_polygamma",
    when=_is_usual,
)
def polygamma(call: Call, n: int, x: Value) -> Value:
    return _derivative(call, x, n)


@functools.cache
def _scaled(n: int) -> Exact:
    """Returns psi^(n)(y) y^n for t = 1 / y; for n = 0 without log(y)."""

    def compute(t: Array) -> Array:
        y = 1 / t
        if n:
            return of_torch(lambda y: torch.polygamma(n, y), y) * y**n
        # log(y) - digamma(y), by the series where both are large.
        series = sum(
            one * np.minimum(t, 0.05) ** (2 * k + 2) for k, one in enumerate(_DIGAMMA_SERIES)
        )
        return np.where(t < 0.05, -t / 2 - series, of_torch(torch.digamma, y) - np.log(y))

    return compute


#: B(2k) / 2k.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


@functools.cache
def _cotangents(n: int) -> list[float]:
    """Returns the coefficients of the n-th derivative of cot(pi x) / pi^n as a polynomial in
    cot(pi x)."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = -np.polynomial.Polynomial([1.0, 0.0, 1.0]) * polynomial.deriv()
    return [float(one) for one in polynomial.coef]


def _derivative(call: Call, x: Value, n: int) -> Value:
    """Computes from y = 1 + |x|: for x from 0 on by the recurrence, below by reflection."""
    op = call.op
    given, x = x, call.double(x)
    zero, one = call.constant(0.0), call.constant(1.0)
    is_negative = op.Less(x, zero)
    y = op.Add(op.Abs(x), one)
    t = op.Reciprocal(y)
    far = Pieces(call, (t, Interval(0, 1, 64), None)).value(_scaled(n))
    far = op.Mul(far, _power(call, t, n)) if n else op.Add(op.Log(y), far)
    sign = (-1.0) ** n
    # -0 is a pole of both sides.
    place = op.Where(op.Equal(x, zero), zero, x) if n else x
    pole = op.Div(call.constant(sign * math.factorial(n)), _power(call, place, n + 1))
    above = op.Sub(far, pole)

    rest = op.Sub(x, op.Round(x))
    angle = op.Mul(rest, call.constant(math.pi))
    if n == 0:
        angle = op.Mul(angle, op.Div(rest, rest))  # NaN at the poles
    elif n == 1:
        # At its poles torch gives what the rounding of pi leaves, which is finite.
        rounded = _rounded_angle(call, given)
        angle = op.Where(op.Equal(rest, zero), rounded, angle)
    # The cosine as a sine, which is 0 halfway between poles.
    beside = op.Mul(op.Sub(call.constant(0.5), op.Abs(rest)), call.constant(math.pi))
    cotangent = op.Div(op.Sin(beside), op.Sin(angle))
    polynomial = call.horner(cotangent, _cotangents(n))
    reflected = op.Mul(polynomial, call.constant(math.pi ** (n + 1)))
    below = op.Sub(far if sign > 0 else op.Neg(far), reflected)
    value = op.Where(is_negative, below, above)
    if n > 1:  # as torch has it, which adds up until numbers are large
        end = op.Mul(op.Sqrt(op.Neg(x)), call.constant(-sign))
        value = op.Where(op.IsInf(x), end, value)
    return call.as_result(value)


def _rounded_angle(call: Call, x: Value) -> Value:
    return call.double(call.op.Mul(call.working(x), call.working_constant(math.pi)))


def _power(call: Call, x: Value, n: int) -> Value:
    """By multiplication, which keeps the sign and is exact for infinities."""
    result = x
    for _ in range(n - 1):
        result = call.op.Mul(result, x)
    return result
