"""as_strided and its kin, which read memory as it lies and not the elements of a tensor.

ONNX has no strides. While tracing they are known: a tensor whose elements fill its memory is turned
so that they come in the order of the memory, and elements are gathered by their places in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from opgraft.torch import _private
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs._functions import Call, Refusal, Value, function


def _is_wrong_in_torch(call: Call, opset: int) -> bool:
    """torch takes the order of elements for that of the memory."""
    example = call.example(0)
    order = _order(example)
    return order is None or order != list(range(example.dim()))


@function("aten::as_strided", "aten::as_strided_copy", replaces_torchs=_is_wrong_in_torch)
def as_strided(
    call: Call, x: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Value:
    memory, _ = _memory(call, x)
    return call.op.Gather(memory, _places(call, size, stride, storage_offset))


@function("aten::as_strided_scatter")
def as_strided_scatter(
    call: Call,
    x: Value,
    source: Value,
    size: Sequence[Any],
    stride: Sequence[Any],
    storage_offset: Any = None,
) -> Value:
    """The tensor with some places of its memory written over."""
    op = call.op
    memory, order = _memory(call, x)
    flat, column = call.constant([-1], np.int64), call.constant([-1, 1], np.int64)
    places = op.Reshape(_places(call, size, stride, storage_offset), column)
    written = op.ScatterND(memory, places, op.Reshape(source, flat))
    turned = op.Reshape(written, op.Shape(op.Transpose(x, perm=order)))
    return op.Transpose(turned, perm=[order.index(axis) for axis in range(len(order))])


def _memory(call: Call, x: Value) -> tuple[Value, list[int]]:
    """All elements as they lie in memory, and the order of axes in which they do."""
    example = call.example(0)
    order = _order(example)
    if order is None:
        raise Refusal(
            f"{operator_name(call.node.target)} (node '{call.node.name}') reads the memory of a "
            f"tensor of shape {list(example.shape)} with strides {list(example.stride())} that "
            f"begins at {example.storage_offset()}: expected one whose elements fill its memory, "
            "since ONNX has no other memory to read. Fix: call contiguous() on the tensor before "
            "as_strided, and give strides for that; or use unfold, or indices"
        )
    is_turned = order != list(range(len(order)))
    turned = call.op.Transpose(x, perm=order) if is_turned else x
    return call.op.Reshape(turned, call.constant([-1], np.int64)), order


def _order(example: torch.Tensor) -> list[int] | None:
    """The axes by their strides, largest first; None where elements do not fill the memory."""
    if _text(example.storage_offset()) != "0":
        return None
    strides = list(map(_number, example.stride()))
    order = sorted(range(example.dim()), key=lambda axis: (-strides[axis], axis))
    # An axis of one element has any stride: it need not decide.
    inner: Any = 1
    for axis in reversed(order):
        size, stride = example.shape[axis], example.stride(axis)
        if isinstance(size, int) and size == 1:
            continue
        if not _is_same(stride, inner):
            return None
        inner = inner * size
    return order


def _number(size: Any) -> int:
    """A size, or what it was while tracing."""
    if isinstance(size, int):
        return size
    return _private.hint(size) or 0


def _is_same(one: Any, other: Any) -> bool:
    """Whether two sizes are the same whatever the open ones are."""
    one, other = (_private.expression(size) for size in (one, other))
    return bool((one - other).expand() == 0) if not isinstance(one, int) else bool(one == other)


def _text(size: Any) -> str:
    return str(_private.expression(size))


def _places(call: Call, size: Sequence[Any], stride: Sequence[Any], offset: Any) -> Value:
    """Where in the memory each element of the result is."""
    op = call.op
    # Without one it is that of the tensor, which begins where its memory does.
    places = _integer(call, 0 if offset is None else offset)
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        along = op.Mul(op.Range(zero, _integer(call, length), one), _integer(call, step))
        shape = [-1 if other == axis else 1 for other in range(len(size))]
        places = op.Add(places, op.Reshape(along, call.constant(shape, np.int64)))
    return places


def _integer(call: Call, value: Any) -> Value:
    """A number, or the value of an open size, as a scalar."""
    if isinstance(value, int):
        return call.constant(value, np.int64)
    return call.op.Squeeze(call.cast(value, torch.int64))
