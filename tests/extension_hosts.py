"""The packages and sessions that the tests of opgraft.extensions run in."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import graph_model
from opgraft import extensions

CONTRIB = ', "ai.onnx.contrib": 1'
FLOAT = onnx.TensorProto.FLOAT


def contrib_model(text: str, more: str = CONTRIB) -> onnx.ModelProto:
    return graph_model(text, more=more)


@dataclass
class Host:
    """A package to import from, and the kind of session that runs its operators."""

    package: ModuleType
    is_plain: bool

    def session(self, model: onnx.ModelProto) -> onnxruntime.InferenceSession:
        if not self.is_plain:
            return opgraft.InferenceSession(model)
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(self.package.get_library_path())
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, model: onnx.ModelProto, **feed: Any) -> list[Any]:
        return list(self.session(model).run(None, feed))


def make_host(name: str) -> Host:
    if name != "theirs":
        return Host(extensions, name == "plain")
    return Host(pytest.importorskip("onnxruntime_extensions", exc_type=ImportError), True)


def echo(host: Host, name: str) -> onnx.ModelProto:
    """Declares the identity on one type; returns a model with a node of it."""
    number = getattr(host.package.PyCustomOpDef, name)
    host.package.onnx_op(op_type=f"Echo_{name}", inputs=[number], outputs=[number])(lambda x: x)
    values = [helper.make_tensor_value_info(one, number, ["n"]) for one in "xy"]
    node = helper.make_node(f"Echo_{name}", ["x"], ["y"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.contrib", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)
