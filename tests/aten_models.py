"""Models of one ATen node, made from a call of torch, and their expected results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper

from opgraft.torch._rungs._aten import _ONNX_TYPES, DOMAIN, OP_TYPE, AtenNode, Input, aten_node


@dataclass
class Case:
    """A model, its inputs, and the results of torch."""

    model: onnx.ModelProto
    feed: dict[str, np.ndarray]
    expected: list[np.ndarray]


def of_call(
    overload: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    numbers: Sequence[int] = (),
    results: Any = None,
    is_typed: bool = True,
) -> Case:
    """Returns the model of a call of `overload`. Inputs are all tensors, and numbers at `places`.

    With `results`, which the node then declares, torch is not called. Without `is_typed`, the graph
    has no shapes.
    """
    values: dict[int, tuple[str, Any]] = {}

    def written(value: Any, is_number: bool = False) -> Any:
        if isinstance(value, torch.Tensor) or is_number:
            if isinstance(value, (list, tuple)):
                return [written(item, True) for item in value]
            name = values.setdefault(id(value), (f"x{len(values)}", value))[0]
            return Input.like(name, value)
        if isinstance(value, (list, tuple)):
            return [written(item) for item in value]
        return value

    with torch.no_grad():
        given = overload(*args, **(kwargs or {})) if results is None else results
    node = aten_node(
        overload,
        [written(value, i in numbers) for i, value in enumerate(args)],
        {name: written(value) for name, value in (kwargs or {}).items()},
        _dense(given),
    )
    feed = {name: to_numpy(value) for name, value in values.values()}
    expected = [to_numpy(one) for one in _flat(given)] if results is None else []
    return Case(model_of(node, feed, is_typed=is_typed), feed, expected)


def model_of(
    node: AtenNode, feed: Mapping[str, np.ndarray], *, is_typed: bool = True, **more: Any
) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(node.outputs))]
    attributes: dict[str, Any] = {**node.attributes, **more}
    made = helper.make_node(
        OP_TYPE, [str(name) for name in node.inputs], names, domain=DOMAIN, name="it", **attributes
    )
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
        )
        for name, array in feed.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, output.onnx_type, output.onnx_shape)
        if is_typed
        else helper.make_tensor_value_info(name, output.onnx_type, None)
        for name, output in zip(names, node.outputs, strict=True)
    ]
    graph = helper.make_graph([made], "aten", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def to_numpy(value: Any) -> np.ndarray:
    """Converts to ONNX Runtime's form, in which complex numbers are pairs."""
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        return np.array(value, np.int64)
    if isinstance(value, float):
        return np.array(value, np.float64)
    tensor = value.detach().to_dense() if value.layout != torch.strided else value.detach()
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape)


def is_carried(tensor: torch.Tensor) -> bool:
    """Whether both NumPy and ONNX Runtime have its type."""
    name = str(tensor.dtype).removeprefix("torch.")
    return name in _ONNX_TYPES and "bfloat" not in name and "float8" not in name


def _dense(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_dense(item) for item in result]
    is_sparse = isinstance(result, torch.Tensor) and result.layout != torch.strided
    return result.to_dense() if is_sparse else result


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [item for one in result for item in _flat(one)]
    return [result]
