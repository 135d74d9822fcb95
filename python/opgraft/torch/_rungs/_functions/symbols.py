"""Python's arithmetic with numbers that depend on data or on open sizes."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._rungs._functions import Call, Value, function, remainder
from opgraft.torch._rungs._functions.integers import Whole


def _can_be_negative(call: Call, _: int) -> bool:
    """ONNX's operators are right for other integers: sizes above all."""
    numbers = [call.example(0), call.example(1)]
    return _is_float(call) or any(_private.least(one) < 0 for one in numbers)


def _is_float(call: Call) -> bool:
    return isinstance(call.result, torch.SymFloat)


@function("_operator::floordiv", replaces_torchs=_can_be_negative)
def floordiv(call: Call, x: Any, y: Any) -> Value:
    """torch's exporter rounds towards zero. Of floating-point numbers torch makes math.floor."""
    return Whole(call, torch.int64).floor(x, y)


@function("_operator::mod", replaces_torchs=_can_be_negative)
def mod(call: Call, x: Any, y: Any) -> Value:
    """torch's exporter has ONNX's Mod, which takes no floating-point numbers so."""
    if _is_float(call):
        return remainder.of_floats(call, _float(call, x), _float(call, y))
    return Whole(call, torch.int64).remainder(x, y)


@function("aten::sym_size.int", takes_complex=True)
def size(call: Call, x: Value, axis: int) -> Value:
    """Of a complex tensor, which torch's exporter has no sizes of: the last axis of its pairs is
    not one of torch's."""
    axis = axis % call.example(0).dim()
    return call.op.Squeeze(call.op.Shape(x, start=axis, end=axis + 1))


@function("_sym_sqrt")
def sqrt(call: Call, x: Any) -> Value:
    """math.sqrt of a size: torch's exporter has no such function."""
    return call.op.Sqrt(_float(call, x))


@function("round", when=lambda call: call.node.args[1:] in ((), (None,)))
def round_half_even(call: Call, x: Any, _: None = None) -> Value:
    """Python's round without digits, which gives an integer."""
    return call.cast(call.op.Round(_float(call, x)), torch.int64)


def _float(call: Call, value: Any) -> Value:
    """In float32, as torch's exporter has such numbers."""
    is_number = isinstance(value, (int, float))
    return call.working_constant(float(value)) if is_number else call.cast(value, torch.float32)
