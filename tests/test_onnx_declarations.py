"""Operators declared by @opgraft.op in the package onnx: checker, inference, reference."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import opgraft

Real = TypeVar("Real", np.float32, np.float64)
DOUBLE = 11


@opgraft.op(
    "test::TopK",
    shape=lambda x, like, *, k: ((*x[:-1], k), (*x[:-1], k), () if like is None else like),
)
def top_k(
    x: npt.NDArray[Real], like: npt.NDArray[np.int64] | None = None, *, k: int = 2
) -> tuple[npt.NDArray[Real], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The largest elements of x."""
    order = np.argsort(-x, axis=-1)[..., :k]
    flag = np.array(like is None) if like is None else like > 0
    return np.take_along_axis(x, order, -1), order, flag


def parse(graph: str) -> onnx.ModelProto:
    head = '<ir_version: 10, opset_import: ["": 21, "test": 1]>'
    return onnx.parser.parse_model(f"{head} graph {graph}")


def shapes(model: onnx.ModelProto) -> dict[str, str]:
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    found = {}
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        tensor = value.type.tensor_type
        sizes = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        found[value.name] = f"{tensor.elem_type} {sizes}"
    return found


def test_the_checker_and_shape_inference() -> None:
    given = parse("""(float[n, 5] x) => (float[n, m] z) {
        v, i, f = test.TopK <k = 3> (x)
        z = Neg(v) }""")
    onnx.checker.check_model(given, full_check=True)
    found = shapes(given)
    assert found["v"] == "1 ['n', 3]" and found["i"] == "7 ['n', 3]" and found["f"] == "9 []"
    assert found["z"] == "1 ['n', 3]"


def test_the_checker_finds_what_is_wrong() -> None:
    for node, message in [
        ("test.TopK <axis = 1> (x)", "Unrecognized attribute: axis for operator TopK"),
        ('test.TopK <k = "1"> (x)', "Mismatched attribute type in .* : k'?. Expected: 'INT'"),
        ("test.TopK (x, x, x)", "Node .* has input size 3 not in range"),
        ("test.TopK (y)", "input 'y' of node"),
    ]:
        with pytest.raises(onnx.checker.ValidationError, match=message):
            onnx.checker.check_model(
                parse(f"(float[n, 5] x) => (float[n, m] v) {{ v, i, f = {node} }}"), full_check=True
            )
    with pytest.raises(Exception, match="(?i)type"):
        onnx.checker.check_model(
            parse("(int64[n, 5] x) => (int64[n, m] v) { v, i, f = test.TopK (x) }"), full_check=True
        )


def test_a_node_may_leave_out_outputs() -> None:
    given = parse("(float[n, 5] x) => (float[n, 2] v) { v = test.TopK (x) }")
    onnx.checker.check_model(given, full_check=True)
    given = parse("(float[n, 5] x) => (int64[n, 2] i) { v, i = test.TopK (x) }")
    given.graph.node[0].output[0] = ""
    onnx.checker.check_model(given, full_check=True)


def test_inference_without_a_rule_tells_the_type_alone() -> None:
    @opgraft.op("test::NoShape")
    def no_shape(x: np.ndarray) -> np.ndarray: ...

    given = parse("(double[n] x) => (double z) { y = test.NoShape(x) z = Identity(y) }")
    given.graph.output[0].type.tensor_type.ClearField("shape")
    value = onnx.shape_inference.infer_shapes(given).graph.value_info[0]
    assert value.type.tensor_type.elem_type == DOUBLE
    assert not value.type.tensor_type.HasField("shape")


