"""Writes ATen nodes; docs/aten.md describes the format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from opgraft import _pyop
from opgraft._base._errors import ModelError
from opgraft.torch import _private

DOMAIN = "org.pytorch.aten"
OP_TYPE = "ATen"
DOMAIN_VERSION = 1
ENCODING = 1

Kind = Literal["tensor", "complex", "int", "float", "bool"]
Dimension = int | str | None  #: a name is a symbol, None is open

#: The ONNX types (numbers of TensorProto.DataType) of torch tensors; complex numbers are pairs.
_ONNX_TYPES = {
    one.name: one.parts or one.number for one in _pyop.ELEMENT_TYPES if one.torch_number >= 0
}
_NUMBER_TYPES = {"int": 7, "float": 11, "bool": 9}


@dataclass(frozen=True)
class Input:
    """An argument that is an input of the node. `value` belongs to the caller and is not read."""

    value: object
    kind: Kind = "tensor"

    @classmethod
    def like(cls, value: object, example: object) -> Input:
        """Makes an input; `example` is its value while tracing (`fx.Node.meta["val"]`)."""
        if isinstance(example, torch.Tensor):
            return cls(value, "complex" if example.dtype.is_complex else "tensor")
        if isinstance(example, (bool, torch.SymBool)):
            return cls(value, "bool")
        if isinstance(example, (int, torch.SymInt)):
            return cls(value, "int")
        if isinstance(example, (float, torch.SymFloat)):
            return cls(value, "float")
        raise ModelError(
            f"a value of type {type(example).__name__} cannot be an input of an ATen node"
        )


@dataclass(frozen=True)
class Output:
    """An output of the node."""

    dtype: str  #: torch's name; "int", "float" or "bool" for a number
    shape: tuple[Dimension, ...] | None = None  #: in torch; None if nothing is known
    is_number: bool = False  #: the operator returns a number, not a tensor

    @property
    def onnx_type(self) -> int:
        """The number of TensorProto.DataType."""
        return (_NUMBER_TYPES if self.is_number else _ONNX_TYPES)[self.dtype]

    @property
    def onnx_shape(self) -> tuple[Dimension, ...] | None:
        """The shape in ONNX: a complex tensor has an additional last dimension of 2."""
        if self.shape is None or not self.dtype.startswith("complex"):
            return self.shape
        return (*self.shape, 2)

    def __str__(self) -> str:
        if self.is_number:
            return self.dtype
        sizes = ["..."] if self.shape is None else map(_dimension, self.shape)
        return f"{self.dtype}[{','.join(sizes)}]"


@dataclass
class AtenNode:
    """The parts of a node: its inputs, its attributes, and a description of its outputs.

    A result of the operator that is None is not an output of the node.
    """

    inputs: list[object] = field(default_factory=list)  #: the values, in the order of the inputs
    attributes: dict[str, str | int] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)


def aten_node(
    overload: _private.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    results: Any,
) -> AtenNode:
    """Returns the node that runs `overload` with these arguments.

    An argument is an `Input`, a Python constant of a type that the schema takes, None, or a list of
    those. `results` are the results while tracing (`fx.Node.meta["val"]`): tensors, real or fake,
    lists of them, numbers, None, or `Output`s in their place. Raises a ModelError if something
    cannot be written.

    >>> x = object()  # a value of the graph that is being written
    >>> node = aten_node(torch.ops.aten.cumprod.default, [Input(x), 0], {}, torch.ones(2, 3))
    >>> node.attributes["operator"], node.attributes["arguments"], node.attributes["results"]
    ('aten::cumprod', '(%0, 0, dtype=null)', 'float32[2,3]')
    """
    return _Writer(overload).write(args, kwargs, results)


def is_listed(overload: _private.OpOverload) -> bool | None:
    """Whether sessions run an ATen node of `overload` without `allow`; None if they never run it.

    >>> is_listed(torch.ops.aten.lgamma.default), is_listed(torch.ops.aten.from_file.default)
    (True, False)
    """
    name, overload_name = _private.name_of(overload)
    return _pyop.aten_is_listed(f"{name}.{overload_name}" if overload_name else name)


class _Writer:
    def __init__(self, overload: _private.OpOverload) -> None:
        self._name, self._overload_name = _private.name_of(overload)
        self._arguments, self._returns = _private.schema_of(overload)
        self._node = AtenNode()
        self._places: dict[int, int] = {}  # of the values among the inputs, by identity

    def write(self, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any) -> AtenNode:
        self._node.attributes = {
            "operator": self._name,
            "overload_name": self._overload_name,
            "encoding": ENCODING,
            "arguments": self._write_arguments(args, kwargs),
            "results": self._write_results(results),
        }
        return self._node

    def _error(self, text: str) -> ModelError:
        return ModelError(f"operator {self._name} cannot become an ATen node: {text}")

    def _write_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        left = dict(kwargs)
        if len(args) > len(self._arguments):
            raise self._error(f"it takes {len(self._arguments)} arguments, not {len(args)}")
        written = []
        for i, argument in enumerate(self._arguments):
            if i < len(args):
                value = args[i]
            elif argument.name in left:
                value = left.pop(argument.name)
            elif argument.has_default:
                value = argument.default
            else:
                raise self._error(f"it needs the argument '{argument.name}'")
            text = self._write_value(value, argument)
            written.append(f"{argument.name}={text}" if argument.is_keyword else text)
        if left:
            raise self._error(f"it has no argument '{next(iter(left))}'")
        return f"({', '.join(written)})"

    def _write_value(self, value: Any, argument: _private.Argument) -> str:
        kind = argument.type
        if value is None:
            return "null"
        kind = kind.removeprefix("Optional[").removesuffix("]") if _is_optional(kind) else kind
        if kind.startswith("List["):
            kind = kind.removeprefix("List[").removesuffix("]")
            if not isinstance(value, Sequence) or isinstance(value, str):
                value = [value] * (argument.count or 1)
            items = (self._write_item(item, kind, argument.name) for item in value)
            return f"[{', '.join(items)}]"
        return self._write_item(value, kind, argument.name)

    def _write_item(self, value: Any, kind: str, name: str) -> str:
        if value is None:
            return "null"
        if isinstance(value, Input):
            place = self._places.setdefault(id(value.value), len(self._node.inputs))
            if place == len(self._node.inputs):
                self._node.inputs.append(value.value)
            return f"%{place}" if value.kind == "tensor" else f"{value.kind}(%{place})"
        if isinstance(value, bool):
            return "true" if value else "false"
        if kind in _ENUMERATIONS and isinstance(value, int):
            return f"torch.{_ENUMERATIONS[kind][value]}"
        if isinstance(value, int):
            return repr(float(value)) if kind == "float" else str(value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})"
        if isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False)
            return f"device({text})" if kind == "Device" else text
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value) if str(value).startswith("torch.") else f"torch.{value}"
        if isinstance(value, torch.device):
            return f"device({json.dumps(str(value))})"
        raise self._error(
            f"its argument '{name}' has the type {type(value).__name__}, which cannot be written "
            "in ATen nodes (docs/aten.md)"
        )

    def _write_results(self, results: Any) -> str:
        if len(self._returns) == 1:
            results = [results]
        if not isinstance(results, (list, tuple)) or len(results) != len(self._returns):
            raise self._error(f"the trace does not have its {len(self._returns)} results")
        return ", ".join(self._write_result(result) for result in results)

    def _write_result(self, result: Any) -> str:
        if isinstance(result, (list, tuple)):
            return f"[{', '.join(map(self._write_result, result))}]"
        if result is None:
            return "null"
        output = self._describe(result)
        self._node.outputs.append(output)
        return str(output)

    def _describe(self, result: Any) -> Output:
        if isinstance(result, Output):
            return result
        if isinstance(result, torch.Tensor):
            dtype = str(result.dtype).removeprefix("torch.")
            if dtype not in _ONNX_TYPES:
                raise self._error(f"it returns a tensor of {dtype}, which ONNX Runtime lacks")
            return Output(dtype, tuple(_open(size) for size in result.shape))
        for kinds, name in (
            ((bool, torch.SymBool), "bool"),
            ((int, torch.SymInt), "int"),
            ((float, torch.SymFloat), "float"),
        ):
            if isinstance(result, kinds):
                return Output(name, (), is_number=True)
        raise self._error(f"it returns a {type(result).__name__}, not a tensor or a number")


def _is_optional(kind: str) -> bool:
    return kind.startswith("Optional[")


def _open(size: Any) -> Dimension:
    """Returns a size for the node: a number, or the name of a torch symbol."""
    return size if isinstance(size, int) else str(size)


def _dimension(size: Dimension) -> str:
    if size is None:
        return "?"
    if isinstance(size, int):
        return str(size)
    return size if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", size) else json.dumps(size)


#: The defaults in schemas are numbers of c10's enumerations.
_ENUMERATIONS = {
    "ScalarType": {one.torch_number: one.name for one in _pyop.ELEMENT_TYPES},
    "Layout": dict(enumerate("strided sparse_coo sparse_csr".split())),
    "MemoryFormat": dict(
        enumerate("contiguous_format preserve_format channels_last channels_last_3d".split())
    ),
}
