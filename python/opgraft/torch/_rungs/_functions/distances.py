"""Distances between all pairs of rows: cdist and pdist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function

#: The most differences that distances are computed from, where their number is known.
_MOST = 1 << 22


def _is_real(call: Call) -> bool:
    return bool(call.result.is_floating_point())


def _is_by_differences(call: Call) -> bool:
    """torch computes Euclidean distances of more than 25 rows from products, whose roundings show
    where rows are close. Those of open sizes are left to libtorch."""
    has_open_sizes = not all(isinstance(size, int) for size in call.result.shape)
    return _is_few(call) and not (has_open_sizes and call.argument("p") == 2)


def _is_few(call: Call) -> bool:
    """All differences are in memory at once, so that many are left to libtorch."""
    sizes = [*call.result.shape, call.example(0).shape[-1]]
    known = [size for size in sizes if isinstance(size, int)]
    return _is_real(call) and math.prod(known) <= _MOST


@function("aten::cdist", "aten::_cdist_forward", when=_is_by_differences)
def cdist(call: Call, x: Value, y: Value, p: float = 2.0, compute_mode: Any = None) -> Value:
    op = call.op
    rows = op.Unsqueeze(call.double(x), call.constant([-2], np.int64))
    columns = op.Unsqueeze(call.double(y), call.constant([-3], np.int64))
    return call.as_result(_length(call, op.Sub(rows, columns), p, passes_over_nan=True))


@function("aten::pdist", "aten::_pdist_forward", when=_is_few)
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
    return call.as_result(_length(call, op.Sub(rows, columns), p, passes_over_nan=False))


def _length(call: Call, differences: Value, p: float, *, passes_over_nan: bool) -> Value:
    """Returns the p-norms of the last axis. That of nothing is 0. `passes_over_nan` is for the
    largest difference, in which torch's cdist does not count NaN."""
    op = call.op
    # Counted from the front: from the back ONNX Runtime gets the shape of nothing wrong.
    place = call.result.dim()
    axis = call.constant([place], np.int64)
    sizes = op.Abs(differences)
    if p == 0:
        is_other = op.Not(op.Equal(sizes, call.constant(0.0)))
        others = op.Where(op.IsNaN(sizes), sizes, call.double(is_other))
        return op.ReduceSum(others, axis, keepdims=0)
    if p == math.inf:
        # With a 0 in front, so that there is a largest.
        shape = op.Shape(sizes)
        last = call.constant([-1], np.int64)
        column = op.Slice(shape, call.constant([0], np.int64), last)
        column = op.Concat(column, call.constant([1], np.int64), axis=0)
        zeros = op.Expand(call.constant(0.0), column)
        # ONNX Runtime's largest of NaN and numbers is any.
        is_nan = op.IsNaN(sizes)
        numbers = op.Where(is_nan, call.constant(0.0), sizes)
        largest = op.ReduceMax(op.Concat(zeros, numbers, axis=place), axis, keepdims=0)
        if passes_over_nan:
            return largest
        nans = op.ReduceSum(call.cast(is_nan, torch.int64), axis, keepdims=0)
        has_nan = op.Greater(nans, call.constant(0, np.int64))
        return op.Where(has_nan, call.constant(math.nan), largest)
    if p == 1:
        return op.ReduceSum(sizes, axis, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(sizes, sizes), axis, keepdims=0))
    powers = op.ReduceSum(op.Pow(sizes, call.constant(float(p))), axis, keepdims=0)
    return op.Pow(powers, call.constant(1 / p))
