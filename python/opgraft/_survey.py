"""What stands in a model: its versions and its operators, found without running anything."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from opgraft._errors import ModelError


class Node(NamedTuple):
    name: str
    #: "then_branch of 'choice' in function local.f"; "" for the model's graph itself.
    place: str


@dataclass(frozen=True)
class Value:
    """An input or output of the nodes of an operator."""

    name: str
    element_type: int  # a number of TensorProto.DataType; 0 where it is not known, or differs
    count: int  # the nodes that have it


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: int  # a number of AttributeProto.AttributeType; 0 where it differs
    count: int


@dataclass(frozen=True)
class Operator:
    """An operator and all nodes of it; src/model/survey.h says what each field is."""

    domain: str
    op_type: str
    version: int
    is_pyop: bool
    is_referring: bool
    module: str
    class_name: str
    compute: str
    operator_name: str
    torch_operator: str
    defined_in: str
    is_function: bool
    count: int
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: tuple[Attribute, ...]
    differences: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """ "domain::Name", as @opgraft.op has it; of a PyOp that runs a class, the class."""
        if self.is_pyop:
            return self.operator_name or f"{self.module}.{self.class_name}"
        return f"{self.domain}::{self.op_type}"

    @property
    def title(self) -> str:
        """What it is called in a report."""
        if self.torch_operator:
            return self.torch_operator
        return f"ai.onnx{self.full_name}" if self.full_name.startswith("::") else self.full_name

    @property
    def is_class(self) -> bool:
        return self.is_pyop and not self.operator_name

    @property
    def is_in_libtorch(self) -> bool:
        """An ATen node."""
        return self.domain == "org.pytorch.aten"

    @property
    def key(self) -> tuple[str, str]:
        return self.torch_operator or self.full_name, self.compute


class Import(NamedTuple):
    domain: str
    version: int
    limit: int  # the newest that the runtime takes; 0 where it takes any
    known: int  # the newest of which it is known what has changed; 0 where that is no matter


@dataclass(frozen=True)
class Survey:
    is_ort_format: bool
    ir_version: int
    ir_limit: int
    ir_known: int  # the newest that Opgraft knows
    imports: tuple[Import, ...]
    #: The Python modules of declared operators, by "domain::Name", as the model's metadata says.
    modules: dict[str, str]
    #: What data it holds for, as an export wrote; empty where it holds for any.
    holds_where: tuple[str, ...]
    #: What it gives otherwise than its source does, as an export wrote.
    differs: tuple[str, ...]
    #: What of a model's state it does not keep, as an export wrote.
    state: tuple[str, ...]
    operators: tuple[Operator, ...]


def take(path: str, runtime: str) -> Survey:
    """A survey of a file, of which little more than the nodes is read."""
    return from_values(values_of(path, runtime))


def values_of(path: str, runtime: str) -> dict[str, Any]:
    """The same as plain values."""
    from opgraft import _pyop

    origin = f"'{path}'"
    _pyop.check_is_file(os.fsencode(path))
    try:
        with open(path, "rb") as file:
            try:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise ModelError(f"{origin} is no ONNX model: it is empty") from error
    except OSError as error:
        raise ModelError(f"cannot read {origin}: {error.strerror}") from error
    with mapped:
        return _pyop.survey(mapped, origin, runtime)


#: What lines on state begin with, among those of the metadata that say what a model holds for.
STATE_PREFIX = "state: "


def from_values(values: Mapping[str, Any]) -> Survey:
    """The survey in what opgraft._pyop.survey gives, which may have gone through JSON."""
    lines = values["holds_where"].splitlines()
    return Survey(
        is_ort_format=values["is_ort_format"],
        ir_version=values["ir_version"],
        ir_limit=values["ir_limit"],
        ir_known=values["ir_known"],
        imports=tuple(Import(*entry) for entry in values["imports"]),
        modules=dict(values["modules"]),
        holds_where=tuple(one for one in lines if not one.startswith(STATE_PREFIX)),
        differs=tuple(values["differs"].splitlines()),
        state=tuple(
            one.removeprefix(STATE_PREFIX) for one in lines if one.startswith(STATE_PREFIX)
        ),
        operators=tuple(_operator(one) for one in values["operators"]),
    )


def _operator(values: Mapping[str, Any]) -> Operator:
    given = dict(values)
    given["nodes"] = tuple(Node(*one) for one in values["nodes"])
    for field in ("inputs", "outputs"):
        given[field] = tuple(Value(*one) for one in values[field])
    given["attributes"] = tuple(Attribute(*one) for one in values["attributes"])
    given["differences"] = tuple(values["differences"])
    return Operator(**given)
