"""Attributes that have no value, two, or one of another kind: never taken for absent or 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, TensorProto, helper

import opgraft
from conftest import FLOAT, Write, graph_model, pyop_model, run_model

ECHO = """
    class Op:
        def __init__(self, **attributes):
            print(attributes)
        def compute(self, x):
            return x
"""


def refer(model: onnx.ModelProto, name: str, kind: int = AttributeProto.INT) -> onnx.ModelProto:
    """The node's attribute becomes one that refers to a function's, though there is none."""
    (node,) = model.graph.node
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.add(name=name, type=kind, ref_attr_name="outer")
    return model


def refuse(model: onnx.ModelProto, said: str, allow: list[str] | None = None) -> None:
    with pytest.raises(opgraft.ModelError, match=said):
        opgraft.prepare(model)
    with pytest.raises(opgraft.ModelError, match=said):
        opgraft.InferenceSession(model, allow=allow or ())


@pytest.mark.parametrize("name", ["factor", "module", "output_types"])
def test_a_reference_outside_of_functions(write_module: Write, name: str) -> None:
    module = write_module(ECHO)
    refuse(refer(pyop_model(module), name), f"'{name}' refers to an attribute of a function")


def test_a_reference_of_a_prepared_node(write_module: Write) -> None:
    """One that someone wrote by hand, in plain onnxruntime too."""
    module = write_module(ECHO)
    prepared = onnx.ModelProto.FromString(opgraft.prepare(pyop_model(module)).bytes)
    refuse(refer(prepared, "module", AttributeProto.STRING), "'module' refers to", [module])
    hidden = onnx.ModelProto.FromString(opgraft.prepare(pyop_model(module, factor=2)).bytes)
    for attribute in hidden.graph.node[0].attribute:
        if attribute.name == "arguments":
            inner = onnx.NodeProto.FromString(attribute.s)
            inner.attribute[0].ref_attr_name = "outer"
            attribute.s = inner.SerializeToString()
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    with pytest.raises(
        Exception, match="opgraft.ModelError: .*'factor' refers to an attribute of a f"
    ):
        onnxruntime.InferenceSession(hidden.SerializeToString(), options)


def test_a_reference_of_a_declared_operator_and_of_a_pack(first_pack: opgraft.Pack) -> None:
    @opgraft.op("test.attributes::Scale", shape=lambda x, *, factor: x)
    def scale(x: np.ndarray, *, factor: int = 1) -> np.ndarray:
        return x * factor

    model = graph_model("(float[n] x) => (float[n] y) { y = test.attributes.Scale (x) }")
    model.opset_import.append(helper.make_opsetid("test.attributes", 1))
    refuse(refer(model, "factor"), "'factor' refers to an attribute of a function")
    model = graph_model("(float[n] x) => (float[n] y) { y = test.packs.Scale (x) }")
    model.opset_import.append(helper.make_opsetid("test.packs", 1))
    refuse(
        refer(model, "factor", AttributeProto.FLOAT),
        "'factor' refers to an attribute of a function",
    )


def test_a_reference_in_a_function_is_as_ever(write_module: Write) -> None:
    module = write_module(
        "class Op:\n"
        "    def __init__(self, factor=5): self.factor = factor\n"
        "    def compute(self, x): return x * np.float32(self.factor)"
    )
    body = refer(pyop_model(module), "factor").graph.node[0]
    function = helper.make_function(
        "local", "Twice", ["x"], ["y"], [body], [helper.make_opsetid("test.pyop", 1)], ["outer"]
    )
    for given, expected in (({"outer": 2}, 2), ({}, 5)):  # one that is not given is absent
        call = helper.make_node("Twice", ["x"], ["y"], domain="local", **given)
        values = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([call], "graph", values[:1], values[1:])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
        model = helper.make_model(graph, functions=[function], opset_imports=imports)
        model.ir_version = 10
        assert run_model(model, np.float32([1]), allow=[module])[0][0] == expected


def test_an_attribute_twice(write_module: Write) -> None:
    module = write_module(ECHO)
    model = pyop_model(module)
    model.graph.node[0].attribute.append(helper.make_attribute("module", "os"))
    refuse(model, "'module' is given twice")


def aten_model(**changes: Any) -> onnx.ModelProto:
    attributes: dict[str, Any] = {
        "operator": "aten::add",
        "overload_name": "Tensor",
        "arguments": "(%0, %0)",
        "results": "float32[...]",
        "encoding": 1,
    } | changes
    attributes = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(
        "ATen", ["x"], ["y"], name="it", domain="org.pytorch.aten", **attributes
    )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy"]
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("org.pytorch.aten", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_the_model_that_the_next_tests_spoil() -> None:
    pytest.importorskip("torch")
    assert run_model(aten_model(), np.float32([2]))[0][0] == 4


@pytest.mark.parametrize("wrong", [1, 1.5, ["Tensor"], [1, 2], []])
@pytest.mark.parametrize("name", ["operator", "overload_name", "arguments", "results"])
def test_an_aten_node_with_an_attribute_of_another_kind(name: str, wrong: Any) -> None:
    attribute = (
        helper.make_attribute(name, wrong)
        if wrong != []
        else helper.make_attribute(name, [], attr_type=AttributeProto.INTS)
    )
    model = aten_model(**{name: None})
    model.graph.node[0].attribute.append(attribute)
    refuse(model, f"attribute '{name}' is of ONNX's kind [A-Z]+, expected STRING")
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    with pytest.raises(Exception, match="opgraft.ModelError: node 'it'"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize("name", ["overload_name", "alpah"])
def test_a_node_of_torchs_legacy_exporter(name: str) -> None:
    """Its other attributes are arguments: one that is none is not left out."""
    model = aten_model(encoding=None, arguments=None, results=None, overload_name=None)
    model.graph.node[0].input.append("x")
    opgraft.prepare(model)
    model.graph.node[0].attribute.append(helper.make_attribute(name, 1))
    refuse(
        model, "expected STRING" if name == "overload_name" else "inputs and attributes fit none"
    )


@pytest.mark.parametrize("wrong", [1.5, "text", [1.5], ["text"]])
@pytest.mark.parametrize(
    "name",
    [
        "module",
        "class_name",
        "compute",
        "arguments",
        "input_types",
        "output_types",
        "output_shapes",
    ],
)
def test_a_prepared_node_with_an_attribute_of_another_kind(
    write_module: Write, name: str, wrong: Any
) -> None:
    module = write_module(ECHO)
    model = onnx.ModelProto.FromString(opgraft.prepare(pyop_model(module, shape=[2])).bytes)
    (node,) = model.graph.node
    before = {one.name: one for one in node.attribute}
    is_text = name in ("module", "class_name", "compute", "arguments")
    if is_text and isinstance(wrong, str):
        pytest.skip("it is of the right kind")
    if name in before:
        node.attribute.remove(before[name])
    node.attribute.append(helper.make_attribute(name, wrong))
    refuse(model, f"'{name}' is of ONNX's kind", [module])
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    kind = "STRING" if is_text else "INTS"
    with pytest.raises(Exception, match=f"'{name}' is not of ONNX's kind {kind}"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)
