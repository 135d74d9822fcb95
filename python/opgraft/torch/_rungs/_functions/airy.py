"""Airy's function Ai."""

from __future__ import annotations

import functools
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
    zero,
)

#: From x itself between these; beyond from z = 2/3 |x|^1.5.
_LOW, _HIGH = -12.0, 8.0
_LOW_Z, _HIGH_Z = (2 / 3 * abs(one) ** 1.5 for one in (_LOW, _HIGH))
#: From here on the series for large numbers is exact.
_ASYMPTOTIC = 25.0


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Returns those of the series in 1 / z."""
    found = [1.0]
    for k in range(1, 40):
        found.append(found[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return tuple(found)


def _near(x: Array) -> Array:
    return of_torch(torch.special.airy_ai, x)


def _decay(t: Array) -> Array:
    """Ai(x) x^(1/4) exp(z) for t = _HIGH_Z / z."""
    z = _HIGH_Z / t
    signs = (-1.0) ** np.arange(40)
    far = np.polynomial.polynomial.polyval(1 / np.maximum(z, _ASYMPTOTIC), signs * _coefficients())
    x = np.minimum(1.5 * z, 1.5 * _ASYMPTOTIC) ** (2 / 3)
    near = of_torch(torch.special.airy_ai, x) * x**0.25 * np.exp(np.minimum(z, _ASYMPTOTIC))
    return np.asarray(np.where(z > _ASYMPTOTIC, far / (2 * math.sqrt(math.pi)), near))


def _wave(t: Array) -> Array:
    """The length and the angle of the wave, without its turning with z, for t = _LOW_Z / z."""
    powers = (-1j) ** np.arange(40)
    series = np.polynomial.polynomial.polyval(t / _LOW_Z, powers * _coefficients())
    return np.asarray(series) / math.sqrt(math.pi)


def _length(t: Array) -> Array:
    return np.abs(_wave(t))


def _angle(t: Array) -> Array:
    return np.angle(_wave(t))


@function("aten::special_airy_ai", when=is_exact_enough)
def airy_ai(call: Call, x: Value) -> Value:
    op = call.op
    x = call.double(x)
    size = op.Abs(x)
    root = op.Sqrt(size)
    z = op.Mul(op.Mul(size, root), call.constant(2 / 3))
    is_below, is_above = op.Less(x, call.constant(_LOW)), op.GreaterOrEqual(x, call.constant(_HIGH))
    inverse = op.Reciprocal(z)
    pieces = Pieces(
        call,
        (x, Interval(_LOW, _HIGH, 160), None),
        (inverse, Interval(0, 1 / _HIGH_Z, 16), is_above),
        (inverse, Interval(0, 1 / _LOW_Z, 16), is_below),
    )
    main = pieces.value(_near, _of_inverse_decay, _of_inverse_length)
    turn = pieces.value(zero, zero, _of_inverse_angle)
    angle = op.Add(op.Sub(z, call.constant(math.pi / 4)), turn)
    factor = op.Where(is_below, op.Cos(angle), op.Exp(op.Neg(z)))
    far = op.Div(op.Mul(main, factor), op.Sqrt(root))
    value = op.Where(op.Or(is_below, is_above), far, main)
    return call.as_result(op.Where(op.IsInf(x), call.constant(math.nan), value))


def _of_inverse_decay(inverse: Array) -> Array:
    return _decay(inverse * _HIGH_Z)


def _of_inverse_length(inverse: Array) -> Array:
    return _length(inverse * _LOW_Z)


def _of_inverse_angle(inverse: Array) -> Array:
    return _angle(inverse * _LOW_Z)
