"""Sums and differences of numbers of different types, such as `1.0 - mask` for a mask of integers,
and those with a factor, `torch.add(x, y, alpha=3)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.integers import COMPUTED_IN, gives_integers


def _is_promoted(call: Call) -> bool:
    """Whether the tensor is of another type than the result. torch's exporter then fails: its
    decomposition has a number where its type promotion expects a tensor."""
    return bool(call.example(0).dtype != call.result.dtype)


def _is_scaled(call: Call) -> bool:
    """Whether the second tensor, of another type than the result, has a factor. In a trace, torch
    multiplies before it converts, so that small integers overflow."""
    other = call.example(1)
    is_other_type = isinstance(other, torch.Tensor) and other.dtype != call.result.dtype
    return is_other_type and call.argument("alpha") != 1


@function(
    "aten::rsub.Scalar",
    is_kept=_is_promoted,
    replaces_torchs=lambda call, _: _is_promoted(call),  # for the factor, as below
)
def rsub(call: Call, x: Value, other: Any, alpha: Any = 1) -> Value:
    return sub(call, other, x, alpha=alpha)


@function("aten::sub.Tensor", when=_is_scaled, replaces_torchs=lambda call, _: _is_scaled(call))
def sub(call: Call, x: Value, y: Value, *, alpha: Any = 1) -> Value:
    return call.as_result(call.op.Sub(_in_working_type(call, x), _scaled(call, y, alpha)))


@function("aten::add.Tensor", when=_is_scaled, replaces_torchs=lambda call, _: _is_scaled(call))
def add(call: Call, x: Value, y: Value, *, alpha: Any = 1) -> Value:
    return call.as_result(call.op.Add(_in_working_type(call, x), _scaled(call, y, alpha)))


def _scaled(call: Call, value: Value, alpha: Any) -> Value:
    value = _in_working_type(call, value)
    return value if alpha == 1 else call.op.Mul(value, _in_working_type(call, alpha))


def _in_working_type(call: Call, value: Any) -> Value:
    if gives_integers(call):
        number = call.constant(value, np.int64) if isinstance(value, int) else value
        return call.cast(number, COMPUTED_IN[call.result.dtype])
    is_number = isinstance(value, (int, float))
    return call.working_constant(float(value)) if is_number else call.working(value)
