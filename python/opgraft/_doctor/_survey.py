"""Surveys a model: finds its versions and its operators without running anything."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from opgraft._base._errors import ModelError


class Node(NamedTuple):
    name: str
    #: "then_branch of 'choice' in function local.f"; "" for the model's graph itself.
    place: str


@dataclass(frozen=True)
class Value:
    """An input or output of the nodes of an operator."""

    name: str
    element_type: (
        int  # a number of TensorProto.DataType; 0 if it is unknown or differs between nodes
    )
    count: int  # the number of nodes that have it


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: int  # a number of AttributeProto.AttributeType; 0 if it differs between nodes
    count: int


@dataclass(frozen=True)
class Operator:
    """An operator and all its nodes; src/model/survey.h documents the fields."""

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
        """ "domain::Name", as in @opgraft.op; for a PyOp that runs a class, the class."""
        if self.is_pyop:
            return self.operator_name or f"{self.module}.{self.class_name}"
        return f"{self.domain}::{self.op_type}"

    @property
    def title(self) -> str:
        """The name in the report."""
        if self.torch_operator:
            return self.torch_operator
        return f"ai.onnx{self.full_name}" if self.full_name.startswith("::") else self.full_name

    @property
    def is_class(self) -> bool:
        return self.is_pyop and not self.operator_name

    @property
    def is_in_libtorch(self) -> bool:
        """Whether its nodes are ATen nodes."""
        return self.domain == "org.pytorch.aten"

    @property
    def key(self) -> tuple[str, str]:
        return self.torch_operator or self.full_name, self.compute


class Import(NamedTuple):
    domain: str
    version: int
    limit: int  # the newest that the runtime supports; 0 if it supports any
    known: int  # the newest whose changes Opgraft knows; 0 if that does not matter


@dataclass(frozen=True)
class Survey:
    is_ort_format: bool
    ir_version: int
    ir_limit: int
    ir_known: int  # the newest that Opgraft knows
    imports: tuple[Import, ...]
    #: From declared operators, "domain::Name", to their Python modules, by the model's metadata.
    modules: dict[str, str]
    #: The data that the model is correct for, written by its export; empty if for any.
    holds_where: tuple[str, ...]
    #: How its results differ from those of the original model, written by its export.
    differs: tuple[str, ...]
    #: The state that the model does not keep, written by its export.
    state: tuple[str, ...]
    operators: tuple[Operator, ...]


def take(path: str, runtime: str) -> Survey:
    """Surveys a file; reads little more than its nodes."""
    return from_values(values_of(path, runtime))


def values_of(path: str, runtime: str) -> dict[str, Any]:
    """Returns the survey as plain values."""
    from opgraft import _pyop

    origin = f"'{path}'"
    _pyop.check_is_file(os.fsencode(path))
    try:
        with open(path, "rb") as file:
            try:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise ModelError(f"{origin} is not an ONNX model: it is empty") from error
    except OSError as error:
        raise ModelError(f"cannot read {origin}: {error.strerror}") from error
    with mapped:
        return _pyop.survey(mapped, origin, runtime)


#: The prefix of lines about state in the metadata that says what data a model is correct for.
STATE_PREFIX = "state: "


def from_values(values: Mapping[str, Any]) -> Survey:
    """Makes a survey from the result of opgraft._pyop.survey, even after a round trip by JSON."""
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
