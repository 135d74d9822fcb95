"""segment_reduce: sums, means, products and extremes of the runs that lengths or offsets give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function
from opgraft.torch._rungs._functions.reduced_places import reduced

#: What a segment of nothing is.
_OF_NOTHING = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _is_taken(call: Call) -> bool:
    is_float = call.example(0).dtype.is_floating_point and not call.has_complex
    return is_float and call.argument("indices") is None


@function("aten::segment_reduce", when=_is_taken)
def segment_reduce(
    call: Call,
    x: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    indices: None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Value:
    """How many offsets are not beyond an element says which segment it belongs to."""
    op = call.op
    rank = call.example(0).dim()
    axis %= rank
    if lengths is None:
        offsets = call.cast(offsets, torch.int64)
    else:
        ends = op.CumSum(call.cast(lengths, torch.int64), call.constant(axis, np.int64))
        pads = [0] * (2 * (axis + 1))
        pads[axis] = 1
        offsets = op.Pad(ends, axes.integers(call, *pads), call.constant(0, np.int64))
    # A mark for each offset, and one place more, for offsets at the end.
    length = axes.size(call, x, axis)
    others = [op.Shape(x, start=0, end=axis)] if axis else []
    room = op.Concat(*others, op.Add(length, axes.integers(call, 1)), axis=0)
    marks = op.ConstantOfShape(room, value=ir.tensor(np.zeros(1, np.int64)))
    ones = op.Expand(call.constant(1, np.int64), op.Shape(offsets))
    begins = op.Min(offsets, length)
    marks = op.ScatterElements(marks, begins, ones, axis=axis, reduction="add")
    found = axes.part(call, op.CumSum(marks, call.constant(axis, np.int64)), axis, 0, -1)
    count = op.Sub(axes.size(call, offsets, axis), axes.integers(call, 1))
    segment = op.Sub(found, axes.integers(call, 1))
    # What belongs to none goes behind the last one, and is cut off.
    segment = op.Where(op.Less(segment, axes.integers(call, 0)), count, segment)
    behind = axes.integers(call, *range(axis + 1, rank))
    spread = segment if axis == rank - 1 else op.Unsqueeze(segment, behind)
    spread = op.Expand(spread, op.Shape(x))
    sizes = [op.Shape(x, start=0, end=axis)] if axis else []
    one = axes.integers(call, 1)
    rest = [op.Shape(x, start=axis + 1)] if axis < rank - 1 else []
    first = _OF_NOTHING[reduce] if initial is None else float(initial)
    start = op.Expand(call.constant(first), op.Concat(*sizes, op.Add(count, one), *rest, axis=0))
    result = reduced(call, start, axis, spread, x, _REDUCTIONS[reduce], include_self=True)
    bounds_of = (axes.integers(call, 0), count, axes.integers(call, axis))
    result = op.Slice(result, *bounds_of)
    if reduce == "mean":
        result = _mean(call, result, offsets, axis, rank, initial)
    return call.as_result(result)


def _mean(call: Call, sums: Value, offsets: Value, axis: int, rank: int, initial: Any) -> Value:
    """The mean of nothing is NaN, or what it was to begin with."""
    op = call.op
    later = axes.part(call, offsets, axis, 1, axes.END)
    lengths = op.Sub(later, axes.part(call, offsets, axis, 0, -1))
    if initial is not None:
        lengths = op.Max(lengths, axes.integers(call, 1))
    if axis < rank - 1:
        lengths = op.Unsqueeze(lengths, axes.integers(call, *range(axis + 1, rank)))
    return op.Div(sums, call.double(lengths))