def test_the_reference_evaluator() -> None:
    given = parse(
        "(float[n, m] x) => (float[n, k] v, int64[n, k] i) { v, i = test.TopK <k = 1> (x) }"
    )
    x = np.float32([[1, 3, 2], [9, 7, 8]])
    v, i = ReferenceEvaluator(given).run(None, {"x": x})
    assert v.tolist() == [[3], [9]] and i.tolist() == [[1], [0]]
    session = opgraft.InferenceSession(given)
    for expected, got in zip((v, i), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(expected, got)


def test_the_reference_evaluator_with_out_attributes_and_classes() -> None:
    @opgraft.op("test::OutReference", shape=lambda x, *, times: (x[0] * times,))
    def out_reference(x: np.ndarray, *, times: int = 2, out: np.ndarray) -> np.ndarray:
        out[...] = np.tile(x, times)
        return out

    @opgraft.op("test::ClassReference")
    class ClassReference:
        def __init__(self, *, by: float) -> None:
            self.by = by

        def compute(self, x: np.ndarray) -> np.ndarray:
            return x * x.dtype.type(self.by)

    given = parse("""(float[n] x) => (float[m] z) {
        y = test.OutReference(x) z = test.ClassReference <by = 3.0> (y) }""")
    assert ReferenceEvaluator(given).run(None, {"x": np.float32([1])})[0].tolist() == [3, 3]


def test_defaults_of_an_onnx_operator_of_the_same_name_are_not_taken() -> None:
    @opgraft.op("test::Softmax")
    def softmax(x: np.ndarray, *, axis: int = 0, scale: float = 0.1) -> np.ndarray:
        assert (axis, scale) == (0, 0.1)  # onnx's axis is -1, and its 0.1 is a float32
        return x

    given = parse("(float[n] x) => (float[n] y) { y = test.Softmax(x) }")
    assert ReferenceEvaluator(given).run(None, {"x": np.float32([1])})[0] == [1]


def test_ones_own_reference_operators_come_first() -> None:
    from onnx.reference.op_run import OpRun

    class TopK(OpRun):
        op_domain = "test"

        def _run(self, x: Any, **attributes: Any) -> Any:
            return x, x, x

    given = parse("(float[n, m] x) => (float[n, k] v) { v, i = test.TopK <k = 1> (x) }")
    x = np.float32([[1, 3]])
    assert ReferenceEvaluator(given, new_ops=[TopK]).run(None, {"x": x})[0].tolist() == x.tolist()


def test_documentation_and_defaults_are_in_the_schema() -> None:
    schema = onnx.defs.get_schema("TopK", 1, "test")
    assert schema.doc == "The largest elements of x."
    assert schema.attributes["k"].default_value.i == 2
    assert [one.name for one in schema.inputs] == ["x", "like"]


def test_a_look_for_onnx_is_no_import() -> None:
    code = """
import importlib.util, numpy as np, opgraft
@opgraft.op("looked::Twice")
def twice(x: np.ndarray) -> np.ndarray: ...
assert importlib.util.find_spec("onnx")
import onnx.defs
assert onnx.defs.has("Twice", "looked")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_onnx_that_takes_no_schema_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(schema: Any) -> None:
        raise RuntimeError("too old")

    monkeypatch.setattr(onnx.defs, "register_schema", fail)

    def operator(x: np.ndarray) -> np.ndarray: ...

    with pytest.warns(UserWarning, match="refuses the schema of test::Declared: too old"):
        opgraft.op("test::Declared")(operator)
    monkeypatch.undo()
    opgraft.op("test::Declared")(operator)
    assert onnx.defs.has("Declared", "test")


@pytest.mark.parametrize("order", ["before", "after"])
def test_onnx_may_be_imported_before_or_after(order: str) -> None:
    """And a declaration does not import it."""
    code = """
import sys
if {order!r} == "before": import onnx, onnx.reference
import numpy as np, opgraft
@opgraft.op("late::Split", shape=lambda x: x)  # onnx has one of that name, too
def twice(x: np.ndarray) -> np.ndarray:
    return x + x
assert ("onnx" in sys.modules) == ({order!r} == "before")
import onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["late": 1]> graph (float[n] x) => (float[n] y) '
    '{{ y = late.Split(x) }}')
onnx.checker.check_model(model, full_check=True)
print(ReferenceEvaluator(model).run(None, {{"x": np.float32([2])}})[0])
"""
    code = code.format(order=order)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[4.]\n", done.stderr
