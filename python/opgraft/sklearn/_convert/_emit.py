"""Adds nodes of standard operators to a conversion, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto


class Nodes:
    """Each call adds one node or constant, and returns the name of its only result."""

    def __init__(self, scope: Any, container: Any, element: int = TensorProto.DOUBLE) -> None:
        self.scope, self.container = scope, container
        self.element = element  #: the type of real numbers

    def constant(self, element: int, values: Any, shape: list[int]) -> str:
        name = str(self.scope.get_unique_variable_name("constant"))
        self.container.add_initializer(name, element, shape, values)
        return name

    def numbers(self, values: Any) -> str:
        """Adds real numbers, in their shape."""
        array = np.asarray(values, np.float64)
        return self.constant(self.element, array.ravel().tolist(), list(array.shape))

    def whole(self, values: Any) -> str:
        array = np.asarray(values, np.int64)
        return self.constant(TensorProto.INT64, array.ravel().tolist(), list(array.shape))

    def truths(self, values: Any) -> str:
        array = np.asarray(values)
        return self.constant(TensorProto.BOOL, array.ravel().tolist(), list(array.shape))

    def texts(self, values: Any) -> str:
        array = np.asarray(values, object)
        encoded = [str(one).encode() for one in array.ravel()]
        return self.constant(TensorProto.STRING, encoded, list(array.shape))

    def node(
        self, op_type: str, *inputs: str, output: str = "", version: int = 0, **attributes: Any
    ) -> str:
        output = output or str(self.scope.get_unique_variable_name(op_type.lower()))
        name = self.scope.get_unique_operator_name(op_type)
        version = version or _VERSIONS.get(op_type, 13)
        self.container.add_node(
            op_type, list(inputs), [output], name=name, op_version=version, **attributes
        )
        return output

    def cast(self, value: str, element: int, output: str = "") -> str:
        return self.node("Cast", value, output=output, to=element)

    def real(self, value: str, output: str = "") -> str:
        return self.cast(value, self.element, output)


#: The newest version of an operator up to 13, if that is not 13 itself.
_VERSIONS = {"Where": 9, "And": 7, "Or": 7, "Not": 1}
