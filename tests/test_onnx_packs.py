"""The package onnx with the operators of packs: checker, shape inference, reference evaluation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.parser
import onnx.shape_inference
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import opgraft

X = np.float32([1, 2])
infers = pytest.mark.skipif(
    not hasattr(onnx.defs.OpSchema, "set_type_and_shape_inference_function"),
    reason="this onnx does not accept shape rules",
)


@pytest.fixture(autouse=True)
def _loaded(first_pack: opgraft.Pack) -> None:
    pass


def parse(graph: str, version: int = 5) -> onnx.ModelProto:
    imports = f'opset_import: ["": 21, "test.packs": {version}]'
    return onnx.parser.parse_model(f"<ir_version: 10, {imports}> graph {graph}")


def shape_of(model: onnx.ModelProto, name: str, **options: bool) -> list[int | str | None] | None:
    """Returns the shape that onnx infers for a value; None if not even the rank is known."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, **options).graph
    for value in [*inferred.value_info, *inferred.output]:
        if value.name == name and value.type.tensor_type.HasField("shape"):
            return [
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in value.type.tensor_type.shape.dim
            ]
    return None


# Schemas and the checker.


def test_the_schema() -> None:
    schema = onnx.defs.get_schema("Scale", 5, "test.packs")
    assert schema.doc == "Multiplies a tensor by a number."
    assert [one.name for one in schema.inputs] == ["x"]
    assert schema.inputs[0].description == "any tensor"
    assert set(schema.type_constraints[0].allowed_type_strs) == {
        f"tensor({name})" for name in ("float", "double", "float16", "bfloat16")
    }
    factor = schema.attributes["factor"]
    assert (factor.required, factor.default_value.f) == (False, 2)
    assert onnx.defs.get_schema("Fail", 5, "test.packs").attributes["text"].required
    ends = onnx.defs.get_schema("Shout", 5, "test.packs").attributes["ends"]
    assert list(ends.default_value.strings) == [b"!"]


@pytest.mark.parametrize(("version", "since"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (8, 5)])
def test_the_schema_of_each_version(version: int, since: int) -> None:
    assert onnx.defs.get_schema("Step", version, "test.packs").since_version == since


def test_the_full_check() -> None:
    model = parse(
        """(float[n] x) => (float[n] z) {
            y = test.packs.Scale <factor = 3.0> (x)  z = test.packs.Step <more = 1.0> (y) }"""
    )
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    "node", ["test.packs.Scale (x, x)", "test.packs.Scale <wrong = 1> (x)", "test.packs.Fail (x)"]
)
def test_the_check_finds_what_is_wrong(node: str) -> None:
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(parse(f"(float[n] x) => (float[n] y) {{ y = {node} }}"))


# Shape inference.


