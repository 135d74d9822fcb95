"""Operators declared by @opgraft.op, run in sessions: types, inputs, outputs, attributes."""

from __future__ import annotations

from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import VERSION, floats
from conftest import graph_model as model
from conftest import run_model as run

Real = TypeVar("Real", np.float32, np.float64)
Other = TypeVar("Other", np.int32, np.int64)


@opgraft.op("test::AddAndRound", shape=lambda x: x)
def add_and_round(x: np.ndarray) -> np.ndarray:
    """Twice x, rounded."""
    return np.round(x + x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
def test_a_bare_array_takes_any_type_and_the_output_has_it(dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    given = model(f"({name}[n] x) => ({name}[n] z) {{ y = test.AddAndRound(x) z = Identity(y) }}")
    x = np.array([1.3, 2.4, 3]).astype(dtype)
    (z,) = run(given, x)
    assert z.dtype == dtype and given.graph.output[0].type.tensor_type.elem_type == kind
    np.testing.assert_array_equal(z, np.round(x + x))


def test_the_runtime_finds_types_where_the_model_says_nothing() -> None:
    # Because of Cast and Shape in between, only the runtime's own inference knows the types.
    given = model("""(float[n, 3] x) => (double[n, 3] z, int64[2] s) {
        c = Cast<to = 11>(x)
        y = test.AddAndRound(c)
        z = test.AddAndRound(y)
        s = Shape(y) }""")
    z, s = run(given, floats(2, 3))
    assert z.dtype == np.float64 and list(s) == [2, 3]
    np.testing.assert_array_equal(z, 4 * floats(2, 3))


@opgraft.op("test::Sorted")
def sort_both(
    index: npt.NDArray[np.int64], x: npt.NDArray[Real]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Real], npt.NDArray[np.bool_]]:
    order = np.argsort(x[index])
    return order, x[index][order], np.array(True)


def test_an_output_has_the_type_of_the_input_that_it_is_tied_to() -> None:
    given = model("""(int64[k] i, float[n] x) => (int64[k] o, double[k] w, bool t, int64[1] s) {
        c = Cast<to = 11>(x)
        o, v, t = test.Sorted(i, c)
        w = Neg(v)
        s = Shape(v) }""")
    order, w, truth, shape = run(given, np.int64([2, 0]), np.float32([5, 1, 3]))
    assert list(order) == [0, 1] and list(w) == [-3, -5] and truth and list(shape) == [2]
    assert w.dtype == np.float64


def test_a_type_that_is_not_among_those_of_the_type_variable() -> None:
    given = model(
        "(int64[k] i, int32[n] x) => (int64[k] o, int32[k] v) { o, v = test.Sorted(i, x) }"
    )
    expected = "input 1, 'x', is int32, expected one of float32, float64"
    with pytest.raises(
        opgraft.ModelError, match=f"node 'Sorted_o', operator test::Sorted: {expected}"
    ):
        run(given)
    # If the model does not declare the type, the kernel reports it.
    given = model("""(int64[k] i, float[n] x) => (int64[k] o, int32[k] v) {
        c = Cast<to = 6>(x) o, v = test.Sorted(i, c) }""")
    with pytest.raises(opgraft.ModelError, match=expected):
        run(given)


@opgraft.op("test::TwoTypes")
def two_types(
    a: npt.NDArray[Real], b: npt.NDArray[Other]
) -> tuple[npt.NDArray[Other], npt.NDArray[Real]]:
    return b, a


def test_two_type_variables() -> None:
    given = model(
        "(float[n] a, int32[m] b) => (int32[m] d, float[n] c) { d, c = test.TwoTypes(a, b) }"
    )
    d, c = run(given, floats(2), np.int32([7]))
    assert d.dtype == np.int32 and c.dtype == np.float32
    given = model("""(float[n] x, int64[m] y) => (int32[m] d, double[n] c) {
        a = Cast<to = 11>(x) b = Cast<to = 6>(y) d, c = test.TwoTypes(a, b) }""")
    d, c = run(given, floats(2), np.int64([7]))  # the outputs are declared
    assert d.dtype == np.int32 and c.dtype == np.float64
    for output, node in zip(given.graph.output, ("e", "f"), strict=True):
        given.graph.node.append(helper.make_node("Identity", [output.name], [node]))
        output.name = node
    with pytest.raises(opgraft.ModelError, match="output 1 has the type of 'a'.*infer_shapes"):
        run(given)
    d, c = run(onnx.shape_inference.infer_shapes(given), floats(2), np.int64([7]))
    assert d.dtype == np.int32 and c.dtype == np.float64


def test_types_that_are_tied_together() -> None:
    @opgraft.op("test::Pair")
    def pair(a: npt.NDArray[Real], b: npt.NDArray[Real]) -> npt.NDArray[Real]:
        return a + b

    assert list(
        run(
            model("(float[n] a, float[n] b) => (float[n] c) { c = test.Pair(a, b) }"),
            floats(2),
            floats(2),
        )[0]
    ) == [0, 2]
    given = model("(float[n] a, double[n] b) => (float[n] c) { c = test.Pair(a, b) }")
    with pytest.raises(
        opgraft.ModelError,
        match="input 1, 'b', is float64, expected float32, the type of input 0, 'a'",
    ):
        run(given)


@opgraft.op("test::Affine", shape=lambda x, scale, bias: x)
def affine(
    x: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32] | None = None,
    bias: npt.NDArray[np.float32] | None = None,
    *,
    out: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    np.multiply(x, 1 if scale is None else scale, out=out)
    return np.add(out, 0 if bias is None else bias, out=out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("x", 3), ("x, s", 30), ('x, "", b', 4), ("x, s, b", 31), ('x, s, ""', 30)],
)
def test_optional_inputs(arguments: str, expected: float) -> None:
    given = model(
        "(float[1] x, float[1] s, float[1] b) => (float[1] y) { y = test.Affine(x, s, b) }"
    )
    names = [name.strip(' "') for name in arguments.split(",")]
    given.graph.node[0].input[:] = names
    assert run(given, *(np.float32([v]) for v in (3, 10, 1)))[0] == [expected]


