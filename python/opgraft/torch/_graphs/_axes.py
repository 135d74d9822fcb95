"""Counts the axes of reductions from the front.

Where a tensor is empty, ONNX Runtime gets the shape of a reduction wrong whose axes are counted
from the back: (0, 3) for the sum of (0, 3) along axis -1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

_CHOOSING = ("ArgMax", "ArgMin")


def count_from_front(model: Any) -> None:
    """Changes the reductions of a model whose axes are constant and whose rank is known."""
    graph = model.graph
    known: dict[tuple[int, ...], Any] = {}
    for node in list(_nodes(graph)):
        is_reduction = node.op_type.startswith("Reduce") or node.op_type in _CHOOSING
        shape = node.inputs[0].shape if is_reduction and node.inputs and node.inputs[0] else None
        if node.domain or shape is None or len(shape) == 0:
            continue
        for name in ("axis", "axes"):
            found = node.attributes.get(name)
            if found is not None and found.value is not None:
                _set_attribute(node, name, found.value, len(shape))
        axes = node.inputs[1] if len(node.inputs) > 1 else None
        numbers = _constant(axes)
        if numbers is not None and min(numbers, default=0) < 0:
            front = tuple(axis % len(shape) for axis in numbers)
            if front not in known:
                known[front] = _initializer(graph, front)
            node.replace_input_with(1, known[front])
            _drop(graph, axes)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _nodes(attribute.value)


def _set_attribute(node: Any, name: str, value: int | Sequence[int], rank: int) -> None:
    if isinstance(value, int):
        if value < 0:
            node.attributes[name] = ir.AttrInt64(name, value % rank)
    elif min(value, default=0) < 0:
        node.attributes[name] = ir.AttrInt64s(name, [axis % rank for axis in value])


def _constant(value: Any) -> list[int] | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]


def _initializer(graph: Any, axes: tuple[int, ...]) -> Any:
    name = "opgraft_axes_" + "_".join(map(str, axes))
    if name in graph.initializers:
        return graph.initializers[name]
    tensor = ir.tensor(np.asarray(axes, np.int64), name=name)
    value = ir.Value(
        name=name,
        shape=ir.Shape([len(axes)]),
        type=ir.TensorType(ir.DataType.INT64),
        const_value=tensor,
    )
    graph.register_initializer(value)
    return value


def _drop(graph: Any, value: Any) -> None:
    """Removes a constant that nothing uses any more."""
    if value.uses() or value.is_graph_output():
        return
    producer = value.producer()
    if producer is None:
        if graph.initializers.get(value.name) is value:
            del graph.initializers[value.name]
    elif producer.op_type == "Constant" and producer.graph is not None:
        producer.graph.remove(producer, safe=True)
