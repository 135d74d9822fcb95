"""Exact divisions, remainders, powers, sums and products of integers.

torch's exporter computes some of them in float32, and ONNX Runtime's kernels compute others in
doubles. That is right for the numbers of most examples, and wrong from 2 ** 24 or 2 ** 53 on. A
division of the smallest integer by -1 ends the process in ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, cumulative, function
from opgraft.torch._rungs._functions.means import reduced_axes

#: ONNX Runtime lacks operators for some types, which are computed in another type.
COMPUTED_IN = {
    torch.int8: torch.int32,
    torch.uint8: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.int32: torch.int32,
    torch.uint32: torch.int64,
    torch.int64: torch.int64,
}


def gives_integers(call: Call) -> bool:
    return call.result.dtype in COMPUTED_IN


class Whole:
    """Integer arithmetic in one type."""

    def __init__(self, call: Call, dtype: torch.dtype) -> None:
        self._call = call
        self._op = call.op
        self._dtype = dtype

    @classmethod
    def for_result(cls, call: Call) -> Whole:
        return cls(call, COMPUTED_IN[call.result.dtype])

    def floor(self, x: Any, y: Any) -> Value:
        """Returns x / y, rounded down."""
        quotient, rest, y = self._divide(x, y)
        is_other_sign = self._op.Xor(self._is_negative(rest), self._is_negative(y))
        is_above = self._op.And(self._op.Not(self._op.Equal(rest, self._number(0))), is_other_sign)
        return self._op.Sub(quotient, self._call.cast(is_above, self._dtype))

    def truncated(self, x: Any, y: Any) -> Value:
        """Returns x / y, rounded towards zero."""
        return self._divide(x, y)[0]

    def remainder(self, x: Any, y: Any) -> Value:
        """Returns the remainder with the sign of y."""
        return self._op.Mod(*self._safe(x, y))

    def rest(self, x: Any, y: Any) -> Value:
        """Returns the remainder with the sign of x."""
        return self._divide(x, y)[1]

    def _divide(self, x: Any, y: Any) -> tuple[Value, Value, Value]:
        """Returns the quotient rounded towards zero, the remainder and the divisor used."""
        x, y = self._safe(x, y)
        quotient = self._op.Div(x, y)
        return quotient, self._op.Sub(x, self._op.Mul(quotient, y)), y

    def _safe(self, x: Any, y: Any) -> tuple[Value, Value]:
        """Replaces a division by -1, which ends the process for the smallest integer, by -x / 1."""
        x = self._value(x)
        if isinstance(y, int):
            return (self._op.Neg(x), self._number(1)) if y == -1 else (x, self._number(y))
        y = self._value(y)
        is_minus_one = self._op.Equal(y, self._number(-1))
        x = self._op.Where(is_minus_one, self._op.Neg(x), x)
        return x, self._op.Where(is_minus_one, self._number(1), y)

    def _is_negative(self, value: Value) -> Value:
        return self._op.Less(value, self._number(0))

    def _value(self, value: Any) -> Value:
        return (
            self._number(value) if isinstance(value, int) else self._call.cast(value, self._dtype)
        )

    def _number(self, value: int) -> Value:
        return self._call.constant(value, np.int64 if self._dtype == torch.int64 else np.int32)


@function(
    "aten::fmod.Tensor",
    "aten::fmod.Scalar",
    when=gives_integers,
    replaces_torchs=lambda call, _: gives_integers(call),
)
def fmod(call: Call, x: Value, y: Any) -> Value:
    """Computes in integers; ONNX Runtime's kernel computes in doubles."""
    return call.as_result(Whole.for_result(call).rest(x, y))


def _is_whole_power(call: Call) -> bool:
    exponent = call.argument("exponent")
    is_number = isinstance(exponent, int) and not isinstance(exponent, bool)
    return gives_integers(call) and is_number and 0 <= exponent < 2**63


def _is_large_power(call: Call) -> bool:
    """Whether ONNX Runtime gets it wrong; it computes squares and cubes by multiplication."""
    return _is_whole_power(call) and bool(call.argument("exponent") > 3)


@function(
    "aten::pow.Tensor_Scalar",
    when=_is_whole_power,
    replaces_torchs=lambda call, _: _is_large_power(call),
)
def power(call: Call, x: Value, exponent: int) -> Value:
    """Computes by squaring; ONNX Runtime's kernel computes in doubles."""
    op = call.op
    dtype = COMPUTED_IN[call.result.dtype]
    square = call.cast(x, dtype)
    one = call.cast(call.constant(1, np.int64), dtype)
    result = None if exponent else op.Expand(one, op.Shape(x))
    while exponent:
        if exponent & 1:
            result = square if result is None else op.Mul(result, square)
        exponent >>= 1
        square = op.Mul(square, square) if exponent else square
    return call.as_result(result)


def _adds_integers(call: Call) -> bool:
    return call.example(0).dtype in COMPUTED_IN and call.result.dtype == torch.int64


@function(
    "aten::sum",
    "aten::sum.dim_IntList",
    when=_adds_integers,
    replaces_torchs=lambda call, _: _adds_integers(call),
)
def whole_sum(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """Adds the upper and the lower 32 bits separately. ONNX Runtime adds integers in doubles, which
    is exact up to 2 ** 53: enough for 2 ** 21 numbers."""
    op = call.op
    x = call.cast(x, torch.int64)
    axes = reduced_axes(call)
    if not axes:
        return x
    keep = int(call.arguments.get("keepdim", False))
    unit = call.constant(2**32, np.int64)
    low = op.BitwiseAnd(x, call.constant(2**32 - 1, np.int64))
    high = op.Div(op.Sub(x, low), unit)
    reduced = call.constant(axes, np.int64)
    lows, highs = (op.ReduceSum(one, reduced, keepdims=keep) for one in (low, high))
    return op.Add(op.Mul(highs, unit), lows)


def _multiplies_integers(call: Call) -> bool:
    return bool(call.result.dtype == torch.int64)


@function(
    "aten::prod",
    "aten::prod.dim_int",
    when=_multiplies_integers,
    replaces_torchs=lambda call, _: _multiplies_integers(call),
)
def whole_product(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """Multiplies one after the other; ONNX Runtime's kernel multiplies integers in doubles."""
    op = call.op
    rank, dim = call.example(0).dim(), call.arguments.get("dim")
    if rank == 0:
        return call.as_result(x)
    if dim is None:
        return cumulative.whole_product(call, op.Reshape(x, call.constant([-1], np.int64)), 1, 0)
    product = cumulative.whole_product(call, x, rank, dim % rank)
    is_kept = call.arguments.get("keepdim", False)
    return op.Unsqueeze(product, call.constant([dim % rank], np.int64)) if is_kept else product