def test_variadic_inputs_and_outputs() -> None:
    @opgraft.op("test::Lengths")
    def lengths(*xs: np.ndarray) -> npt.NDArray[np.int64]:
        return np.array([len(x) for x in xs], dtype=np.int64)

    @opgraft.op("test::Parts", shape=lambda x: [(1,) for _ in range(2)])
    def parts(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.split(x, len(x)))

    @opgraft.op("test::First")
    def first(*xs: np.ndarray) -> np.ndarray:
        return xs[0]

    given = model("(float[n] a, int64[m] b) => (int64[2] y) { y = test.Lengths(a, b) }")
    assert list(run(given, floats(2), np.int64([1, 2, 3]))[0]) == [2, 3]
    given = model("(float[n] a) => (int64[k] y) { y = test.Lengths() }")
    assert list(run(given, floats(1))[0]) == []
    given = model("(double[2] a) => (double[1] y, double[1] z) { y, z = test.Parts(a) }")
    assert [list(part) for part in run(given, np.float64([1, 2]))] == [[1], [2]]
    given = model("(bool[n] a, int64[m] b) => (bool[n] z) { y = test.First(a, b) z = Not(y) }")
    assert list(run(given, [True], np.int64([1]))[0]) == [False]


def test_attributes() -> None:
    seen: dict[str, Any] = {}

    @opgraft.op("test::Attributes")
    def attributes(
        x: np.ndarray,
        *,
        i: int,
        f: float = 0.1,
        s: str = "text",
        b: bytes = b"\0\xff",
        flag: bool = True,
        ints: list[int] = [1, 2],  # noqa: B006
        floats: tuple[float, ...] = (0.5,),
        strings: list[str] = ["a"],  # noqa: B006
        array: np.ndarray = np.eye(2),  # noqa: B008
        maybe: int | None = None,
        guessed="default",
    ) -> np.ndarray:
        seen.update({name: value for name, value in locals().items() if name not in ("x", "seen")})
        return x

    given = model("(float[n] x) => (float[n] y) { y = test.Attributes <i = 7> (x) }")
    run(given, floats(1))
    np.testing.assert_array_equal(seen.pop("array"), np.eye(2))
    assert seen == {
        "i": 7, "f": 0.1, "s": "text", "b": b"\0\xff", "flag": True, "ints": [1, 2],
        "floats": (0.5,), "strings": ["a"], "maybe": None, "guessed": "default",
    }  # fmt: skip
    node = helper.make_node(
        "Attributes", ["x"], ["y"], domain="test", i=1, f=0.1, s="é", b=b"\1", flag=0, ints=[5],
        floats=[0.25, 1.0], strings=["b", "c"], maybe=3,
        array=onnx.numpy_helper.from_array(np.int8([[1]])),
    )  # fmt: skip
    given.graph.node[0].CopyFrom(node)
    run(given, floats(1))
    array = seen.pop("array")
    assert array.dtype == np.int8 and array.tolist() == [[1]]
    assert seen == {
        "i": 1, "f": float(np.float32(0.1)), "s": "é", "b": b"\1", "flag": False, "ints": [5],
        "floats": (0.25, 1.0), "strings": ["b", "c"], "maybe": 3, "guessed": "default",
    }  # fmt: skip
    assert seen["flag"] is False and isinstance(seen["floats"], tuple)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("test.Scaled (x)", "attribute 'factor' is missing, and it has no default"),
        (
            "test.Scaled <factor = 2.0, axis = 1> (x)",
            "the operator has no attribute 'axis'; its attributes are: factor",
        ),
        (
            'test.Scaled <factor = "2"> (x)',
            "attribute 'factor' is of ONNX's kind STRING, expected FLOAT",
        ),
        ("test.Scaled <factor = 2.0> (x, x)", "expected 1 input, but the node has 2"),
        ("test.Scaled <factor = 2.0> ()", "expected 1 input, but the node has 0"),
    ],
)
def test_a_node_that_does_not_fit(node: str, message: str) -> None:
    @opgraft.op("test::Scaled")
    def scaled(x: np.ndarray, *, factor: float) -> np.ndarray:
        return x * x.dtype.type(factor)

    given = model(f"(float[n] x) => (float[n] y) {{ y = {node} }}")
    with pytest.raises(
        opgraft.ModelError, match=f"node 'Scaled_y', operator test::Scaled: {message}"
    ):
        opgraft.prepare(given)


