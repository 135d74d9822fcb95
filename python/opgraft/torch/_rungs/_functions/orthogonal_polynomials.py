"""The orthogonal polynomials of Chebyshev, Hermite, Laguerre and Legendre.

They are computed in the type of the result by the same recurrence as in torch, so that roundings
and overflows are the same; Chebyshev's of higher order, between -1 and 1, by angles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch import _private
from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions._loops import repeat
from opgraft.torch._rungs._functions._tables import Array, Interval, Pieces

#: From the next order on, Chebyshev's polynomials are computed by angles, as in torch.
_LAST_BY_STEPS = {"t": 6, "u": 8, "v": 8, "w": 8}
_LAST_OF_SHIFTED = {"t": 6, "u": 6, "v": 6, "w": 4}
#: Beyond these orders, torch has no values for Hermite's polynomials.
_LARGEST_HERMITE = {torch.float32: 128, torch.float64: 512}


class Arithmetic:
    """Arithmetic in the type of the result, with Python's numbers as operands."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._op = call.op

    def number(self, one: Any) -> Value:
        return self.call.working_constant(one) if isinstance(one, (int, float)) else one

    def add(self, x: Any, y: Any) -> Value:
        return self._op.Add(self.number(x), self.number(y))

    def sub(self, x: Any, y: Any) -> Value:
        return self._op.Sub(self.number(x), self.number(y))

    def mul(self, x: Any, y: Any) -> Value:
        return self._op.Mul(self.number(x), self.number(y))

    def div(self, x: Any, y: Any) -> Value:
        return self._op.Div(self.number(x), self.number(y))


#: The next value from x, the number k of the step, the last value and the one before it.
_Next = Callable[[Arithmetic, Value, Value, Value, Value], Value]


@dataclass(frozen=True)
class Polynomial:
    """A family of polynomials: the first is 1."""

    #: The second, from x.
    second: Callable[[Arithmetic, Value], Value]
    next: _Next
    #: For those of Chebyshev: their kind, "t" to "w".
    kind: str = ""
    #: Whether x is brought from 0 to 1 to -1 to 1 first.
    is_shifted: bool = False
    is_hermite: bool = False


def _chebyshev_next(a: Arithmetic, x: Value, k: Value, q: Value, p: Value) -> Value:
    return a.sub(a.mul(a.add(x, x), q), p)


_SECOND: dict[str, Callable[[Arithmetic, Value], Value]] = {
    "t": lambda a, x: x,
    "u": lambda a, x: a.add(x, x),
    "v": lambda a, x: a.sub(a.add(x, x), 1.0),
    "w": lambda a, x: a.add(a.add(x, x), 1.0),
}


def _hermite_h(a: Arithmetic, x: Value, k: Value, q: Value, p: Value) -> Value:
    return a.sub(a.mul(a.add(x, x), q), a.mul(a.add(k, k), p))


def _hermite_he(a: Arithmetic, x: Value, k: Value, q: Value, p: Value) -> Value:
    return a.sub(a.mul(x, q), a.mul(k, p))


def _laguerre(a: Arithmetic, x: Value, k: Value, q: Value, p: Value) -> Value:
    step = a.mul(a.add(a.add(k, k), a.sub(1.0, x)), q)
    return a.div(a.sub(step, a.mul(k, p)), a.add(k, 1.0))


def _legendre(a: Arithmetic, x: Value, k: Value, q: Value, p: Value) -> Value:
    step = a.mul(a.mul(a.add(a.add(k, k), 1.0), x), q)
    return a.div(a.sub(step, a.mul(k, p)), a.add(k, 1.0))


_FAMILIES = {
    **{
        f"{prefix}chebyshev_polynomial_{kind}": Polynomial(
            second, _chebyshev_next, kind, is_shifted=bool(prefix)
        )
        for kind, second in _SECOND.items()
        for prefix in ("", "shifted_")
    },
    "hermite_polynomial_h": Polynomial(_SECOND["u"], _hermite_h, is_hermite=True),
    "hermite_polynomial_he": Polynomial(_SECOND["t"], _hermite_he, is_hermite=True),
    "laguerre_polynomial_l": Polynomial(lambda a, x: a.sub(1.0, x), _laguerre),
    "legendre_polynomial_p": Polynomial(_SECOND["t"], _legendre),
}


def _declare(name: str, family: Polynomial) -> None:
    overloads = [f"aten::special_{name}{end}" for end in ("", ".x_scalar", ".n_scalar")]

    def polynomial(call: Call, x: Any, n: Any) -> Value:
        return _value(call, family, x, n)

    polynomial.__name__ = name
    function(*overloads)(polynomial)


for _name, _family in _FAMILIES.items():
    _declare(_name, _family)