@infers
@pytest.mark.parametrize("shape", ["[n, 3]", "[2, 3]", ""])
def test_shapes_are_inferred(shape: str) -> None:
    model = parse(f"(double{shape} x) => (double y) {{ y = test.packs.Scale (x) }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    expected = [int(one) if one.isdigit() else one for one in shape.strip("[]").split(", ") if one]
    assert shape_of(model, "y") == expected
    inferred = onnx.shape_inference.infer_shapes(model).graph.output[0]
    assert inferred.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE


@infers
@pytest.mark.parametrize("size", ["4", "n"])
def test_shapes_from_constants(size: str) -> None:
    model = parse(
        f"""(float[{size}] x) => (float[m] z) <int64[1] times = {{3}}> {{
            y = test.packs.Repeat (x, times)  z = Neg (y) }}"""
    )
    assert shape_of(model, "y") == [12 if size == "4" else "3*n"]


@infers
def test_shapes_from_constants_that_are_computed() -> None:
    model = parse(
        """(float[4] x, float[5, 7] like) => (float[m] z) {
            start = Constant <value = int64[1] {1}> ()  end = Constant <value = int64[1] {2}> ()
            shape = Shape (like)  times = Slice (shape, start, end)
            y = test.packs.Repeat (x, times)  z = Neg (y) }"""
    )
    assert shape_of(model, "y", data_prop=True) == [28]
    assert shape_of(model, "y") != [28]


@infers
def test_a_rule_that_finds_an_error() -> None:
    model = parse("(float[n] x, int64[1] t) => (float[m] y) { y = test.packs.Repeat (x) }")
    with pytest.raises(Exception, match="Repeat"):
        onnx.shape_inference.infer_shapes(model, strict_mode=True)


# Reference evaluation.


def reference(model: onnx.ModelProto, **inputs: np.ndarray) -> np.ndarray:
    (result,) = ReferenceEvaluator(model).run(None, inputs)
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.parametrize(("version", "step"), [(1, 1), (2, 1), (3, 3), (5, 5), (7, 5)])
def test_the_reference_runs_the_version_of_the_import(version: int, step: int) -> None:
    model = parse("(float[n] x) => (float[n] y) { y = test.packs.Step (x) }", version)
    np.testing.assert_array_equal(reference(model, x=X), X + step)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_reference_knows_types(dtype: str) -> None:
    names = {"float32": "float", "float64": "double"}
    kind = names.get(dtype, dtype)
    model = parse(f"({kind}[n] x) => ({kind}[n] y) {{ y = test.packs.Scale <factor = 1.5> (x) }}")
    numpy_type = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    if (
        dtype == "bfloat16"
        and numpy_helper.to_array(helper.make_tensor("", onnx.TensorProto.BFLOAT16, [1], [1])).dtype
        != numpy_type
    ):
        pytest.skip("this onnx has its own array type for bfloat16")
    result = reference(model, x=X.astype(numpy_type))
    assert result.dtype == numpy_type
    np.testing.assert_array_equal(result.astype(float), [1.5, 3])


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_reference_takes_arrays_as_they_lie(order: str) -> None:
    model = parse("(float[n, m] x) => (float[n, m] y) { y = test.packs.Scale (x) }")
    x = np.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), order=order)[::2, 1:]  # type: ignore[call-overload]
    np.testing.assert_array_equal(reference(model, x=x), x * 2)


def test_the_reference_knows_strings() -> None:
    model = parse('(string[n] x) => (string[n] y) { y = test.packs.Shout <ends = ["a", "b"]> (x) }')
    assert reference(model, x=np.array(["x", "ü"])).tolist() == ["xab", "üab"]
    model = parse("(string[n] x) => (string[n] y) { y = test.packs.Shout (x) }")
    assert reference(model, x=np.array(["x"], object)).tolist() == ["x!"]


def test_the_reference_knows_optional_inputs() -> None:
    model = parse("(float[n] x, float[n] b) => (float[n] y) { y = test.packs.Shift (x, b) }")
    np.testing.assert_array_equal(reference(model, x=X, b=X), X + X)
    for node in ("test.packs.Shift (x)", "test.packs.Shift (x, )"):
        model = parse(f"(float[n] x) => (float[n] y) {{ y = {node} }}")
        np.testing.assert_array_equal(reference(model, x=X), X + 1000)


def test_the_reference_raises_what_the_kernel_says() -> None:
    model = parse('(float[n] x) => (float[n] y) { y = test.packs.Fail <text = "as told"> (x) }')
    with pytest.raises(opgraft.Error, match="test.packs::Fail: as told"):
        reference(model, x=X)


def test_the_reference_refuses_types() -> None:
    model = parse("(int64[n] x) => (int64[n] y) { y = test.packs.Scale (x) }")
    with pytest.raises(opgraft.ModelError, match="test.packs::Scale.*int64"):
        reference(model, x=np.int64([1]))


@pytest.mark.parametrize("is_first", [True, False])
def test_onnx_may_be_imported_before_or_after(first_library: Path, is_first: bool) -> None:
    code = [f"import opgraft; opgraft.load({str(first_library)!r})", "import onnx, onnx.reference"]
    program = (
        "\n".join(reversed(code) if is_first else code)
        + """
import onnx.parser, sys
import numpy as np
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21, "test.packs": 1]>
    graph (float[n] x) => (float[n] y) { y = test.packs.Step (x) }''')
onnx.checker.check_model(model, full_check=True)
print(onnx.reference.ReferenceEvaluator(model).run(None, {"x": np.float32([1])})[0])
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[2.]\n", "")


def test_loading_does_not_import_onnx(first_library: Path) -> None:
    program = f"""import sys, opgraft
opgraft.load({str(first_library)!r})
print([name for name in ("onnx", "onnxruntime") if name in sys.modules])"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