def test_more_outputs_than_the_operator_has_and_fewer() -> None:
    given = model("(float[n] x) => (float[n] y) { y, z = test.AddAndRound (x) }")
    with pytest.raises(opgraft.ModelError, match="expected 1 output, but the node has 2"):
        opgraft.prepare(given)
    given = model("(int64[k] i, float[n] x) => (int64[k] o) { o = test.Sorted(i, x) }")
    assert list(run(given, np.int64([1, 0]), np.float32([3, 1]))[0]) == [0, 1]
    given = model("(int64[k] i, float[n] x) => (bool t) { a, b, t = test.Sorted(i, x) }")
    given.graph.node[0].output[:] = ["", "", "t"]
    assert run(given, np.int64([1, 0]), np.float32([3, 1]))[0]


def test_a_class_has_one_object_for_each_node() -> None:
    made = []

    @opgraft.op("test::Counter", shape=lambda x: ())
    class Counter:
        def __init__(self, start: int = 10, *, step: int = 1) -> None:
            self.count, self.step = start, step
            made.append(self)

        def compute(self, x: np.ndarray) -> npt.NDArray[np.int64]:
            self.count += self.step
            return np.int64(self.count)

    given = model("""(float[n] x) => (int64 a, int64 b) {
        a = test.Counter (x) b = test.Counter <start = 0, step = 5> (x) }""")
    session = opgraft.InferenceSession(given)
    session.run(None, {"x": floats(1)})
    assert session.run(None, {"x": floats(1)}) == [12, 10]
    assert len(made) == 2


