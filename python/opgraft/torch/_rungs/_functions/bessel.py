"""The Bessel functions J and Y of orders 0 and 1."""

from __future__ import annotations

import functools
import math

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions._tables import Array, Interval, Pieces, zero

#: Up to here from x itself, beyond by what J + iY has beside
#: exp(ix), from here / x.
_LARGE = 8.0
#: From here on the series for large numbers is exact.
_ASYMPTOTIC = 25.0
_EULER = 0.5772156649015329
#: Points of a circle: more than the largest x and the highest order that counts.
_POINTS = 256
_ORDERS = 36


def _all_orders(x: Array) -> Array:
    """J of orders 0 to 2 * _ORDERS for x up to 25: the coefficients of exp(ix sin(angle)), exact
    to a rounding. torch's own kernels are off by up to 5e-9 between 2 and 25."""
    angles = 2 * np.pi * np.arange(_POINTS) / _POINTS
    waves = np.exp(1j * x[..., None] * np.sin(angles))
    return np.asarray(np.fft.fft(waves, axis=-1).real[..., : 2 * _ORDERS + 1] / _POINTS)


def _both(order: int, x: Array) -> tuple[Array, Array]:
    """J, and what Y has beside 2 / pi (log(x) J - order / x): Neumann's series."""
    every = _all_orders(x)
    k = np.arange(1, _ORDERS)
    signs = (-1.0) ** k
    if order:
        weights = signs * (k + 0.5) / (k * (k + 1))
        series = every[..., 3 : 2 * _ORDERS + 1 : 2] @ weights - (1 - every[..., 0]) / (2 * x)
    else:
        series = every[..., 2 : 2 * _ORDERS : 2] @ (signs / k)
    first = every[..., order]
    beside = 2 / np.pi * (_EULER - math.log(2) - order) * first - 4 / np.pi * series
    return first, beside


@functools.cache
def _hankel(order: int) -> tuple[list[float], list[float]]:
    """Returns the coefficients of P and Q, by powers of 1 / x^2."""
    coefficients, term = [], 1.0
    for k in range(36):
        coefficients.append(term * (-1) ** (k // 2))
        term *= (4 * order**2 - (2 * k + 1) ** 2) / (8 * (k + 1))
    return coefficients[::2], coefficients[1::2]


def _turned(order: int, t: Array) -> Array:
    """(J + iY) exp(-ix) / sqrt(2 / (pi x))."""
    x = _LARGE / t
    p, q = _hankel(order)
    square = 1 / np.maximum(x, _ASYMPTOTIC) ** 2
    real = np.polynomial.polynomial.polyval(square, p)
    far = real + 1j * np.polynomial.polynomial.polyval(square, q) / np.maximum(x, _ASYMPTOTIC)
    middle = np.minimum(x, _ASYMPTOTIC)
    first, beside = _both(order, middle)
    second = beside + 2 / np.pi * (np.log(middle) * first - order / middle)
    near = first + 1j * second
    near = near * np.sqrt(np.pi * middle / 2) * np.exp(-1j * middle)
    lag = np.exp(-1j * math.pi * (2 * order + 1) / 4)
    return np.asarray(np.where(x > _ASYMPTOTIC, far * lag, near))


def _real0(t: Array) -> Array:
    return np.real(_turned(0, t))


def _imaginary0(t: Array) -> Array:
    return np.imag(_turned(0, t))


def _real1(t: Array) -> Array:
    return np.real(_turned(1, t))


def _imaginary1(t: Array) -> Array:
    return np.imag(_turned(1, t))


def _near_j0(x: Array) -> Array:
    return _both(0, x)[0]


def _near_j1(x: Array) -> Array:
    """J1 / x; its series for small numbers."""
    total, term = np.zeros_like(x), np.full_like(x, 0.5)
    for k in range(20):
        total += term
        term = -term * (x / 2) ** 2 / ((k + 1) * (k + 2))
    return np.where(x < 2, total, _both(1, x)[0] / x)


def _near_y0(x: Array) -> Array:
    return _both(0, x)[1]


def _near_y1(x: Array) -> Array:
    """What is beside, over x; its series for small numbers."""
    total, term = np.zeros_like(x), np.ones_like(x)
    for k in range(20):
        harmonic = 2 * sum(1 / i for i in range(1, k + 1)) + 1 / (k + 1)
        total -= term * (harmonic - 2 * (_EULER - math.log(2)))
        term = -term * (x / 2) ** 2 / ((k + 1) * (k + 2))
    return np.where(x < 2, total / (2 * np.pi), _both(1, x)[1] / x)


def _cylinder(call: Call, x: Value, order: int, *, is_second: bool) -> Value:
    op = call.op
    x = call.double(x)
    size = x if is_second else op.Abs(x)
    large = call.constant(_LARGE)
    is_far = op.GreaterOrEqual(size, large)
    t = op.Div(large, size)
    pieces = Pieces(call, (size, Interval(0, _LARGE, 64), None), (t, Interval(0, 1, 16), is_far))
    main = pieces.value(*((_near_j1, _real1) if order else (_near_j0, _real0)))
    near_y = (_near_y1 if order else _near_y0) if is_second else zero
    other = pieces.value(near_y, _imaginary1 if order else _imaginary0)
    wave, other_wave = op.Cos(size), op.Sin(size)
    if is_second:
        far = op.Add(op.Mul(main, other_wave), op.Mul(other, wave))
    else:
        far = op.Sub(op.Mul(main, wave), op.Mul(other, other_wave))
    far = op.Mul(far, op.Sqrt(op.Mul(t, call.constant(2 / math.pi / _LARGE))))
    if is_second:
        near = op.Mul(main, size) if order else main
        value = op.Where(is_far, far, _second(call, size, near, other, order))
    elif order:  # times x at the end, which keeps the sign of -0
        value = op.Mul(op.Where(is_far, op.Div(far, size), main), x)
    else:
        value = op.Where(is_far, far, main)
    return call.as_result(value)


def _second(call: Call, x: Value, j: Value, other: Value, order: int) -> Value:
    op = call.op
    share = call.constant(2 / math.pi)
    if not order:
        return op.Add(op.Mul(op.Mul(op.Log(x), share), j), other)
    # No logarithm of 0, which would be NaN times 0.
    one = call.constant(1.0)
    logarithm = op.Log(op.Where(op.Equal(x, call.constant(0.0)), one, x))
    poles = op.Sub(op.Mul(logarithm, j), op.Div(one, op.Abs(x)))
    return op.Add(op.Mul(poles, share), op.Mul(other, x))


@function("aten::special_bessel_j0")
def j0(call: Call, x: Value) -> Value:
    return _cylinder(call, x, 0, is_second=False)


@function("aten::special_bessel_j1")
def j1(call: Call, x: Value) -> Value:
    return _cylinder(call, x, 1, is_second=False)


@function("aten::special_bessel_y0")
def y0(call: Call, x: Value) -> Value:
    return _cylinder(call, x, 0, is_second=True)


@function("aten::special_bessel_y1")
def y1(call: Call, x: Value) -> Value:
    return _cylinder(call, x, 1, is_second=True)
