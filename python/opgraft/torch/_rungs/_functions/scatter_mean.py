"""scatter_reduce of means: sums, and how many each is of."""

from __future__ import annotations

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.integers import Whole, gives_integers


def _is_mean(call: Call) -> bool:
    is_taken = gives_integers(call) or call.result.is_floating_point()
    return bool(call.argument("reduce") == "mean" and is_taken)


@function("aten::scatter_reduce.two", when=_is_mean, replaces_torchs=lambda call, _: _is_mean(call))
def scatter_mean(
    call: Call,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """ONNX has no such reduction; torch's exporter writes one after the other to the same place."""
    op = call.op
    is_whole = gives_integers(call)
    wide = torch.int64 if is_whole else torch.float64
    x, source = call.cast(x, wide), call.cast(source, wide)
    is_scalar = call.example(0).dim() == 0
    if is_scalar:
        flat = call.constant([-1], np.int64)
        x, index, source = (op.Reshape(one, flat) for one in (x, index, source))
    rank = max(call.example(0).dim(), 1)
    # Of the source as much counts as there are indices.
    zeros, axes = (call.constant(one, np.int64) for one in ([0] * rank, list(range(rank))))
    source = op.Slice(source, zeros, op.Shape(index), axes)
    one, zero = (call.cast(call.constant(number, np.int64), wide) for number in (1, 0))
    ones = op.Expand(one, op.Shape(index))
    start = op.Expand(one if include_self else zero, op.Shape(x))
    counts = op.ScatterElements(start, index, ones, axis=dim, reduction="add")
    if not include_self:
        is_reached = op.Greater(counts, zero)
        x = op.Where(is_reached, zero, x)
        counts = op.Where(is_reached, counts, one)
    sums = op.ScatterElements(x, index, source, axis=dim, reduction="add")
    means = Whole(call, wide).floor(sums, counts) if is_whole else op.Div(sums, counts)
    return call.as_result(op.Squeeze(means) if is_scalar else means)