def _value(call: Call, family: Polynomial, x: Any, n: Any) -> Value:
    op, a = call.op, Arithmetic(call)
    x = a.number(float(x)) if isinstance(x, (int, float)) else call.working(x)
    order = call.constant(int(n), np.int64) if isinstance(n, (int, float)) else _whole(call, n)
    if family.is_shifted:
        x = a.sub(a.add(x, x), 1.0)
    zero = call.constant(0, np.int64)
    # One shape for all: that of both.
    second = op.Add(family.second(a, x), call.working(op.Sub(order, order)))

    is_by_angle = None
    stepped = order
    if family.kind:
        # At the ends too, where steps would not end for large orders.
        is_inside = op.LessOrEqual(op.Abs(x), a.number(1.0))
        lasts = _LAST_OF_SHIFTED if family.is_shifted else _LAST_BY_STEPS
        last = call.constant(lasts[family.kind], np.int64)
        is_by_angle = op.And(is_inside, op.Greater(order, last))
        stepped = op.Where(is_by_angle, zero, order)
    if family.is_hermite:
        limit = call.constant(_LARGEST_HERMITE[call.result.dtype], np.int64)
        stepped = op.Where(op.Greater(order, limit), zero, order)

    value = _stepped(a, family, x, second, stepped)
    value = op.Where(op.Equal(order, zero), a.number(1.0), value)
    if is_by_angle is not None:
        value = op.Where(is_by_angle, _by_angle(a, family.kind, x, order), value)
        value = _at_ends(a, family.kind, x, order, value)
    if family.is_hermite:
        value = op.Where(op.Greater(order, limit), a.number(math.nan), value)
    elif not family.kind:
        value = _at_ends(a, "", x, order, value) if family.next is _legendre else value
    return call.as_result(op.Where(op.Less(order, zero), a.number(0.0), value))


def _whole(call: Call, n: Value) -> Value:
    """As in torch, the order has the type of the result before it becomes an integer."""
    return call.cast(call.working(n), torch.int64)


def _stepped(a: Arithmetic, family: Polynomial, x: Value, second: Value, order: Value) -> Value:
    """Goes on until the order is reached, or NaN."""
    call, op = a.call, a.call.op
    one, two = (call.constant(number, np.int64) for number in (1, 2))
    flat = op.Reshape(order, call.constant([-1], np.int64))
    largest = op.ReduceMax(op.Concat(flat, call.constant([1], np.int64), axis=0), keepdims=0)
    count = op.Sub(largest, one)
    kind = ir.DataType(_private.onnx_type(call.working_type))
    first = op.Add(op.Mul(second, a.number(0.0)), a.number(1.0))
    first = op.Where(op.IsNaN(first), a.number(1.0), first)

    def step(number: Value, q: Value, p: Value) -> tuple[Value, list[Value]]:
        k = call.working(op.Add(number, one))
        is_on = op.LessOrEqual(op.Add(number, two), order)
        is_on = op.And(is_on, op.Not(op.IsNaN(q)))
        following = op.Where(is_on, family.next(a, x, k, q, p), q)
        states = [following, op.Where(is_on, q, p)]
        left = op.Reshape(call.cast(is_on, torch.int32), call.constant([-1], np.int64))
        some = op.ReduceMax(left, keepdims=0)
        return call.cast(some, torch.bool), states

    return repeat(count, [(second, kind), (first, kind)], step)[0]


def _at_ends(a: Arithmetic, kind: str, x: Value, order: Value, value: Value) -> Value:
    """Puts in the values at 1 and -1."""
    call, op = a.call, a.call.op
    number = call.working(order)
    double = a.add(a.add(number, number), 1.0)
    one = a.number(1.0)
    above = {"u": a.add(number, 1.0), "w": double}.get(kind, one)
    below = {"u": a.add(number, 1.0), "v": double}.get(kind, one)
    is_odd = op.Equal(op.Mod(order, call.constant(2, np.int64)), call.constant(1, np.int64))
    below = op.Where(is_odd, op.Neg(below), below)
    value = op.Where(op.Equal(x, one), above, value)
    return op.Where(op.Equal(x, a.number(-1.0)), below, value)


def _by_angle(a: Arithmetic, kind: str, x: Value, order: Value) -> Value:
    call, op = a.call, a.call.op
    angle = _arc_cosine(call, call.double(x))
    number = call.double(order)
    half = call.constant(0.5)
    if kind == "t":
        value = op.Cos(op.Mul(number, angle))
    elif kind == "u":
        value = op.Div(op.Sin(op.Mul(op.Add(number, call.constant(1.0)), angle)), op.Sin(angle))
    else:
        wave = op.Cos if kind == "v" else op.Sin
        value = op.Div(wave(op.Mul(op.Add(number, half), angle)), wave(op.Mul(angle, half)))
    return call.working(value)


def _arc_sine(s: Array) -> Array:
    return np.arcsin(s)


def _arc_cosine(call: Call, x: Value) -> Value:
    """Of doubles, for which ONNX Runtime has no Acos: 2 asin(sqrt((1 - x) / 2))."""
    op = call.op
    root = op.Sqrt(op.Mul(op.Sub(call.constant(1.0), op.Abs(x)), call.constant(0.5)))
    pieces = Pieces(call, (root, Interval(0, math.sqrt(0.5), 24), None))
    angle = op.Mul(pieces.value(_arc_sine), call.constant(2.0))
    is_negative = op.Less(x, call.constant(0.0))
    return op.Where(is_negative, op.Sub(call.constant(math.pi), angle), angle)