def test_declaring_again_replaces_it_for_later_sessions() -> None:
    given = model("(float[n] x) => (float[n] y) { y = test.Again (x) }")

    @opgraft.op("test::Again")
    def before(x: np.ndarray) -> np.ndarray:
        return x + 1

    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    old = opgraft.InferenceSession(given, options)

    @opgraft.op("test::Again", shape=lambda x: x)
    def after(x: np.ndarray, *, factor: int = 3) -> np.ndarray:
        return x * x.dtype.type(factor)

    new = opgraft.InferenceSession(given, options)  # options that were made before
    x = {"x": np.float32([5])}
    assert old.run(None, x)[0] == [6] and new.run(None, x)[0] == [15]
    assert onnx.defs.get_schema("Again", 1, "test").attributes.keys() == {"factor"}


def test_operators_in_subgraphs_and_functions() -> None:
    given = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "test": 1, "f": 1]>
        graph (bool c, float[n] x) => (float[n] z) {
            y = If (c) <then_branch = g () => (float[n] t) { t = test.AddAndRound(x) },
                        else_branch = h () => (float[n] e) { e = f.Twice <k = 2.0> (x) }>
            z = f.Twice(y) }
        <domain: "f", opset_import: ["": 21, "test": 1]>
        Twice <k: float = 1.0> (a) => (b) { b = test.Scaled2 <factor: float = @k> (a) }""")

    @opgraft.op("test::Scaled2")
    def scaled(x: np.ndarray, *, factor: float) -> np.ndarray:
        return x * x.dtype.type(factor)

    assert run(given, True, np.float32([3]))[0] == [6]
    assert run(given, False, np.float32([3.5]))[0] == [7]


def test_an_operator_of_onnx_that_the_runtime_lacks() -> None:
    @opgraft.op("ai.onnx::NewInOnnx")
    def new_in_onnx(x: np.ndarray) -> np.ndarray:
        return x + 1

    onnx.defs.deregister_schema("NewInOnnx", 1, "")  # other tests check all schemas of onnx
    given = model("(float[n] x) => (float[n] y) { y = NewInOnnx(x) }")
    assert run(given, np.float32([1]))[0] == [2]


def test_types_that_an_outer_graph_declares() -> None:
    given = model("""(bool c, float[n] x, int32[m] i) => (int32[m] d) {
        d = If (c) <then_branch = g () => (int32[m] t) { t, u = test.TwoTypes(x, i) },
                    else_branch = h () => (int32[m] e) { e = Identity(i) }> }""")
    assert list(run(given, True, floats(1), np.int32([7]))[0]) == [7]


def test_copied_inputs_may_be_kept() -> None:
    kept = []

    @opgraft.op("test::Copying", copy_inputs=True)
    def operator(x: np.ndarray) -> np.ndarray:
        kept.append(x)
        x += 1
        return x

    given = model("(float[n] x) => (float[n] y) { y = test.Copying(x) }")
    assert list(run(given, floats(2))[0]) == [1, 2] and list(kept[0]) == [1, 2]


@pytest.mark.skipif(
    VERSION < (1, 24), reason="this runtime's Cast does not support all of these types"
)
@pytest.mark.parametrize("name", ["bfloat16", "int4", "float8_e4m3fn"])
def test_types_of_ml_dtypes(name: str) -> None:
    scalar = getattr(ml_dtypes, name)

    @opgraft.op("test::Reversed")
    def reverse(x: npt.NDArray[scalar]) -> npt.NDArray[scalar]:
        assert x.dtype == scalar
        return x[::-1]

    number = getattr(TensorProto, {"float8_e4m3fn": "FLOAT8E4M3FN"}.get(name, name.upper()))
    given = model(
        "(float[n] x) => (float[n] y) { a = Cast (x) b = test.Reversed(a) y = Cast<to = 1>(b) }"
    )
    given.graph.node[0].attribute.append(helper.make_attribute("to", number))
    assert list(run(given, np.float32([1, 2, 3]))[0]) == [3, 2, 1]


def test_strings() -> None:
    @opgraft.op("test::Upper", shape=lambda x: x)
    def upper(x: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
        return np.array([text.upper() for text in x.flat], dtype=object).reshape(x.shape)

    given = model("(string[n] x) => (string[n] y) { y = test.Upper(x) }")
    assert list(run(given, np.array(["a", "é"], dtype=object))[0]) == ["A", "É"]
