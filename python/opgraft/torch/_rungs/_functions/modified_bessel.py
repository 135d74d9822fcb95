"""The modified Bessel functions I and K of orders 0 and 1, and times exp(-x) and exp(x)."""

from __future__ import annotations

from collections.abc import Callable

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

#: I is computed from t = scale / (scale + x).
_SCALE = 4.0
#: K is computed from x up to here, and from here / x beyond.
_LARGE = 2.0
_EULER = 0.5772156649015329


def _i0(t: Array) -> Array:
    return of_torch(torch.special.i0e, _SCALE / t - _SCALE) / np.sqrt(t)


def _i1(t: Array) -> Array:
    x = _SCALE / t - _SCALE
    return of_torch(torch.special.i1e, x) / (x * t * np.sqrt(t))


def _scaled_i(call: Call, x: Value, order: int) -> Value:
    op = call.op
    scale = call.constant(_SCALE)
    t = op.Div(scale, op.Add(op.Abs(x), scale))
    value = Pieces(call, (t, Interval(0, 1, 64), None)).value(_i1 if order else _i0)
    value = op.Mul(value, op.Sqrt(t))
    return op.Mul(op.Mul(x, t), value) if order else value


@function("aten::special_i0e", when=is_exact_enough)
def i0e(call: Call, x: Value) -> Value:
    return call.as_result(_scaled_i(call, call.double(x), 0))


@function("aten::special_i1e", when=is_exact_enough)
def i1e(call: Call, x: Value) -> Value:
    op = call.op
    x = call.double(x)
    value = op.Where(op.IsInf(x), op.Reciprocal(x), _scaled_i(call, x, 1))
    return call.as_result(value)


@function("aten::i0", "aten::special_i0", "aten::special_modified_bessel_i0", when=is_exact_enough)
def i0(call: Call, x: Value) -> Value:
    return _times_exponential(call, x, 0)


@function("aten::special_i1", "aten::special_modified_bessel_i1", when=is_exact_enough)
def i1(call: Call, x: Value) -> Value:
    return _times_exponential(call, x, 1)


def _times_exponential(call: Call, x: Value, order: int) -> Value:
    op = call.op
    x = call.double(x)
    return call.as_result(op.Mul(op.Exp(op.Abs(x)), _scaled_i(call, x, order)))


def _near_i0(x: Array) -> Array:
    return of_torch(torch.special.i0, x)


def _near_k0(x: Array) -> Array:
    """K0 + log(x / 2) I0, by its series."""
    return _series(x, lambda k, harmonic: harmonic - _EULER, 0)


def _far_k0(t: Array) -> Array:
    return of_torch(torch.special.scaled_modified_bessel_k0, _LARGE / t) / np.sqrt(t)


def _near_i1(x: Array) -> Array:
    return of_torch(torch.special.i1, x) / x


def _near_k1(x: Array) -> Array:
    """(K1 - 1 / x - log(x / 2) I1) / x, by its series."""
    return -_series(x, lambda k, harmonic: (harmonic + 1 / (2 * k + 2)) - _EULER, 1) / 2


def _far_k1(t: Array) -> Array:
    return of_torch(torch.special.scaled_modified_bessel_k1, _LARGE / t) / np.sqrt(t)


def _series(x: Array, weight: Callable[[int, float], float], order: int) -> Array:
    """Adds weight(k, 1 + 1/2 + ... + 1/k) (x / 2)^(2 k) / (k! (k + order)!)."""
    total, term, harmonic = np.zeros_like(x), np.ones_like(x), 0.0
    for k in range(20):
        total += weight(k, harmonic) * term
        term = term * (x / 2) ** 2 / ((k + 1) * (k + 1 + order))
        harmonic += 1 / (k + 1)
    return np.asarray(total)


def _k(call: Call, x: Value, order: int, *, is_scaled: bool) -> Value:
    op = call.op
    x = call.double(x)
    zero, one, large = call.constant(0.0), call.constant(1.0), call.constant(_LARGE)
    half = op.Mul(x, call.constant(0.5))  # of which the logarithm is small near 2
    is_far = op.GreaterOrEqual(x, large)
    t = op.Div(large, x)
    pieces = Pieces(call, (x, Interval(0, _LARGE, 16), None), (t, Interval(0, 1, 16), is_far))
    main = pieces.value(*((_near_k1, _far_k1) if order else (_near_k0, _far_k0)))
    factor = pieces.value(_near_i1 if order else _near_i0, _one)
    if order:
        # No logarithm of 0, which would be NaN times 0.
        logarithm = op.Log(op.Where(op.Equal(x, zero), one, half))
        near = op.Mul(x, op.Add(main, op.Mul(logarithm, factor)))
        near = op.Add(near, op.Div(one, op.Abs(x)))
    else:
        near = op.Sub(main, op.Mul(op.Log(half), factor))
    far = op.Mul(main, op.Sqrt(t))
    if is_scaled:
        near = op.Mul(near, op.Exp(x))
    else:
        far = op.Mul(far, op.Exp(op.Neg(x)))
    return call.as_result(op.Where(is_far, far, near))


def _one(points: Array) -> Array:
    return np.ones_like(points)


@function("aten::special_modified_bessel_k0", when=is_exact_enough)
def k0(call: Call, x: Value) -> Value:
    return _k(call, x, 0, is_scaled=False)


@function("aten::special_modified_bessel_k1", when=is_exact_enough)
def k1(call: Call, x: Value) -> Value:
    return _k(call, x, 1, is_scaled=False)


@function("aten::special_scaled_modified_bessel_k0", when=is_exact_enough)
def k0e(call: Call, x: Value) -> Value:
    return _k(call, x, 0, is_scaled=True)


@function("aten::special_scaled_modified_bessel_k1", when=is_exact_enough)
def k1e(call: Call, x: Value) -> Value:
    return _k(call, x, 1, is_scaled=True)
