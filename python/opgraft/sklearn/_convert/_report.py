"""Reads from a converted model which of its steps are native and which are Python nodes."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

import onnx
from onnx import AttributeProto, numpy_helper

from opgraft import _pyop
from opgraft._base._errors import ModelError
from opgraft._doctor._steps import PYTHON, Step, reasons, steps_of_bytes, steps_table
from opgraft._terminal._document import Line
from opgraft._terminal._screen import fitted
from opgraft.sklearn import operators
from opgraft.sklearn._stored import _skops


@dataclass(frozen=True)
class PythonStep:
    """A step that Python runs."""

    node: str
    estimator: str  #: its type, "module.Class"
    methods: tuple[str, ...]
    because: str
    allow: tuple[str, ...]  #: names that a session must allow, in a process that did not make it
    scikit_learn: str  #: the version it was fitted with
    size: int  #: the size of the stored estimator in bytes


@dataclass(frozen=True)
class Report:
    """What became of each step. `print(report)` shows it as a table; `to_dict` and `to_json` are
    for programs."""

    rows: list[Step]
    #: What a session must allow by name, in a process that did not make the model.
    allow: list[str]

    @property
    def is_portable(self) -> bool:
        """Whether plain ONNX Runtime runs the model."""
        return not any(row.kind == PYTHON for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_portable": self.is_portable}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def running(self) -> str:
        """Returns what to write to run the model."""
        if self.is_portable:
            return "any ONNX Runtime"
        return f"opgraft.InferenceSession(model, allow={self.allow!r})"

    def __str__(self) -> str:
        lines = ["", *reasons(self.rows), f"to run it: {self.running()}"]
        return fitted([steps_table(self.rows), *map(Line, lines)])


def report(model: onnx.ModelProto | str | os.PathLike[str]) -> Report:
    """What became of each step of a model of `to_onnx`: native or Python, why, and what would make
    it native. Of a model of an older Opgraft, only the Python steps are known.

    >>> model = opgraft.sklearn.to_onnx(NMF(2).fit(X), X)
    >>> [(row.estimator, row.kind) for row in opgraft.sklearn.report(model).rows]
    [('sklearn.decomposition._nmf.NMF', 'python')]
    """
    loaded = _loaded(model, "report")
    allow = sorted({name for step in python_steps(loaded) for name in step.allow})
    return Report(steps_of_bytes(loaded.SerializeToString()), allow)


def python_steps(model: onnx.ModelProto | str | os.PathLike[str]) -> list[PythonStep]:
    """Lists the steps of a model that are Python nodes, and why. Plain ONNX Runtime runs a model
    that has none.

    >>> model = opgraft.sklearn.to_onnx(NMF(2).fit(X), X)
    >>> [(step.estimator, step.methods) for step in opgraft.sklearn.python_steps(model)]
    [('sklearn.decomposition._nmf.NMF', ('transform',))]
    """
    model = _loaded(model, "python_steps")
    steps = []
    for node in model.graph.node:
        if (node.domain, node.op_type) != (operators.DOMAIN, "PyOp"):
            continue
        given = {one.name: one for one in node.attribute}
        data = _value(node, given, "estimator", AttributeProto.TENSOR)
        version = _value(node, given, "scikit_learn", AttributeProto.STRING)
        steps.append(
            PythonStep(
                node=node.name,
                estimator=_value(node, given, "title", AttributeProto.STRING),
                methods=_value(node, given, "methods", AttributeProto.STRINGS),
                because=_value(node, given, "because", AttributeProto.STRING),
                allow=(_pyop.allowance_of(operators.__name__), *_skops.untrusted(data, version)),
                scikit_learn=version,
                size=len(data),
            )
        )
    return steps


def _loaded(model: onnx.ModelProto | str | os.PathLike[str], who: str) -> onnx.ModelProto:
    if isinstance(model, (str, os.PathLike)):
        try:
            model = onnx.load(model, load_external_data=False)
        except OSError:
            raise
        except Exception as error:  # of protobuf's own class
            raise ModelError(f"'{os.fspath(model)}' is not an ONNX model: {error}") from error
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"{who}: expected a model, or the path of one, not {type(model).__name__}")
    return model


def _value(node: onnx.NodeProto, given: dict[str, AttributeProto], name: str, kind: int) -> Any:
    """Returns an attribute as string, strings or bytes. Raises a ModelError if the node has none of
    this kind."""
    attribute = given.get(name)
    try:
        if attribute is None or attribute.type != kind:
            raise ValueError("it is missing" if attribute is None else "it has another kind")
        if kind == AttributeProto.TENSOR:
            return numpy_helper.to_array(attribute.t).tobytes()
        if kind == AttributeProto.STRINGS:
            return tuple(one.decode() for one in attribute.strings)
        return attribute.s.decode()
    except Exception as error:
        raise ModelError(
            f"the node '{node.name}' ({node.op_type}) needs the attribute '{name}', of the kind "
            f"{AttributeProto.AttributeType.Name(kind)}: {error}. Fix: convert the estimator again"
        ) from error


for _public in (PythonStep, Report):
    _public.__module__ = "opgraft.sklearn"  # where users find them
