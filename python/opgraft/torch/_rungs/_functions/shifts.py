"""Shifts of integers, of which ONNX has those of unsigned ones alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.integers import gives_integers

#: A shift of a 64-bit integer by more is undefined in ONNX Runtime.
_MOST = 63


@function(
    "aten::__rshift__.Scalar",
    "aten::__rshift__.Tensor",
    "aten::bitwise_right_shift.Tensor",
    "aten::bitwise_right_shift.Tensor_Scalar",
    "aten::bitwise_right_shift.Scalar_Tensor",
    when=gives_integers,
    replaces_torchs=lambda call, _: gives_integers(call),
)
def shift_right(call: Call, x: Any, count: Any) -> Value:
    """Negative numbers with all bits turned, before and after, so that ones come from the left.
    Counts that are negative or beyond the bits leave nothing but the sign."""
    op = call.op
    x, count, is_within = _counted(call, x, count)
    zero, all_ones, most = (call.constant(one, np.int64) for one in (0, -1, _MOST))
    turned = op.Where(op.Less(x, zero), all_ones, zero)
    count = op.Where(is_within, count, most)
    shifted = _shift(call, op.BitwiseXor(x, turned), count, "RIGHT")
    return call.as_result(op.BitwiseXor(shifted, turned))


@function(
    "aten::__lshift__.Scalar",
    "aten::__lshift__.Tensor",
    "aten::bitwise_left_shift.Tensor",
    "aten::bitwise_left_shift.Tensor_Scalar",
    "aten::bitwise_left_shift.Scalar_Tensor",
    when=gives_integers,
    replaces_torchs=lambda call, _: gives_integers(call),
)
def shift_left(call: Call, x: Any, count: Any) -> Value:
    """Counts that are negative or beyond the bits leave nothing."""
    op = call.op
    x, count, is_within = _counted(call, x, count)
    zero = call.constant(0, np.int64)
    shifted = _shift(call, x, op.Where(is_within, count, zero), "LEFT")
    return call.as_result(op.Where(is_within, shifted, zero))


def _counted(call: Call, x: Any, count: Any) -> tuple[Value, Value, Value]:
    """Both in 64 bits, and whether that many bits can be shifted."""
    op = call.op
    x, count = (_whole(call, one) for one in (x, count))
    zero, most = call.constant(0, np.int64), call.constant(_MOST, np.int64)
    is_within = op.And(op.GreaterOrEqual(count, zero), op.LessOrEqual(count, most))
    return x, count, is_within


def _whole(call: Call, value: Any) -> Value:
    is_number = isinstance(value, int)
    return call.constant(value, np.int64) if is_number else call.cast(value, torch.int64)


def _shift(call: Call, x: Value, count: Value, direction: str) -> Value:
    bits, count = (call.cast(one, torch.uint64) for one in (x, count))
    return call.cast(call.op.BitShift(bits, count, direction=direction), torch.int64)
