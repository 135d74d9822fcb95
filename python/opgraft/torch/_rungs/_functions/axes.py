"""Axes and sizes of tensors in the graph, for the functions that work along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch import _private
from opgraft.torch._rungs._functions import Call, Value

#: Beyond every size: the end of a slice that goes to the end.
END = np.iinfo(np.int64).max

_WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32}


def whole(call: Call, value: Any) -> Value:
    """A number, or the value of an open size, as a scalar of 64 bits."""
    if isinstance(value, int):
        return call.constant(value, np.int64)
    return call.op.Squeeze(call.cast(value, torch.int64))


def integers(call: Call, *values: int) -> Value:
    return call.constant(list(values), np.int64)


def size(call: Call, x: Value, axis: int) -> Value:
    """The size of an axis, as a vector of one element."""
    return call.op.Shape(x, start=axis, end=axis + 1)


def flat(call: Call, x: Value) -> Value:
    return call.op.Reshape(x, integers(call, -1))


def known(length: Any) -> bool:
    """Whether a size is a number, not open."""
    return isinstance(length, int)


def compared_in(dtype: torch.dtype) -> torch.dtype:
    """The type in which ONNX Runtime compares, sorts and reduces numbers of this one exactly."""
    if dtype.is_floating_point:
        return torch.float64 if dtype == torch.float64 else torch.float32
    return torch.int32 if dtype in _WHOLE else torch.int64


def is_real(dtype: torch.dtype) -> bool:
    """Whether `compared_in` has all numbers of the type."""
    return dtype not in (torch.uint64,) and not dtype.is_complex


def extreme(call: Call, dtype: torch.dtype, *, largest: bool) -> Value:
    """The first or the last number of a type of `compared_in`, as a scalar."""
    if dtype.is_floating_point:
        number = np.inf if largest else -np.inf
    else:
        info = torch.iinfo(dtype)
        number = info.max if largest else info.min
    return constant_of(call, number, dtype)


def constant_of(call: Call, number: float, dtype: torch.dtype) -> Value:
    """A scalar of a type of `compared_in`."""
    return call.constant(number, str(dtype).removeprefix("torch."))


def moved(call: Call, x: Value, rank: int, source: int, target: int) -> Value:
    """The tensor with one axis at another place."""
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return x if source == target else call.op.Transpose(x, perm=order)


def part(call: Call, x: Value, axis: int, begin: int, end: int) -> Value:
    """The elements from `begin` to `end` along an axis; negative numbers count from the end."""
    bounds = (integers(call, one) for one in (begin, end, axis))
    return call.op.Slice(x, *bounds)


def part_to(call: Call, x: Value, end: Value) -> Value:
    """The first elements along the first axis; their number is a vector of one element."""
    return call.op.Slice(x, integers(call, 0), end, integers(call, 0))


def along(call: Call, places: Value, rank: int, axis: int) -> Value:
    """A vector as a tensor that can be broadcast along an axis."""
    return call.op.Reshape(places, integers(call, *(-1 if i == axis else 1 for i in range(rank))))


def counted(call: Call, length: Value) -> Value:
    """The numbers from 0 to a length, which is a scalar or a vector of one element."""
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    return call.op.Range(zero, call.op.Squeeze(length), one)


def body(
    call: Call,
    kinds: Sequence[tuple[str, torch.dtype, int | None]],
    build: Callable[..., Sequence[Value]],
    results: Sequence[tuple[torch.dtype, int | None]],
) -> ir.Graph:
    """Makes a subgraph of the nodes that `build` adds. `kinds` are the name, the type and the rank
    of each input; `results` the types and ranks of the outputs; a rank may be unknown."""

    def value(name: str, dtype: torch.dtype, rank: int | None) -> ir.Value:
        kind = ir.TensorType(ir.DataType(_private.onnx_type(dtype)))
        shape = None if rank is None else ir.Shape([None] * rank)
        return ir.Value(name=name, type=kind, shape=shape)

    prefix = f"{call.node.name}_{id(kinds):x}"
    inputs = [value(f"{prefix}_{name}", dtype, rank) for name, dtype, rank in kinds]
    recorded = _private.recorder().nodes
    before = len(recorded)
    made = list(build(*inputs))
    nodes = recorded[before:]
    del recorded[before:]
    outputs = [
        value(f"{prefix}_out_{place}", dtype, rank) for place, (dtype, rank) in enumerate(results)
    ]
    for one, output in zip(made, outputs, strict=True):
        nodes.append(ir.Node("", "Identity", [one], outputs=[output]))
    number = 0
    for node in nodes:
        for result in node.outputs:
            if result.name is None or not result.name.startswith(prefix):
                result.name = f"{prefix}_{number}"
                number += 1
    return ir.Graph(inputs, outputs, nodes=nodes, name=prefix)
