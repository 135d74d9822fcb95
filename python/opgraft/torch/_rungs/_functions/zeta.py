"""The zeta function of Hurwitz: the sum of (q + k)^-s for k from 0 on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions._loops import repeat
from opgraft.torch._rungs._functions._tables import is_exact_enough

#: So many terms are added up; the rest is the formula of Euler and Maclaurin.
_ADDED = 9
#: B(2j) / (2j)!.
_REST = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


@function(
    "aten::special_zeta",
    "aten::special_zeta.self_scalar",
    "aten::special_zeta.other_scalar",
    when=is_exact_enough,
)
def zeta(call: Call, s: Any, q: Any) -> Value:
    """For negative q and an even or odd integer s, what is added beyond 0 is mirrored."""
    op = call.op
    s, q = (_double(call, one) for one in (s, q))
    zero, one = call.constant(0.0), call.constant(1.0)
    s = op.Add(s, op.Mul(op.Where(op.IsInf(q), zero, q), zero))  # of the shape of both
    is_negative = op.Less(q, zero)
    whole = op.Floor(q)
    fraction = op.Sub(q, whole)
    value = _of_positive(call, s, op.Where(is_negative, fraction, q))

    def mirror(_: Value, so_far: Value) -> tuple[Value, list[Value]]:
        beside = op.Sub(one, fraction)
        near = _of_positive(call, s, beside)
        far = _of_positive(call, s, op.Sub(beside, op.Where(is_negative, whole, zero)))
        half = op.Mul(s, call.constant(0.5))
        is_odd = op.Not(op.Equal(half, op.Floor(half)))
        added = op.Sub(near, far)
        added = op.Where(is_odd, op.Neg(added), added)
        result = op.Where(is_negative, op.Add(so_far, added), so_far)
        return op.Equal(one, zero), [result]

    flags = op.Reshape(call.cast(is_negative, torch.int64), call.constant([-1], np.int64))
    nothing = call.constant([0], np.int64)
    some = op.ReduceMax(op.Concat(flags, nothing, axis=0), keepdims=0)
    value = repeat(some, [(value, ir.DataType.DOUBLE)], mirror)[0]

    nan, infinite = call.constant(math.nan), call.constant(math.inf)
    is_undefined = op.And(is_negative, op.Not(op.Equal(s, op.Floor(s))))
    value = op.Where(is_undefined, nan, value)
    is_pole = op.And(op.LessOrEqual(q, zero), op.Equal(q, whole))
    value = op.Where(is_pole, infinite, value)
    of_infinity = op.Where(op.Less(q, one), infinite, op.Where(op.Equal(q, one), one, nan))
    value = op.Where(op.IsInf(s), of_infinity, value)
    value = op.Where(op.Less(s, one), nan, value)
    return call.as_result(op.Where(op.Equal(s, one), infinite, value))


def _double(call: Call, one: Any) -> Value:
    return call.constant(float(one)) if isinstance(one, (int, float)) else call.double(one)


def _of_positive(call: Call, s: Value, q: Value) -> Value:
    op = call.op
    one = call.constant(1.0)
    last = call.constant([-1], np.int64)
    steps = call.constant(np.arange(float(_ADDED)))
    bases = op.Add(op.Unsqueeze(q, last), steps)
    powers = op.Pow(bases, op.Neg(op.Unsqueeze(s, last)))
    total = op.ReduceSum(powers, call.constant([call.result.dim()], np.int64), keepdims=0)
    end = op.Add(q, call.constant(float(_ADDED)))
    power = op.Pow(end, op.Neg(s))
    rest = op.Add(op.Div(end, op.Sub(s, one)), call.constant(0.5))
    total = op.Add(total, op.Mul(power, rest))
    square = op.Mul(end, end)
    factor = op.Div(op.Mul(power, s), end)
    for place, coefficient in enumerate(_REST):
        if place:
            first = op.Add(s, call.constant(2.0 * place - 1))
            second = op.Add(s, call.constant(2.0 * place))
            factor = op.Div(op.Mul(op.Mul(factor, first), second), square)
        total = op.Add(total, op.Mul(factor, call.constant(coefficient)))
    return total
