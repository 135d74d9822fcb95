"""adaptive_avg_pool with open sizes: the mean of each window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function


def _is_open(call: Call) -> bool:
    """torch decomposes it for the sizes of the example, which is wrong for other sizes."""
    wanted = call.argument("output_size")
    sizes = (*call.example(0).shape, *(wanted if isinstance(wanted, (list, tuple)) else [wanted]))
    return not all(isinstance(size, int) for size in sizes)


@function(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
    replaces_torchs=lambda call, _: _is_open(call),
    is_kept=_is_open,
)
def adaptive_avg_pool(call: Call, x: Value, output_size: Sequence[Any]) -> Value:
    """Computes the means along one axis after the other."""
    rank = call.example(0).dim()
    wide = call.working(x)
    for place, wanted in enumerate(output_size):
        axis = rank - len(output_size) + place
        wide = _pooled(call, wide, rank, axis, wanted)
    return call.as_result(wide)


def _pooled(call: Call, x: Value, rank: int, axis: int, wanted: Any) -> Value:
    op = call.op
    if isinstance(wanted, int) and wanted == 1:
        return op.ReduceMean(x, call.constant([axis], np.int64), keepdims=1)
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    last = call.constant([-1], np.int64)
    count = _whole(call, wanted)
    size = op.Squeeze(op.Shape(x, start=axis, end=axis + 1))
    # Window i goes from floor(i size / count) to ceil((i + 1) size / count).
    places = op.Range(zero, count, one)
    divisor = op.Max(count, one)  # there may be no windows
    begin = op.Div(op.Mul(places, size), divisor)
    beyond = op.Sub(op.Add(op.Mul(op.Add(places, one), size), count), one)
    end = op.Div(beyond, divisor)
    lengths = op.Sub(end, begin)
    longest = op.ReduceMax(op.Concat(lengths, call.constant([1], np.int64), axis=0), keepdims=0)
    steps = op.Range(zero, longest, one)
    within = op.Add(op.Unsqueeze(begin, last), steps)
    is_within = op.Less(within, op.Unsqueeze(end, last))
    windows = op.Gather(x, op.Where(is_within, within, zero), axis=axis)
    behind = list(range(2, rank - axis + 1))  # the axes after that of the window
    if behind:
        is_within = op.Unsqueeze(is_within, call.constant(behind, np.int64))
        lengths = op.Unsqueeze(lengths, call.constant([one - 1 for one in behind], np.int64))
    windows = op.Where(is_within, windows, call.working_constant(0.0))
    sums = op.ReduceSum(windows, call.constant([axis + 1], np.int64), keepdims=0)
    return op.Div(sums, call.working(lengths))


def _whole(call: Call, value: Any) -> Value:
    if isinstance(value, int):
        return call.constant(value, np.int64)
    return call.op.Squeeze(call.cast(value, torch.int64))
