"""Makes the torch schema of an Opgraft operator."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._declare import _signature
from opgraft._declare._signature import OPTIONAL, VARIADIC

_KINDS = {
    _signature.FLOAT: "float",
    _signature.INT: "int",
    _signature.STRING: "str",
    _signature.FLOATS: "float[]",
    _signature.INTS: "int[]",
    _signature.STRINGS: "str[]",
}
_INPUTS = {_signature.REQUIRED: "Tensor", OPTIONAL: "Tensor?", VARIADIC: "Tensor[]"}
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Parameter:
    """An input or output, with its names in the declaration and in the torch schema."""

    declared: str
    name: str
    occurrence: int


@dataclass(frozen=True)
class Attribute:
    declared: str
    name: str
    kind: int  # a number of AttributeProto.AttributeType
    type: str  # in torch's schema
    default: str | None  # in torch's schema; None if it must be given


@dataclass(frozen=True)
class TorchSchema:
    """An Opgraft operator as torch sees it."""

    core: _pyop.Schema
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...]
    #: The argument for the number of outputs, if the caller chooses it.
    count: str | None

    @property
    def full_name(self) -> str:
        return self.core.full_name

    @property
    def answers_to(self) -> str:
        """The torch operators that it can replace."""
        return self.core.torch_name

    @property
    def text(self) -> str:
        """The schema for torch.library.define, without the name."""
        parts: list[str] = []
        for one in reversed(self.inputs):  # optional inputs must be the last
            may_be_left_out = all("=" in part for part in parts)
            default = "=None" if one.occurrence == OPTIONAL and may_be_left_out else ""
            parts.insert(0, f"{_INPUTS[one.occurrence]} {one.name}{default}")
        keywords = [f"int {self.count}"] if self.count is not None else []
        for attribute in self.attributes:
            default = "" if attribute.default is None else f"={attribute.default}"
            keywords.append(f"{attribute.type} {attribute.name}{default}")
        if keywords:
            parts += ["*", *keywords]
        given = [
            ("Tensor[] " if one.occurrence == VARIADIC else "Tensor ") + one.name
            for one in self.outputs
        ]
        result = given[0].split()[0] if len(given) == 1 else f"({', '.join(given)})"
        return f"({', '.join(parts)}) -> {result}"

    def count_outputs(self, given: Mapping[str, Any]) -> int:
        """Returns the number of output tensors of a call with these keyword arguments."""
        if self.count is None:
            return len(self.outputs)
        count = int(given[self.count])
        if count < 0:
            raise Error(f"{self.full_name}: expected 0 or more {self.count}, not {count}")
        return len(self.outputs) - 1 + count

    def attributes_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the attributes among keyword arguments, as an ONNX node stores them, without
        those that are not given."""
        found = {}
        for one in self.attributes:
            value = given.get(one.name)
            if value is not None:
                found[one.declared] = self._checked(one, value)
        return found

    def _checked(self, attribute: Attribute, value: Any) -> Any:
        """Rounds floats to float32, the type of float attributes in a model."""
        if attribute.kind == _signature.FLOATS:
            return [self._rounded(attribute, one) for one in value]
        if attribute.kind == _signature.FLOAT:
            return self._rounded(attribute, value)
        return list(value) if isinstance(value, (list, tuple)) else value

    def _rounded(self, attribute: Attribute, value: float) -> float:
        if math.isfinite(value) and abs(value) > _LARGEST_FLOAT:
            raise Error(
                f"{self.full_name}: attribute '{attribute.declared}' is {value!r}, expected a "
                "number that fits into a float32, the type of ONNX attributes. Fix: make it "
                "an input"
            )
        return float(np.float32(value))

    def arrange(self, values: Sequence[Any]) -> Any:
        """Arranges a flat list of all outputs of a call as torch expects them."""
        if self.count is not None:
            first = len(self.outputs) - 1
            values = [*values[:first], list(values[first:])]
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)


class Unfit(Exception):
    """Raised if an operator cannot be a torch operator; says why."""


def of(core: _pyop.Schema) -> TorchSchema:
    """Returns the schema; raises Unfit if torch cannot have the operator."""
    strings = [_signature.ELEMENT_TYPES["string"]]
    for one in (*core.inputs, *core.outputs):
        if core.types[one.type].allowed == strings and one.occurrence != OPTIONAL:
            raise Unfit(f"'{one.name}' is a tensor of strings, which torch does not have")
    taken: set[str] = set()
    inputs = tuple(
        Parameter(one.name, _name(one.name, taken), one.occurrence) for one in core.inputs
    )
    attributes = tuple(_attribute(one, taken) for one in core.attributes)
    is_open = bool(core.outputs) and core.outputs[-1].occurrence == VARIADIC
    count = _name("outputs", taken) if is_open else None
    outputs = tuple(
        Parameter(one.name, _name(one.name, taken), one.occurrence) for one in core.outputs
    )
    return TorchSchema(core, inputs, outputs, attributes, count)


def _attribute(core: _pyop.AttributeParameter, taken: set[str]) -> Attribute:
    if core.kind not in _KINDS:
        raise Unfit(
            f"its attribute '{core.name}' is a tensor, and a torch schema has no constant tensors. "
            "Fix: make it an input"
        )
    type_ = _KINDS[core.kind].replace("int", "bool") if core.is_bool else _KINDS[core.kind]
    default = None if core.is_required else _default(core.default, core.is_bool)
    if default == "None":
        type_ += "?"
    return Attribute(core.name, _name(core.name, taken), core.kind, type_, default)


def _default(value: Any, is_bool: bool) -> str:
    """Returns a default as written in a torch schema; "None", which stands for "not given", if it
    cannot be written there."""
    if value is None:
        return "None"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        return f'"{value}"' if re.fullmatch(r"[\w .:+-]*", value, re.ASCII) else "None"
    if isinstance(value, (list, tuple)):
        parts = [_default(one, is_bool) for one in value]
        is_plain = all(isinstance(one, (int, float)) for one in value) and "None" not in parts
        return f"[{', '.join(parts)}]" if is_plain else "None"
    if is_bool:
        return str(bool(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "None"
    return str(int(value))


def _name(declared: str, taken: set[str]) -> str:
    """Returns a name that is valid for an argument in torch and not yet taken."""
    name = re.sub(r"\W", "_", declared, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"x{name}"
    while name in taken or keyword.iskeyword(name):
        name += "_"
    taken.add(name)
    return name
