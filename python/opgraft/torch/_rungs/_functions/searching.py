"""searchsorted and bucketize: where numbers belong in sorted ones, by halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function

#: The sizes of steps, where the number of them is open.
_POWERS = [1 << power for power in range(62)]


def _takes(call: Call, *names: str) -> bool:
    examples = [call.argument(name) for name in names]
    dtypes = {one.dtype for one in examples if isinstance(one, torch.Tensor)}
    if len(dtypes) != 1 or not all(map(axes.is_real, dtypes)):
        return False
    # torch compares a number with integers and with small floats in the type of the number.
    if all(isinstance(one, torch.Tensor) for one in examples):
        return True
    if dtypes <= {torch.float32, torch.float64}:
        return True
    is_whole = all(isinstance(one, (torch.Tensor, int, torch.SymInt)) for one in examples)
    return is_whole and not dtypes & {torch.float16, torch.bfloat16}


def _can_search(call: Call) -> bool:
    return _takes(call, "sorted_sequence", "self")


def _can_bucketize(call: Call) -> bool:
    return _takes(call, "boundaries", "self")


@function("aten::searchsorted.Tensor", "aten::searchsorted.Scalar", when=_can_search)
def searchsorted(
    call: Call,
    numbers: Value,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    is_right = right if side is None else side == "right"
    if sorter is not None:
        numbers = call.op.GatherElements(numbers, call.cast(sorter, torch.int64), axis=-1)
    return _searched(call, numbers, call.example(0), x, call.example(1), is_right=is_right)


@function("aten::bucketize.Tensor", "aten::bucketize.Scalar", when=_can_bucketize)
def bucketize(
    call: Call, x: Any, numbers: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    return _searched(call, numbers, call.example(1), x, call.example(0), is_right=right)


def _searched(
    call: Call,
    numbers: Value,
    example: torch.Tensor,
    x: Any,
    x_example: Any,
    *,
    is_right: bool,
) -> Value:
    dtype = axes.compared_in(example.dtype)
    is_number = not isinstance(x_example, torch.Tensor)
    numbers = call.cast(numbers, dtype)
    if is_number and isinstance(x_example, (int, float)):
        x = axes.constant_of(call, x_example, dtype)
    x = call.cast(x, dtype)
    rank = 0 if is_number else x_example.dim()
    found = places(call, numbers, example.shape, x, rank, dtype, is_right=is_right)
    return call.as_result(found)


def places(
    call: Call,
    numbers: Value,
    shape: torch.Size,
    x: Value,
    rank: int,
    dtype: torch.dtype,
    *,
    is_right: bool,
) -> Value:
    """How many of the sorted numbers on the last axis are less than each x, or not greater.

    The answer grows by each power of two, largest first, that leaves it at a number that is still
    less. Behind the last number all are infinite. NaN belongs behind them."""
    op = call.op
    last = len(shape) - 1
    count = axes.size(call, numbers, last)
    infinity = axes.extreme(call, dtype, largest=True)
    # As vectors, where all look in the same numbers: a scalar has no axis to gather along.
    wanted = axes.flat(call, x) if last == 0 else x
    steps = shape[last].bit_length() if axes.known(shape[last]) else None
    behind = 1 if steps is None else (1 << steps) - 1 - shape[last]
    pads = axes.integers(call, *[0] * (2 * last + 1), behind)
    padded = op.Pad(numbers, pads, infinity)

    def step(found: Value, stride: Value) -> Value:
        further = op.Add(found, stride)
        at = op.Sub(further, call.constant(1, np.int64))
        if steps is None:
            at = op.Min(at, count)
        number = op.GatherElements(padded, at, axis=last)
        stops = (op.Greater if is_right else op.GreaterOrEqual)(number, wanted)
        return op.Where(stops, found, further)

    found = op.ConstantOfShape(op.Shape(wanted), value=ir.tensor(np.array([0])))
    if steps is None:
        found = _looped(call, step, found, count, 1 if last == 0 else rank)
    for power in reversed(range(steps or 0)):
        found = step(found, call.constant(1 << power, np.int64))
    found = op.Min(found, count)
    return op.Reshape(found, op.Shape(x), allowzero=1) if last == 0 else found


def _looped(
    call: Call, step: Callable[[Value, Value], Value], found: Value, count: Value, rank: int
) -> Value:
    """Takes as many steps as the count has bits."""
    op = call.op
    powers = call.constant(_POWERS, np.int64)
    is_within = call.cast(op.LessOrEqual(powers, count), torch.int64)
    steps = op.ReduceSum(is_within, keepdims=0)
    one, two = call.constant(1, np.int64), call.constant(2, np.int64)
    stride = op.Gather(powers, op.Max(op.Sub(steps, one), call.constant(0, np.int64)))

    def build(_: Value, goes_on: Value, found: Value, stride: Value) -> list[Value]:
        return [goes_on, step(found, stride), op.Div(stride, two)]

    flag, scalar = (torch.bool, 0), (torch.int64, 0)
    inputs = [("trip", *scalar), ("goes_on", *flag), ("found", torch.int64, rank)]
    outputs = [flag, (torch.int64, rank), scalar]
    body = axes.body(call, [*inputs, ("stride", *scalar)], build, outputs)
    return call.append("Loop", [steps, None, found, stride], 2, body=body)[0]
