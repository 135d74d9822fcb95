"""The call that a function of standard ONNX operators replaces."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxscript
import torch

from opgraft.torch import _private
from opgraft.torch._rungs import _nodes

#: A value of the ONNX graph.
Value = Any


@functools.cache
def _opset() -> Any:
    return onnxscript.values.Opset("", _private.lowest_opset())


class Call:
    """One call of a torch operator, in the graph that is being translated."""

    def __init__(self, node: torch.fx.Node) -> None:
        self.node = node

    @property
    def op(self) -> Any:
        """Makes nodes: `op.Add(x, y)` adds one and returns the value of its output. The opset is
        that of torch's own translations; the finished model is converted."""
        return _opset()

    @property
    def result(self) -> Any:
        """The result of the operator while tracing: a tensor with a type and a shape, in which
        sizes may be symbols."""
        return self.node.meta["val"]

    def example(self, place: int) -> Any:
        """Returns the value of this argument while tracing."""
        value = self.node.args[place]
        return value.meta["val"] if isinstance(value, torch.fx.Node) else value

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments while tracing, by their names in the schema, including defaults."""
        target: Any = self.node.target
        found = {name: default for name, _, default in _private.parameters_of(target)}
        found |= dict(zip(found, self.node.args, strict=False)) | self.node.kwargs
        return {
            name: one.meta["val"] if isinstance(one, torch.fx.Node) else one
            for name, one in found.items()
        }

    def argument(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def has_complex(self) -> bool:
        values = [one.meta.get("val") for one in self.node.all_input_nodes]
        values += self.result if isinstance(self.result, (list, tuple)) else [self.result]
        return any(isinstance(one, torch.Tensor) and one.is_complex() for one in values)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        return self.op.Cast(value, to=_private.onnx_type(dtype))

    def double(self, value: Value) -> Value:
        return self.cast(value, torch.float64)

    def working(self, value: Value) -> Value:
        """Casts to the type to compute in: that of the result, but at least float32."""
        return self.cast(value, self.working_type)

    def working_constant(self, value: float) -> Value:
        return self.constant(value, np.float64 if self.gives_doubles else np.float32)

    @property
    def working_type(self) -> torch.dtype:
        is_double = getattr(self.result, "dtype", None) == torch.float64
        return torch.float64 if is_double else torch.float32

    @property
    def gives_doubles(self) -> bool:
        return self.working_type is torch.float64

    def as_result(self, value: Value) -> Value:
        """Casts to the type of the result."""
        return self.cast(value, self.result.dtype)

    def constant(self, value: Any, dtype: Any = np.float64) -> Value:
        return self.op.Constant(value=ir.tensor(np.asarray(value, dtype)))

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Computes the polynomial with these coefficients, lowest power first."""
        value = self.constant(coefficients[-1])
        for one in reversed(coefficients[:-1]):
            value = self.op.Add(self.op.Mul(value, x), self.constant(one))
        return value

    def append(
        self, op_type: str, inputs: Sequence[Value], outputs: int, **attributes: Any
    ) -> list[Value]:
        """Adds a standard ONNX node that has several outputs or subgraphs."""
        return _nodes.append("", op_type, inputs, attributes, outputs)
