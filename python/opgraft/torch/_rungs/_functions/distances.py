"""Distances between all pairs of rows: cdist and pdist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function

#: The most differences that Euclidean distances are computed from.
_MOST = 1 << 22


def _is_real(call: Call) -> bool:
    return bool(call.result.is_floating_point())


def _is_by_differences(call: Call) -> bool:
    """torch computes Euclidean distances of more than 25 rows from products, whose roundings show
    where rows are close. Those of many or open sizes are left to libtorch."""
    if not _is_real(call):
        return False
    sizes = [*call.result.shape, call.example(0).shape[-1]]
    is_small = all(isinstance(size, int) for size in sizes) and math.prod(sizes) <= _MOST
    return is_small or bool(call.argument("p") != 2)


@function("aten::cdist", "aten::_cdist_forward", when=_is_by_differences)
def cdist(call: Call, x: Value, y: Value, p: float = 2.0, compute_mode: Any = None) -> Value:
    op = call.op
    rows = op.Unsqueeze(call.double(x), call.constant([-2], np.int64))
    columns = op.Unsqueeze(call.double(y), call.constant([-3], np.int64))
    return call.as_result(_length(call, op.Sub(rows, columns), p))


@function("aten::pdist", "aten::_pdist_forward", when=_is_real)
def pdist(call: Call, x: Value, p: float = 2.0) -> Value:
    op = call.op
    x = call.double(x)
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    size = op.Gather(op.Shape(x), zero)
    numbers = op.Range(zero, size, one)
    first = op.Unsqueeze(numbers, call.constant([1], np.int64))
    second = op.Unsqueeze(numbers, call.constant([0], np.int64))
    pairs = op.NonZero(op.Less(first, second))
    rows, columns = (op.Gather(x, op.Gather(pairs, one_of)) for one_of in (zero, one))
    return call.as_result(_length(call, op.Sub(rows, columns), p))


def _length(call: Call, differences: Value, p: float) -> Value:
    """Returns the p-norms of the last axis. That of nothing is 0."""
    op = call.op
    # Counted from the front: from the back ONNX Runtime gets the shape of nothing wrong.
    place = call.result.dim()
    axis = call.constant([place], np.int64)
    sizes = op.Abs(differences)
    if p == 0:
        is_other = op.Not(op.Equal(sizes, call.constant(0.0)))
        return op.ReduceSum(call.double(is_other), axis, keepdims=0)
    if p == math.inf:
        # With a 0 in front, so that there is a largest.
        shape = op.Shape(sizes)
        last = call.constant([-1], np.int64)
        column = op.Slice(shape, call.constant([0], np.int64), last)
        column = op.Concat(column, call.constant([1], np.int64), axis=0)
        zeros = op.Expand(call.constant(0.0), column)
        return op.ReduceMax(op.Concat(zeros, sizes, axis=place), axis, keepdims=0)
    if p == 1:
        return op.ReduceSum(sizes, axis, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(sizes, sizes), axis, keepdims=0))
    powers = op.ReduceSum(op.Pow(sizes, call.constant(float(p))), axis, keepdims=0)
    return op.Pow(powers, call.constant(1 / p))
