"""adaptive_max_pool and fractional_max_pool: the largest of windows that are not all alike.

ONNX's MaxPool has windows at equal distances. Here the elements of each window are gathered. Of
equal elements the first one counts, of NaN the last one, like in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, axes, function


def _is_adaptive(call: Call) -> bool:
    example, wanted = call.example(0), call.argument("output_size")
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    sizes = (*example.shape, *wanted)
    return axes.is_real(example.dtype) and all(axes.known(size) and size > 0 for size in sizes)


@function(
    "aten::adaptive_max_pool1d",
    "aten::adaptive_max_pool2d",
    "aten::adaptive_max_pool3d",
    when=_is_adaptive,
    is_kept=_is_adaptive,
)
def adaptive_max_pool(call: Call, x: Value, output_size: Sequence[int]) -> list[Value]:
    """Window i goes from floor(i size / count) to ceil((i + 1) size / count)."""
    sizes = call.example(0).shape[-len(output_size) :]
    begins, lengths = [], []
    for size, count in zip(sizes, output_size, strict=True):
        places = np.arange(count)
        begins.append(places * size // count)
        lengths.append(-(-(places + 1) * size // count) - begins[-1])
    # Where in the plane each element of each window is.
    windows: Any = np.zeros((1,), np.int64)
    is_within: Any = np.ones((1,), bool)
    rank = len(sizes)
    for axis, (begin, length, size) in enumerate(zip(begins, lengths, sizes, strict=True)):
        steps = np.arange(length.max())
        along = np.minimum(begin[:, None] + steps, size - 1)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = along.shape
        windows = windows * size + along.reshape(shape)
        is_within = is_within & (steps < length[:, None]).reshape(shape)
    count = int(np.prod(output_size))
    windows, is_within = (one.reshape(count, -1) for one in (windows, is_within))
    op = call.op
    planes = op.Reshape(x, axes.integers(call, -1, int(np.prod(sizes))))
    where = call.constant(windows.reshape(1, -1), np.int64)
    number = op.Concat(axes.size(call, planes, 0), axes.integers(call, windows.size), axis=0)
    kept = None if is_within.all() else call.constant(is_within, bool)
    return _largest(call, x, planes, op.Expand(where, number), windows.shape, output_size, kept)


def _largest(
    call: Call,
    x: Value,
    planes: Value,
    where: Value,
    windows: tuple[int, ...],
    output_size: Sequence[int],
    is_within: Value | None,
) -> list[Value]:
    """The largest of each window and its place in its plane. `where` has a row for each plane, with
    the places of all elements of all windows, of which `windows` is the number and the size."""
    op = call.op
    # Much faster than Gather, which copies element by element.
    elements = op.GatherElements(planes, where, axis=1)
    shape = axes.integers(call, -1, *windows)
    elements, where = op.Reshape(elements, shape), op.Reshape(where, shape)
    place = _place_of_largest(call, elements, 2, is_within)
    first = op.Shape(x, start=0, end=call.example(0).dim() - len(output_size))
    shape = op.Concat(first, axes.integers(call, *output_size), axis=0)
    return [op.Reshape(op.GatherElements(one, place, axis=2), shape) for one in (elements, where)]


def _place_of_largest(call: Call, x: Value, axis: int, is_within: Value | None) -> Value:
    op = call.op
    dtype = axes.compared_in(call.example(0).dtype)
    x = call.cast(x, dtype)
    worst = axes.extreme(call, dtype, largest=False)
    is_nan = None
    if dtype.is_floating_point:
        is_nan = op.IsNaN(x)
        x = op.Where(is_nan, worst, x)
    if is_within is not None:
        x = op.Where(is_within, x, worst)
    place = op.ArgMax(x, axis=axis, keepdims=1)
    if is_nan is None:
        return place
    if is_within is not None:
        is_nan = op.And(is_nan, is_within)
    nans = call.cast(is_nan, torch.int32)
    last = op.ArgMax(nans, axis=axis, keepdims=1, select_last_index=1)
    has_nan = op.ReduceMax(nans, axes.integers(call, axis), keepdims=1)
    return op.Where(call.cast(has_nan, torch.bool), last, place)


def _is_fractional(call: Call) -> bool:
    example = call.example(0)
    dims = len(call.argument("kernel_size"))
    sizes = example.shape[-dims:]
    is_float = example.dtype in (torch.float32, torch.float64)
    return is_float and all(map(axes.known, (*sizes, *call.argument("output_size"))))


@function("aten::fractional_max_pool2d", "aten::fractional_max_pool3d", when=_is_fractional)
def fractional_max_pool(
    call: Call,
    x: Value,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: Value,
) -> list[Value]:
    """The windows of each plane begin where its random numbers say, computed in the type of these
    like in torch. In 2 dimensions the first number is that of the last axis."""
    op = call.op
    example = call.example(0)
    rank = len(kernel_size)
    sizes = example.shape[-rank:]
    dtype = example.dtype
    planes = op.Reshape(x, axes.integers(call, -1, int(np.prod(sizes))))
    numbers = op.Reshape(random_samples, axes.integers(call, -1, rank))
    where: Any = call.constant(0, np.int64)
    for axis, (size, kernel, count) in enumerate(zip(sizes, kernel_size, output_size, strict=True)):
        column = rank - 1 - axis if rank == 2 else axis
        number = op.Gather(numbers, axes.integers(call, column), axis=1)
        begins = _begins(call, number, size, kernel, count, dtype)
        steps = call.constant(np.arange(kernel), np.int64)
        along = op.Add(op.Unsqueeze(begins, axes.integers(call, 2)), steps)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, kernel
        along = op.Reshape(along, axes.integers(call, -1, *shape))
        where = op.Add(op.Mul(where, call.constant(size, np.int64)), along)
    count, inside = int(np.prod(output_size)), int(np.prod(kernel_size))
    where = op.Reshape(where, axes.integers(call, -1, count * inside))
    return _largest(call, x, planes, where, (count, inside), output_size, None)


def _begins(
    call: Call, number: Value, size: int, kernel: int, count: int, dtype: torch.dtype
) -> Value:
    op = call.op
    last = call.constant([[size - kernel]], np.int64)
    last = op.Expand(last, op.Shape(number))
    if count == 1:
        return last
    name = str(dtype).removeprefix("torch.")
    ratio = np.array(size - kernel, name) / np.array(count - 1, name)
    alpha, steps = call.constant(ratio, name), call.constant(np.arange(count - 1)[None], name)
    shifted = call.cast(op.Mul(op.Add(steps, number), alpha), torch.int64)
    begins = op.Sub(shifted, call.cast(op.Mul(number, alpha), torch.int64))
    return op.Concat(begins, last, axis=1)
