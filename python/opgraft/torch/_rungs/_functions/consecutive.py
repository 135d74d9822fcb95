"""unique_consecutive: the first of each run of equal elements, or of equal slices."""

from __future__ import annotations

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function


def _is_taken(call: Call) -> bool:
    return axes.is_real(call.example(0).dtype)


@function("aten::unique_consecutive", when=_is_taken, replaces_torchs=True)
def unique_consecutive(
    call: Call,
    x: Value,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> list[Value]:
    """torch's exporter knows integers alone. NaN is unlike NaN, like in torch."""
    op = call.op
    example = call.example(0)
    if dim is None or example.dim() == 0:
        elements, rank, axis = axes.flat(call, x), 1, 0
    else:
        elements, rank, axis = x, example.dim(), dim % example.dim()
    compared = call.cast(elements, axes.compared_in(example.dtype))
    later = axes.part(call, compared, axis, 1, axes.END)
    earlier = axes.part(call, compared, axis, 0, -1)
    differs = call.cast(op.Not(op.Equal(later, earlier)), torch.int32)
    others = [one for one in range(rank) if one != axis]
    if others:
        # Not the largest, which of nothing is the least number.
        differs = call.cast(differs, torch.int64)
        differing = op.ReduceSum(differs, axes.integers(call, *others), keepdims=0)
        differs = call.cast(op.Greater(differing, axes.integers(call, 0)), torch.int32)
    count = axes.size(call, elements, axis)
    # The first one is new, if there is one.
    first = op.Expand(call.constant(1, np.int32), op.Min(count, axes.integers(call, 1)))
    is_new = op.Concat(first, differs, axis=0)
    flags = call.cast(is_new, torch.bool)
    values = op.Compress(elements, flags, axis=axis)
    one = call.constant(1, np.int64)
    inverse = op.Sub(op.CumSum(call.cast(is_new, torch.int64), call.constant(0, np.int64)), one)
    if dim is None:
        inverse = op.Reshape(inverse, op.Shape(x), allowzero=1)
    begins = axes.flat(call, op.NonZero(flags))
    ends = op.Concat(axes.part(call, begins, 0, 1, axes.END), count, axis=0)
    # Of nothing there is no run, and no end of one.
    counts = op.Sub(axes.part_to(call, ends, axes.size(call, begins, 0)), begins)
    nothing = op.ConstantOfShape(axes.integers(call, 0))
    unasked = call.cast(nothing, torch.int64)
    return [
        op.Identity(values),
        inverse if return_inverse else unasked,
        counts if return_counts else unasked,
    ]
