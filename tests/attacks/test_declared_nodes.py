"""Canonical nodes of declared operators that nobody has prepared: written by hand, or damaged."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import Write, floats


@opgraft.op("attacked::Split", shape=lambda x, i: (x, (x[0], 2)))
def split(
    x: np.ndarray, i: npt.NDArray[np.int64] | None = None
) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    return x, np.zeros((len(x), 2), np.int64)


def model(
    op_type: str = "PyOpLike1",
    inputs: tuple[str, ...] = ("x", "i"),
    outputs: tuple[str, ...] = ("y", "z"),
    type: int = TensorProto.FLOAT,
    **changes: Any,
) -> onnx.ModelProto:
    attributes = {
        "format": 2,
        "module": __name__,
        "operator": "attacked::Split",
        "output_types": [0, 7],
        **changes,
    }
    given = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op_type, inputs, outputs, name="n", domain="ai.opgraft", **given)
    values = [("x", type, ["n"]), ("i", TensorProto.INT64, ["m"])]
    results = [("y", type, None), ("z", TensorProto.INT64, None)]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(*value) for value in values],
        [helper.make_tensor_value_info(*value) for value in results if value[0] in outputs],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.opgraft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def plain_session(given: onnx.ModelProto, allow: list[str] | None = None) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    opgraft.register(options, allow=allow or [])
    return onnxruntime.InferenceSession(given.SerializeToString(), options)


FEED = {"x": floats(3), "i": np.int64([1])}


def test_by_hand() -> None:
    y, z = plain_session(model()).run(None, FEED)
    np.testing.assert_array_equal(y, floats(3))
    assert z.shape == (3, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operator": None}, "attribute 'operator' is missing"),
        ({"operator": "Split"}, "expected 'domain::Name'"),
        ({"operator": "attacked::Other"}, "'no_module', which this host does not allow"),
        ({"module": None}, "attribute 'module' is missing"),
        ({"output_types": None}, "'output_types' is missing"),
        ({"output_types": [0]}, "names 1 types, expected 2"),
        # Of these two the runtime itself says so where it infers shapes.
        ({"output_types": [7, 7]}, "(output 0 is int64 by its declaration|Type Error: .* .y.)"),
        ({"output_types": [0, 1]}, "(output 1 is float32 by its declaration|Type Error: .* .z.)"),
        ({"output_types": [0, 77]}, "holds 77, which is not an ONNX type"),
        ({"input_places": [0, 0]}, "'input_places' does not name"),
        ({"input_places": [0, 1, 2]}, "'input_places' does not name"),
        ({"output_places": [0, 0]}, "'output_places' does not name"),
        ({"output_places": [0]}, "'output_places' does not name"),
        ({"output_places": [-1, 0]}, "'output_places' does not name"),
        ({"input_places": [1, 0]}, "input 1, 'i', is float32, expected int64"),
        ({"output_shapes": [5]}, "'output_shapes'"),
        ({"arguments": b"\xff\xff"}, "'arguments' is not a NodeProto"),
        ({"inputs": ("x",), "input_places": [-1, 0]}, "input 1, 'i', is float32, expected int64"),
        ({"inputs": ("x", "i", "i")}, "expected 1 to 2 inputs and 2 outputs, but the node has 3"),
        ({"outputs": ("y",), "output_types": [0]}, "expected 1 to 2 inputs and 2 outputs"),
        # One that runs on a GPU, as its operator type and its format must say alike.
        ({"format": 3}, "its attribute 'format' does not match its operator type"),
        ({"op_type": "PyOpCudaLike1"}, "its attribute 'format' does not match"),
        (
            {"op_type": "PyOpCudaLike1", "format": 3},
            "it runs on GPUs alone, and this session has none",
        ),
    ],
)
def test_a_node_that_is_wrong(changes: dict[str, Any], message: str) -> None:
    if changes.get("operator") == "attacked::Other":
        changes = {**changes, "module": "no_module"}
    with pytest.raises(Exception, match=f"(?s){message}"):
        plain_session(model(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": ("", "i")},
        {"inputs": ("x", "", "i")},
        {"inputs": ()},
        {"op_type": "PyOpLike", "inputs": ()},
        {"op_type": "PyOp", "inputs": (), "outputs": ()},
        {"outputs": ()},
        {"outputs": ("",)},
        {"outputs": ("y",)},
        {"op_type": "PyOpLike2"},
        {"op_type": "PyOpLike"},
        {"op_type": "PyOpLike9"},
        {"type": TensorProto.COMPLEX64},
    ],
)
def test_a_node_that_no_one_would_write(changes: dict[str, Any]) -> None:
    """Whatever becomes of it, the process goes on."""
    try:
        session = plain_session(model(**changes))
        session.run(None, FEED)
    except Exception as error:
        assert str(error)
    assert len(plain_session(model()).run(None, FEED)) == 2


def test_damaged_nodes() -> None:
    original = model(arguments=b"").SerializeToString()
    numbers = random.Random(5)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    opgraft.register(options)
    for _ in range(1500):
        damaged = bytearray(original)
        for _ in range(numbers.randint(1, 3)):
            damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        try:
            session = onnxruntime.InferenceSession(bytes(damaged), options)
            session.run(None, FEED)
        except Exception as error:
            assert str(error)


def test_a_module_is_not_imported_unless_it_is_allowed(write_module: Write) -> None:
    module = write_module("raise SystemExit('imported')")
    given = model(module=module, operator="attacked::Unknown")
    for make in (plain_session, opgraft.InferenceSession):
        with pytest.raises(Exception, match=f"'{module}', which this host does not allow"):
            make(given)
    assert module not in sys.modules
    with pytest.raises(opgraft.PyOpError, match="SystemExit: imported"):
        opgraft.InferenceSession(given, allow=[module])


def test_a_model_names_a_module_for_an_operator_that_is_none_of_its(write_module: Write) -> None:
    """What is declared in the process is what runs, whatever module the model names."""
    module = write_module("raise SystemExit('imported')")
    y, _ = plain_session(model(module=module)).run(None, FEED)
    np.testing.assert_array_equal(y, floats(3))
    assert module not in sys.modules


def test_metadata_that_lies(write_module: Write) -> None:
    module = write_module("raise SystemExit('imported')")
    given = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "far": 1]>
        graph (float[n] x) => (float[n] y) { y = Relu(x) }""")
    given.metadata_props.add(key="opgraft.module.::Relu", value=module)
    with pytest.raises(opgraft.PolicyError, match=f"'{module}', which this host does not allow"):
        opgraft.InferenceSession(given)
    given.metadata_props[0].key = "opgraft.module.far::Unused"
    assert opgraft.InferenceSession(given).run(None, {"x": floats(2)})[0].tolist() == [0, 1]
    assert module not in sys.modules


def test_metadata_of_a_node_that_lies(write_module: Write) -> None:
    module = write_module("raise SystemExit('imported')")
    given = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "far": 1]>
        graph (float[n] x) => (float[n] y) { y = Relu(x) }""")
    given.graph.node[0].metadata_props.add(key="opgraft.module", value=module)
    with pytest.raises(opgraft.PolicyError, match=f"'{module}', which this host does not allow"):
        opgraft.InferenceSession(given)
    assert module not in sys.modules
    given.graph.node[0].metadata_props[0].value = ""
    assert opgraft.InferenceSession(given).run(None, {"x": floats(2)})[0].tolist() == [0, 1]
