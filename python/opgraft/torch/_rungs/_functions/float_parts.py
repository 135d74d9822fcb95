"""The parts of floating-point numbers: frexp, nextafter and copysign.

ONNX does not show the bits of a number. Doubles have room for all of float32, and powers of two
come from a table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function
from opgraft.torch._rungs._functions.signs import is_negative

#: The table of 2 ** n from n = -_MOST on.
_MOST = 1074
_TABLE = np.ldexp(1.0, np.arange(-_MOST, 1024))
#: Below this a number is scaled, so that the inverse of its power is in the table.
_SMALL, _SCALE = 1e-290, 128
#: The number of bits behind the point, and the exponent of the smallest number.
_BITS = {torch.float32: (24, -149), torch.float64: (53, -1074)}


def _takes_floats(call: Call) -> bool:
    return bool(call.example(0).is_floating_point())


@function("aten::frexp.Tensor", when=_takes_floats)
def frexp(call: Call, x: Value) -> list[Value]:
    mantissa, exponent = _parts(call, call.double(x))
    return [call.cast(mantissa, call.example(0).dtype), call.cast(exponent, torch.int32)]


def _parts(call: Call, x: Value) -> tuple[Value, Value]:
    """The mantissa, from 0.5 to 1, and the exponent of doubles; of 0, infinities and NaN the number
    itself and 0."""
    op = call.op
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    size = op.Abs(x)
    is_small = op.Less(size, call.constant(_SMALL))
    unit = call.constant(1.0)
    scale = op.Where(is_small, call.constant(2.0**_SCALE), unit)
    is_special = op.Or(op.Equal(size, call.constant(0.0)), op.Or(op.IsNaN(x), op.IsInf(x)))
    size = op.Where(is_special, unit, op.Mul(size, scale))
    # Near a power of two the logarithm may be off by one.
    logarithm = op.Div(op.Log(size), call.constant(math.log(2)))
    guess = op.Add(call.cast(op.Floor(logarithm), torch.int64), one)
    guess = op.Min(op.Max(guess, call.constant(-1000, np.int64)), call.constant(1024, np.int64))
    inverse = power(call, op.Neg(guess))
    mantissa = op.Mul(size, inverse)
    is_large = op.GreaterOrEqual(mantissa, unit)
    is_low = op.Less(mantissa, call.constant(0.5))
    two, half = call.constant(2.0), call.constant(0.5)
    factor = op.Where(is_large, half, op.Where(is_low, two, unit))
    change = op.Sub(call.cast(is_large, torch.int64), call.cast(is_low, torch.int64))
    shift = op.Where(is_small, call.constant(_SCALE, np.int64), zero)
    exponent = op.Sub(op.Add(guess, change), shift)
    # By factors: Where makes 0 of -0.
    scale, inverse, factor = (
        op.Where(is_special, unit, one_factor) for one_factor in (scale, inverse, factor)
    )
    mantissa = op.Mul(op.Mul(op.Mul(x, scale), inverse), factor)
    return mantissa, op.Where(is_special, zero, exponent)


def power(call: Call, exponent: Value) -> Value:
    """2 to the power of an integer from -1074 to 1023."""
    op = call.op
    place = axes.flat(call, op.Add(exponent, call.constant(_MOST, np.int64)))
    # Much faster than Gather, which copies element by element.
    found = op.GatherElements(call.constant(_TABLE), place, axis=0)
    return op.Reshape(found, op.Shape(exponent), allowzero=1)


@function("aten::nextafter", when=lambda call: call.result.dtype in _BITS)
def nextafter(call: Call, x: Value, y: Value) -> Value:
    """Adds the distance to the next number, which is half as large below a power of two."""
    op = call.op
    bits, smallest = _BITS[call.result.dtype]
    largest = torch.finfo(call.result.dtype).max
    x, y = call.double(x), call.double(y)
    mantissa, exponent = _parts(call, x)
    zero, unit, half = (call.constant(number) for number in (0.0, 1.0, 0.5))
    is_up = op.Less(x, y)
    is_inwards = op.Or(
        op.And(is_up, op.Less(x, zero)), op.And(op.Greater(x, y), op.Greater(x, zero))
    )
    is_power = op.Equal(op.Abs(mantissa), half)
    halves = call.cast(op.And(is_inwards, is_power), torch.int64)
    ulp = op.Sub(op.Sub(exponent, call.constant(bits, np.int64)), halves)
    ulp = op.Max(ulp, call.constant(smallest, np.int64))
    ulp = op.Where(op.Equal(x, zero), call.constant(smallest, np.int64), ulp)
    sign = op.Where(is_up, unit, call.constant(-1.0))
    moved = op.Add(x, op.Mul(power(call, ulp), sign))
    from_infinity = op.Mul(call.constant(largest), op.Neg(sign))
    moved = op.Where(op.IsInf(x), from_infinity, moved)
    moved = op.Where(op.Equal(x, y), y, moved)
    return call.as_result(op.Where(op.Or(op.IsNaN(x), op.IsNaN(y)), op.Add(x, y), moved))


def _gives_floats(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function("aten::copysign.Tensor", "aten::copysign.Scalar", when=_gives_floats)
def copysign(call: Call, x: Value, y: Any) -> Value:
    """The size times the sign, by which a 0 has one too. The sign of a NaN is not seen."""
    op = call.op
    minus, plus = call.working_constant(-1.0), call.working_constant(1.0)
    if isinstance(y, (int, float)):
        sign = minus if np.signbit(y) else plus
    else:
        sign = op.Where(is_negative(call, call.working(y)), minus, plus)
    return call.as_result(op.Mul(op.Abs(call.working(x)), sign))
