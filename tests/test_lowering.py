"""Models newer than the runtime: which conversions of onnx's version converter are accepted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

import opgraft
from conftest import DOUBLE, FLOAT, Write, floats, pyop_model
from opgraft._run import _lowering

NEWEST = 28  # the opset of these models, newer than that of every runtime
needs_newest = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < NEWEST, reason="this onnx does not know the opset"
)


def model_of(nodes: list[onnx.NodeProto], **graph: Any) -> onnx.ModelProto:
    """Returns a model from x, a vector of floats, to y."""
    values = [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in "xy"]
    made = helper.make_graph(nodes, "graph", values[:1], values[1:], **graph)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", NEWEST)])


def scalars(**values: float) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(np.float32(value), name) for name, value in values.items()]


def range_nodes(output: str = "y") -> list[onnx.NodeProto]:
    """Returns nodes that add 0, 1 and 2 to x. The older Range lacks the attribute, which has its
    default value."""
    return [
        helper.make_node("Range", ["a", "b", "c"], ["r"], stash_type=1),
        helper.make_node("Add", ["x", "r"], [output]),
    ]


THREE = {"a": 0.0, "b": 3.0, "c": 1.0}


@needs_newest
def test_what_the_converter_can_do_is_done() -> None:
    model = model_of(range_nodes(), initializer=scalars(**THREE))
    (y,) = opgraft.InferenceSession(model).run(None, {"x": floats(3)})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": floats(3)})
    assert np.array_equal(y, expected)


@needs_newest
def test_python_operators_stay(write_module: Write) -> None:
    """Without an import of their domain, with an absent input, in the graph and in a branch."""
    module = write_module(
        """
        class Op:
            def compute(self, x, nothing, y):
                assert nothing is None
                return x + y
        """
    )

    def pyop(name: str, inputs: list[str], output: str) -> onnx.NodeProto:
        attributes = {"module": module, "class_name": "Op", "output_types": [FLOAT]}
        return helper.make_node("PyOp", inputs, [output], name, domain="my.own", **attributes)

    def branch(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(output, FLOAT, None)
        return helper.make_graph(nodes, output, [], [value])

    yes = branch([*range_nodes("s"), pyop("inner", ["s", "", "x"], "t")], "t")
    no = branch([helper.make_node("Identity", ["x"], ["e"])], "e")
    condition = numpy_helper.from_array(np.array(True), "condition")
    model = model_of(
        [
            helper.make_node("If", ["condition"], ["z"], then_branch=yes, else_branch=no),
            pyop("outer", ["z", "", "x"], "y"),
        ],
        initializer=[condition, *scalars(**THREE)],
    )
    prepared = opgraft.prepare(model)
    assert [operator.node for operator in prepared.report] == ["inner", "outer"]
    (y,) = opgraft.InferenceSession(model, allow=[module]).run(None, {"x": floats(3)})
    assert y.tolist() == [0, 4, 8]


@needs_newest
def test_what_the_converter_drops_stays(tmp_path: Path) -> None:
    """It loses functions and sparse weights, and would lose the location of external weights."""
    function = helper.make_function(
        "local", "Same", ["i"], ["o"], [helper.make_node("Identity", ["i"], ["o"])],
        [helper.make_opsetid("", NEWEST)],
    )  # fmt: skip
    model = model_of(
        [*range_nodes("z"), helper.make_node("Same", ["z"], ["y"], domain="local")],
        initializer=scalars(**THREE),
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    weight = numpy_helper.from_array(np.float32([1]), "sparse")
    place = numpy_helper.from_array(np.int64([0]), "place")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(weight, place, [4]))
    outside = helper.make_tensor("outside", FLOAT, [1], bytes(4), raw=True)
    onnx.external_data_helper.set_external_data(outside, "weights.bin")
    outside.ClearField("raw_data")
    model.graph.initializer.append(outside)
    (tmp_path / "weights.bin").write_bytes(bytes(4))
    helper.set_model_props(model, {"author": "me"})

    prepared = onnx.ModelProto.FromString(opgraft.prepare(model, runtime="1.31.1").bytes)
    assert prepared.functions[0].node == function.node
    for kept in ("initializer", "sparse_initializer", "input", "output"):
        assert getattr(prepared.graph, kept) == getattr(model.graph, kept)
    assert prepared.metadata_props == model.metadata_props
    assert [i.domain for i in prepared.opset_import] == ["", "local"]


@needs_newest
def test_a_change_that_the_converter_passes_over_is_refused() -> None:
    """The converter only checks types if an operator's meaning has changed."""
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2], ceil_mode=1)
    values = [helper.make_tensor_value_info(name, FLOAT, [1, 1, None]) for name in "xy"]
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    assert version_converter.convert_version(model, 21).graph.node[0] == node
    with pytest.raises(
        opgraft.ModelError,
        match=r"MaxPool with 'ceil_mode' \(since opset 22\).*leaves them as they are",
    ):
        opgraft.prepare(model, runtime="1.19.2")


@needs_newest
def test_what_the_converter_says_is_told() -> None:
    axis = numpy_helper.from_array(np.int64(0), "axis")
    model = model_of([helper.make_node("CumProd", ["x", "axis"], ["y"])], initializer=[axis])
    with pytest.raises(
        opgraft.ModelError, match=r"changed in between: CumProd .*version_converter: .*CumProd"
    ):
        opgraft.prepare(model, runtime="1.24.4")


