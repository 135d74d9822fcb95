"""Reads from a converted model which of its steps are Python nodes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, numpy_helper

from opgraft import _pyop
from opgraft._base._errors import ModelError
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


def python_steps(model: onnx.ModelProto | str | os.PathLike[str]) -> list[PythonStep]:
    """Lists the steps of a model that are Python nodes, and why. Plain ONNX Runtime runs a model
    that has none.

    >>> model = opgraft.sklearn.to_onnx(NMF(2).fit(X), X)
    >>> [(step.estimator, step.methods) for step in opgraft.sklearn.python_steps(model)]
    [('sklearn.decomposition._nmf.NMF', ('transform',))]
    """
    if isinstance(model, (str, os.PathLike)):
        try:
            model = onnx.load(model, load_external_data=False)
        except OSError:
            raise
        except Exception as error:  # protobuf has its own error class
            raise ModelError(f"'{os.fspath(model)}' is not an ONNX model: {error}") from error
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(
            f"python_steps: expected a model, or the path of one, not {type(model).__name__}"
        )
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


PythonStep.__module__ = "opgraft.sklearn"  # where users find it
