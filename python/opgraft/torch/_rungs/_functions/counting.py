"""Counts of numbers in bins: histogram and histogramdd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function
from opgraft.torch._rungs._functions.searching import places


def _is_taken(call: Call) -> bool:
    """Of floating-point numbers, in a number of bins that is known."""
    example = call.example(0)
    bins = call.arguments.get("bins")
    of_tensors = bins if isinstance(bins, (list, tuple)) else [bins]
    edges = [one.meta["val"] if isinstance(one, torch.fx.Node) else one for one in of_tensors]
    lengths = [one.shape[0] for one in edges if isinstance(one, torch.Tensor)]
    return example.dtype in (torch.float32, torch.float64) and all(map(axes.known, lengths))


@function("aten::histogram.bin_ct", when=_is_taken)
def histogram(
    call: Call,
    x: Value,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    dtype = call.example(0).dtype
    x = axes.flat(call, x)
    edges = _edges(call, x, bins, range, dtype)
    counts = _counted(call, [x], [edges], [bins + 1], weight, density=density, dtype=dtype)
    return [counts, edges]


@function("aten::histogram.bins_tensor", when=_is_taken)
def histogram_of_edges(
    call: Call, x: Value, bins: Value, *, weight: Value | None = None, density: bool = False
) -> list[Value]:
    dtype, length = call.example(0).dtype, call.example(1).shape[0]
    x = axes.flat(call, x)
    counts = _counted(call, [x], [bins], [length], weight, density=density, dtype=dtype)
    return [counts, call.op.Identity(bins)]


@function("aten::_histogramdd_bin_edges", when=_is_taken)
def histogramdd_edges(
    call: Call,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    columns = _columns(call, x)
    pairs = [None] * len(columns) if not range else list(zip(range[::2], range[1::2], strict=True))
    dtype = call.example(0).dtype
    return [
        _edges(call, one, count, pair, dtype)
        for one, count, pair in zip(columns, bins, pairs, strict=True)
    ]


@function("aten::_histogramdd_from_bin_cts", when=_is_taken)
def histogramdd(
    call: Call,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    edges = histogramdd_edges(call, x, bins, range=range)
    lengths = [count + 1 for count in bins]
    columns, dtype = _columns(call, x), call.example(0).dtype
    return _counted(call, columns, edges, lengths, weight, density=density, dtype=dtype)


@function("aten::_histogramdd_from_bin_tensors", when=_is_taken)
def histogramdd_of_edges(
    call: Call,
    x: Value,
    bins: Sequence[Value],
    *,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    lengths = [one.meta["val"].shape[0] for one in call.node.args[1]]  # type: ignore[union-attr]
    columns, dtype = _columns(call, x), call.example(0).dtype
    return _counted(call, columns, list(bins), lengths, weight, density=density, dtype=dtype)


def _columns(call: Call, x: Value) -> list[Value]:
    """One vector for each dimension of the histogram."""
    rank, count = call.example(0).dim(), call.example(0).shape[-1]
    last = axes.integers(call, rank - 1)
    return [
        axes.flat(call, call.op.Squeeze(axes.part(call, x, rank - 1, place, place + 1), last))
        for place in range(count)
    ]


def _edges(
    call: Call, x: Value, bins: int, range: Sequence[float] | None, dtype: torch.dtype
) -> Value:
    """Edges at equal distances, from both ends like torch's, rounded once. torch's differ by some
    roundings from one processor to another."""
    op = call.op

    def number(value: float) -> Value:
        return axes.constant_of(call, value, dtype)

    if range is None:
        # Of nothing the range is that from 0 to 1.
        least = op.ReduceMin(_and_one(call, x, np.inf, dtype), keepdims=0)
        most = op.ReduceMax(_and_one(call, x, -np.inf, dtype), keepdims=0)
        is_empty = op.Equal(op.Size(x), call.constant(0, np.int64))
        least = op.Where(is_empty, number(0), least)
        most = op.Where(is_empty, number(1), most)
    else:
        least, most = (number(float(one)) for one in range)
    is_same, half = op.Equal(least, most), number(0.5)
    least, most = (
        op.Where(is_same, op.Sub(least, half), least),
        op.Where(is_same, op.Add(most, half), most),
    )
    least, most = call.double(least), call.double(most)
    step = op.Div(op.Sub(most, least), call.constant(float(bins)))
    middle = (bins + 1) // 2
    up, down = np.arange(middle), bins - np.arange(middle, bins + 1)
    parts = (
        op.Add(least, op.Mul(step, call.constant(up))),
        op.Sub(most, op.Mul(step, call.constant(down))),
    )
    return call.cast(op.Concat(*parts, axis=0), dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _and_one(call: Call, x: Value, value: float, dtype: torch.dtype) -> Value:
    return call.op.Concat(x, call.constant([value], _name(dtype)), axis=0)


def _counted(
    call: Call,
    columns: Sequence[Value],
    edges: Sequence[Value],
    lengths: Sequence[int],
    weight: Value | None,
    *,
    density: bool,
    dtype: torch.dtype,
) -> Value:
    """Adds up the weights of each bin, in doubles. What is outside counts nothing; the last edge
    belongs to the last bin."""
    op = call.op
    one, zero = call.constant(1, np.int64), call.constant(0, np.int64)
    bin: Any = zero
    is_within: Any = call.constant(True, bool)
    for x, own, length in zip(columns, edges, lengths, strict=True):
        first, last = axes.part(call, own, 0, 0, 1), axes.part(call, own, 0, -1, axes.END)
        inside = op.And(op.GreaterOrEqual(x, first), op.LessOrEqual(x, last))
        is_within = op.And(is_within, inside)
        found = places(call, own, torch.Size([length]), x, 1, dtype, is_right=True)
        along = op.Sub(op.Min(found, call.constant(length - 1, np.int64)), one)
        bin = op.Add(op.Mul(bin, call.constant(length - 1, np.int64)), along)
    bin = op.Where(is_within, bin, zero)
    nothing = call.constant(0.0)
    weights = call.constant(1.0) if weight is None else call.double(axes.flat(call, weight))
    weights = op.Where(is_within, weights, nothing)
    bins = [length - 1 for length in lengths]
    empty = op.ConstantOfShape(
        axes.integers(call, int(np.prod(bins))), value=ir.tensor(np.zeros(1))
    )
    sums = op.ScatterElements(empty, bin, weights, axis=0, reduction="add")
    counts = call.cast(op.Reshape(sums, axes.integers(call, *bins)), dtype)
    if not density:
        return counts
    counts = op.Div(counts, op.ReduceSum(counts, keepdims=0))
    for axis, own in enumerate(edges):
        later, earlier = axes.part(call, own, 0, 1, axes.END), axes.part(call, own, 0, 0, -1)
        width = axes.along(call, op.Sub(later, earlier), len(bins), axis)
        counts = op.Div(counts, width)
    return counts
