"""Operators that change shapes or parts of tensors, where torch's exporter has none that works:
squeeze of several axes, resize, empty_permuted, diagonal_scatter and linalg.vander."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function

#: Each column of a Vandermonde matrix is some nodes.
_MOST_COLUMNS = 64


@function("aten::squeeze.dims")
def squeeze(call: Call, x: Value, dims: Sequence[int]) -> Value:
    shape = call.example(0).shape
    found = {dim % len(shape) for dim in dims if shape} if shape else set()
    ones = sorted(axis for axis in found if axes.known(shape[axis]) and shape[axis] == 1)
    return call.op.Squeeze(x, axes.integers(call, *ones)) if ones else call.op.Identity(x)


def _is_as_in_memory(call: Call) -> bool:
    """Whether the elements lie in memory in their order, which is what torch reads."""
    sizes = (*call.example(0).shape, *call.argument("size"))
    return all(map(axes.known, sizes)) and bool(call.example(0).is_contiguous())


@function("aten::resize", when=_is_as_in_memory)
def resize(call: Call, x: Value, size: Sequence[int], *, memory_format: Any = None) -> Value:
    """The first elements; zeros behind them, where torch leaves what it finds in memory."""
    op = call.op
    count = int(np.prod(size))
    zero = call.as_result(call.constant([0]))
    zeros = op.Expand(zero, axes.integers(call, count))
    flat = op.Concat(axes.flat(call, x), zeros, axis=0)
    return op.Reshape(axes.part(call, flat, 0, 0, count), axes.integers(call, *size), allowzero=1)


@function("aten::empty_permuted")
def empty_permuted(call: Call, size: Sequence[Any], *_: Any, **__: Any) -> Value:
    """Zeros, where torch has whatever is in memory."""
    op = call.op
    one = axes.integers(call, 1)
    sizes = [op.Reshape(axes.whole(call, length), one) for length in size]
    shape = op.Concat(*sizes, axis=0) if sizes else call.constant([], np.int64)
    zeros = op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, np.int64)))
    return call.as_result(zeros)


@function("aten::diagonal_scatter", is_kept=True)
def diagonal_scatter(
    call: Call, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """The axes of the diagonal in front, so that it is rows to write."""
    op = call.op
    rank = call.example(0).dim()
    first, second = dim1 % rank, dim2 % rank
    order = [first, second, *(axis for axis in range(rank) if axis not in (first, second))]
    turned = op.Transpose(x, perm=order)
    rows = axes.moved(call, source, rank - 1, rank - 2, 0)
    steps = axes.counted(call, axes.size(call, source, rank - 2))
    starts = axes.integers(call, max(-offset, 0), max(offset, 0))
    places = op.Add(op.Unsqueeze(steps, axes.integers(call, 1)), starts)
    written = op.ScatterND(turned, places, rows)
    return op.Transpose(written, perm=[order.index(axis) for axis in range(rank)])


def _is_narrow(call: Call) -> bool:
    count = call.result.shape[-1]
    return axes.is_real(call.result.dtype) and axes.known(count) and 0 < count <= _MOST_COLUMNS


@function("aten::linalg_vander", when=_is_narrow)
def vander(call: Call, x: Value, *, N: int | None = None) -> Value:
    """Powers one after the other, in doubles or integers of 64 bits like torch's cumprod."""
    op = call.op
    is_float = call.result.dtype.is_floating_point
    x = call.cast(x, torch.float64 if is_float else torch.int64)
    if call.example(0).dim() == 0:
        x = axes.flat(call, x)
    last = axes.integers(call, -1)
    power = op.Expand(op.CastLike(call.constant(1.0), x), op.Shape(x))
    powers = [op.Unsqueeze(power, last)]
    for _ in range(call.result.shape[-1] - 1):
        power = op.Mul(power, x)
        powers.append(op.Unsqueeze(power, last))
    return call.as_result(op.Concat(*powers, axis=-1))