@needs_newest
def test_what_the_converter_leaves_is_told_apart_from_what_it_does() -> None:
    pool = helper.make_node("MaxPool", ["u"], ["v"], kernel_shape=[2], ceil_mode=1)
    weight = numpy_helper.from_array(np.ones((1, 1, 4), np.float32), "u")
    model = model_of([pool, *range_nodes()], initializer=[weight, *scalars(**THREE)])
    with pytest.raises(opgraft.ModelError) as refused:
        opgraft.prepare(model, runtime="1.19.2")
    before, after = str(refused.value).split("(after onnx.version_converter, ")
    assert "MaxPool" in before and "Range" in before
    assert "MaxPool" in after and "Range" not in after


@needs_newest
def test_an_error_in_what_the_converter_gives_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(range_nodes(), initializer=scalars(**THREE))
    broken = pyop_model("m", class_name=None)  # type: ignore[arg-type]
    monkeypatch.setattr(_lowering, "convert", lambda *given: broken.SerializeToString())
    with pytest.raises(opgraft.ModelError, match=r"Range .*'class_name' is missing"):
        opgraft.prepare(model, runtime="1.31.1")


CRASH = """
    import opgraft, sys
    try:
        opgraft.prepare(sys.argv[1], runtime="1.31.1")
    except opgraft.ModelError as error:
        print("refused:", error)
"""


@needs_newest
def test_a_converter_that_crashes_is_an_error(tmp_path: Path) -> None:
    """A string attribute that is a tensor crashes onnx up to at least 1.23."""
    pattern = helper.make_tensor("t", FLOAT, [1], [1.0])
    model = model_of(
        [helper.make_node("RegexFullMatch", ["s"], ["o"], pattern=pattern), *range_nodes()],
        initializer=scalars(**THREE),
    )
    onnx.save(model, tmp_path / "model.onnx")
    command = [sys.executable, "-c", textwrap.dedent(CRASH), str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused: " in done.stdout
    assert "version_converter crashed: SIG" in done.stdout


@needs_newest
def test_without_a_python_command(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(range_nodes(), initializer=scalars(**THREE))
    monkeypatch.setattr(sys, "executable", "/opt/program")
    with pytest.raises(opgraft.ModelError, match="sys.executable is '/opt/program'"):
        opgraft.prepare(model, runtime="1.31.1")


@needs_newest
@pytest.mark.parametrize("damage", ["drop", "attribute", "inputs"])
def test_a_converter_that_changes_other_nodes_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    model = model_of([*range_nodes("z"), *pyop_model("m", inputs=("z",)).graph.node],
                     initializer=scalars(**THREE))  # fmt: skip

    def convert(model: bytes, limit: int) -> bytes:
        given = onnx.ModelProto.FromString(model)
        given.graph.node[0].ClearField("attribute")
        if damage == "drop":
            del given.graph.node[1]
        elif damage == "attribute":
            given.graph.node[2].attribute[0].s = b"other"
        else:
            given.graph.node[1].input.reverse()
        return given.SerializeToString()

    monkeypatch.setattr(_lowering, "_run_converter", convert)
    with pytest.raises(opgraft.ModelError, match="version_converter changed the node"):
        opgraft.prepare(model, runtime="1.31.1")


def test_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(range_nodes(), initializer=scalars(**THREE)).SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        opgraft.ModelError, match=r"Range with 'stash_type'.*onnx, which.*is not installed"
    ):
        opgraft.prepare(model, runtime="1.31.1")


def test_another_error_is_not_the_converters_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lowering, "convert", None)
    with pytest.raises(opgraft.ModelError, match="attribute 'class_name' is missing"):
        opgraft.prepare(pyop_model("m", class_name=None))  # type: ignore[arg-type]


def test_the_runtimes_own_operators_under_another_version(write_module: Write) -> None:
    """As written by torch.onnx.export(custom_opsets={"com.microsoft": 5})."""
    model = pyop_model(write_module(DOUBLE), inputs=("z",))
    module = next(a.s.decode() for a in model.graph.node[0].attribute if a.name == "module")
    model.graph.node.insert(0, helper.make_node("Gelu", ["x"], ["z"], domain="com.microsoft"))
    model.graph.input[0].name = "x"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 5))
    session = opgraft.InferenceSession(model, allow=[module])
    assert session.run(None, {"x": np.float32([0, 100])})[0].tolist() == [0, 200]


def test_a_type_that_is_new_runs_in_a_type_that_the_older_opset_has() -> None:
    if onnx.defs.onnx_opset_version() < NEWEST:
        pytest.skip("this onnx does not know the opset")
    values = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [2, 2]) for n in "xy"]
    node = helper.make_node("Einsum", ["x"], ["y"], equation="ij->ji")
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)])
    x = floats(2, 2).astype(ml_dtypes.bfloat16)
    (y,) = opgraft.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.T)
    # Prepared for a plain session of another runtime, it is lowered, and that refuses it.
    other = onnx.load_from_string(opgraft.prepare(model, runtime="1.22.1").bytes)
    assert [one.op_type for one in other.graph.node] == ["Einsum"]
