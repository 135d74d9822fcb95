"""Which steps of a converted model are Python nodes, read from the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx
from onnx import numpy_helper

from opgraft import _pyop
from opgraft.sklearn import _store, operators


@dataclass(frozen=True)
class PythonStep:
    """A step that Python runs."""

    node: str
    estimator: str  #: its type, "module.Class"
    methods: tuple[str, ...]
    because: str
    allow: tuple[str, ...]  #: what a session must allow by name, in a process that did not make it
    scikit_learn: str  #: the version it was fitted with
    size: int  #: of what is stored, in bytes


def python_steps(model: onnx.ModelProto) -> list[PythonStep]:
    """The steps of a model that are Python nodes, and why; empty where plain ONNX Runtime runs it.

    >>> model = opgraft.sklearn.to_onnx(NMF(2).fit(X), X)
    >>> [(step.estimator, step.methods) for step in opgraft.sklearn.python_steps(model)]
    [('sklearn.decomposition._nmf.NMF', ('transform',))]
    """
    steps = []
    for node in model.graph.node:
        if (node.domain, node.op_type) != (operators.DOMAIN, "PyOp"):
            continue
        values: dict[str, Any] = {
            one.name: onnx.helper.get_attribute_value(one) for one in node.attribute
        }
        data = numpy_helper.to_array(values["estimator"]).tobytes()
        steps.append(
            PythonStep(
                node=node.name,
                estimator=values["title"].decode(),
                methods=tuple(one.decode() for one in values["methods"]),
                because=values["because"].decode(),
                allow=(_pyop.allowance_of(operators.__name__), *_store.untrusted(data)),
                scikit_learn=values["scikit_learn"].decode(),
                size=len(data),
            )
        )
    return steps


PythonStep.__module__ = "opgraft.sklearn"  # where users find it
