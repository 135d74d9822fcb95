"""Operators declared by @opgraft.op, run in sessions."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import Write, floats
from opgraft import _library

VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
Real = TypeVar("Real", np.float32, np.float64)
Other = TypeVar("Other", np.int32, np.int64)

Run = Callable[..., list[np.ndarray]]


def model(graph: str, opset: int = 21, more: str = "") -> onnx.ModelProto:
    """A model of this graph in ONNX's text form, whose outputs' types may be left out."""
    head = f'<ir_version: 10, opset_import: ["": {opset}, "test": 1{more}]>'
    return onnx.parser.parse_model(f"{head} graph {graph}")


def run(given: onnx.ModelProto, *inputs: Any, **options: Any) -> list[np.ndarray]:
    session = opgraft.InferenceSession(given, **options)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))


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
    # Cast and Shape stand between, so that only the runtime's own inference knows the types.
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
    # Where the model does not declare it, the kernel is the one to say so.
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
        ("test.Scaled <factor = 2.0, axis = 1> (x)", "it has no attribute 'axis'; it has factor"),
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

    onnx.defs.deregister_schema("NewInOnnx", 1, "")  # other tests look at all that onnx has
    given = model("(float[n] x) => (float[n] y) { y = NewInOnnx(x) }")
    assert run(given, np.float32([1]))[0] == [2]


# Shape rules.


def test_the_runtime_is_told_the_shape() -> None:
    given = model("(float[n, 3] x) => (float y) { y = test.AddAndRound(x) }")
    given.graph.output[0].type.tensor_type.ClearField("shape")
    shape = opgraft.InferenceSession(given).get_outputs()[0].shape
    assert shape == (["n", 3] if VERSION >= (1, 28) else [])


def test_without_a_rule_no_rank_is_told() -> None:
    @opgraft.op("test::NoRule")
    def no_rule(x: np.ndarray) -> np.ndarray:
        return x[None]

    given = model("(float[n, 3] x) => (int64[3] s) { y = test.NoRule(x) s = Shape(y) }")
    assert list(run(given, floats(2, 3))[0]) == [1, 2, 3]


def test_an_input_of_unknown_rank_is_not_taken_for_a_scalar() -> None:
    @opgraft.op("test::Same", shape=lambda x: (1, *x))
    def same(x: np.ndarray) -> np.ndarray:
        return x[None]

    given = model(
        "(float[n, 3] x) => (int64[3] s) { u = test.NoRank(x) y = test.Same(u) s = Shape(y) }"
    )

    @opgraft.op("test::NoRank")
    def no_rank(x: np.ndarray) -> np.ndarray:
        return x

    assert list(run(given, floats(2, 3))[0]) == [1, 2, 3]


def test_a_shape_other_than_the_rule_says() -> None:
    @opgraft.op("test::Wrong", shape=lambda x: (x[0] + 1,))
    def wrong(x: np.ndarray) -> np.ndarray:
        return x

    given = model("(float[n] x) => (float[m] y) { y = test.Wrong(x) }")
    with pytest.raises(
        opgraft.PyOpError,
        match=r"\(3\), as its shape rule says, but the operator returned a float32 array .* \(2,\)",
    ):
        run(given, floats(2))


def test_a_rule_that_raises() -> None:
    @opgraft.op("test::Raising", shape=lambda x: (x[7],))
    def raising(x: np.ndarray) -> np.ndarray:
        return x

    given = model("(float[n] x) => (float[m] y) { y = test.Raising(x) }")
    with pytest.raises(opgraft.PyOpError, match="its shape rule raised IndexError") as caught:
        run(given, floats(2))
    assert isinstance(caught.value.__cause__, IndexError)


# out=


def test_out_is_the_runtimes_memory() -> None:
    addresses = []

    @opgraft.op("test::Out", shape=lambda x: x)
    def out_operator(x: np.ndarray, *, out: np.ndarray) -> None:
        addresses.append(out.ctypes.data)
        assert out.flags.writeable and out.flags.c_contiguous and not out.flags.owndata
        np.negative(x, out=out)

    # A function that returns None has no outputs by its annotation: say which it has.
    @opgraft.op("test::Out", shape=lambda x: x)
    def annotated(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out_operator(x, out=out)
        return out

    given = model("(float[n] x) => (float[n] y) { y = test.Out(x) }")
    session = opgraft.InferenceSession(given)
    x, y = np.float32([1, 2]), np.zeros(2, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, [2], y.ctypes.data)
    session.run_with_iobinding(binding)
    assert addresses == [y.ctypes.data] and list(y) == [-1, -2]


def test_what_an_operator_with_out_may_return() -> None:
    returned: list[Any] = [None]

    @opgraft.op("test::OutReturn", shape=lambda x: x)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        value = returned[0]
        return value(out) if callable(value) else value

    session = opgraft.InferenceSession(
        model("(float[n] x) => (float[n] y) { y = test.OutReturn(x) }")
    )
    x = floats(4)
    for value, expected in [
        (None, x),
        (lambda out: out, x),
        (lambda out: out + 1, x + 1),
        (lambda out: out[::-1], x[::-1]),
    ]:
        returned[0] = value
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    for value in (np.float64([1, 2, 3, 4]), floats(3), "text"):
        returned[0] = value
        with pytest.raises(opgraft.PyOpError, match="expected None, 'out', or a float32 array"):
            session.run(None, {"x": x})


def test_out_of_several_outputs_is_a_tuple() -> None:
    @opgraft.op("test::OutTuple", shape=lambda x: (x, (x[0] * 2,)))
    def operator(
        x: np.ndarray, *, out: tuple[Any, ...]
    ) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
        out[0][...] = -x
        out[1][...] = 7
        return None, out[1]

    given = model("(float[n] x) => (float[n] y, int64[m] z) { y, z = test.OutTuple(x) }")
    y, z = run(given, floats(2))
    assert list(y) == [0, -1] and list(z) == [7] * 4
    given.graph.node[0].output[0] = ""
    del given.graph.output[0]
    assert list(run(given, floats(2))[0]) == [7] * 4


def test_outputs_returned_in_another_order_than_out() -> None:
    @opgraft.op("test::Swapped", shape=lambda x: (x, x, x))
    def operator(x: np.ndarray, *, out: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        for index, array in enumerate(out):
            array[...] = x + index
        return out[2][::-1], out[0], out[1]

    given = model(
        "(float[n] x) => (float[n] a, float[n] b, float[n] c) { a, b, c = test.Swapped(x) }"
    )
    assert [list(one) for one in run(given, floats(2))] == [[3, 2], [0, 1], [1, 2]]


def test_a_size_that_the_rule_leaves_open() -> None:
    @opgraft.op("test::Unique", shape=lambda x: (None, 1))
    def operator(x: np.ndarray) -> np.ndarray:
        return np.unique(x)[:, None]

    given = model("(float[n] x) => (float y, int64[2] s) { y = test.Unique(x) s = Shape(y) }")
    given.graph.output[0].type.tensor_type.ClearField("shape")
    assert list(run(given, np.float32([1, 1, 2]))[1]) == [2, 1]
    shape = opgraft.InferenceSession(given).get_outputs()[0].shape
    assert VERSION < (1, 28) or (len(shape) == 2 and shape[1] == 1)

    @opgraft.op("test::UniqueOut", shape=lambda x: (None,))
    def with_out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return out

    given = model("(float[n] x) => (float[m] y) { y = test.UniqueOut(x) }")
    with pytest.raises(
        opgraft.PyOpError, match="its shape rule does not tell the shape of output 0"
    ):
        run(given, floats(1))


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: ({2: 4, 3: 8}.get(x[0], 1),),
        lambda x: (8 if x[0] in {3} else 1,),
        lambda x: (8 if isinstance(x[0], int) else 1,),
        lambda x: careful(x),
    ],
)
def test_a_rule_that_takes_a_symbol_for_something_else(rule: Any) -> None:
    @opgraft.op("test::Up", shape=rule)
    def operator(x: np.ndarray) -> np.ndarray:
        return np.zeros(8, np.float32)

    given = model("(float[n] x) => (int64[1] s) { y = test.Up(x) s = Shape(y) }")
    assert list(run(given, floats(3))[0]) == [8]


@pytest.mark.skipif(VERSION < (1, 28), reason="this runtime is not told shapes")
def test_a_run_keeps_to_the_shape_that_the_runtime_was_told() -> None:
    told = [True]

    @opgraft.op("test::Fickle", shape=lambda x: (1,) if told[0] else (2,))
    def operator(x: np.ndarray) -> np.ndarray:
        return np.zeros(2, np.float32)

    session = opgraft.InferenceSession(model("(float[n] x) => (float[m] y) { y = test.Fickle(x) }"))
    told[0] = False
    with pytest.raises(opgraft.PyOpError, match=r"expected an array of shape \(1\)"):
        session.run(None, {"x": floats(3)})


def careful(x: Any) -> Any:
    try:
        return (8 if x[0] > 2 else 1,)
    except Exception:
        return (1,)


@pytest.mark.parametrize(
    "misdeed",
    [
        "out.dtype = np.int32",
        "out.shape = (4,)",
        "out.__setstate__((1, (2, 2), np.dtype('f4'), False, bytes(16)))",
        "out.resize((4, 4), refcheck=False)",
        "out.setflags(write=False); out.strides = (4, 4)",
    ],
)
def test_out_that_is_changed_itself(misdeed: str) -> None:
    @opgraft.op("test::Changed", shape=lambda x: x)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        exec(misdeed, {"out": out, "np": np})
        return x + 1

    session = opgraft.InferenceSession(
        model("(float[n, m] x) => (float[n, m] y) { y = test.Changed(x) }")
    )
    with pytest.raises(
        opgraft.PyOpError, match="(changed 'out' of output 0 itself|raised ValueError)"
    ):
        session.run(None, {"x": floats(2, 2)})


def test_types_that_an_outer_graph_declares() -> None:
    given = model("""(bool c, float[n] x, int32[m] i) => (int32[m] d) {
        d = If (c) <then_branch = g () => (int32[m] t) { t, u = test.TwoTypes(x, i) },
                    else_branch = h () => (int32[m] e) { e = Identity(i) }> }""")
    assert list(run(given, True, floats(1), np.int32([7]))[0]) == [7]


@pytest.mark.parametrize("copy_inputs", [False, True])
def test_out_that_is_kept_is_refused(copy_inputs: bool) -> None:
    kept = []

    @opgraft.op("test::Keeper", shape=lambda x: x, copy_inputs=copy_inputs)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        kept.append(out[:1])
        return out

    session = opgraft.InferenceSession(model("(float[n] x) => (float[n] y) { y = test.Keeper(x) }"))
    with pytest.raises(opgraft.PyOpError, match="the operator kept an input or 'out', or a view"):
        session.run(None, {"x": floats(2)})
    kept.clear()
    with pytest.raises(opgraft.PyOpError, match="kept"):
        session.run(None, {"x": floats(2)})


def test_copied_inputs_may_be_kept() -> None:
    kept = []

    @opgraft.op("test::Copying", copy_inputs=True)
    def operator(x: np.ndarray) -> np.ndarray:
        kept.append(x)
        x += 1
        return x

    given = model("(float[n] x) => (float[n] y) { y = test.Copying(x) }")
    assert list(run(given, floats(2))[0]) == [1, 2] and list(kept[0]) == [1, 2]


@pytest.mark.skipif(VERSION < (1, 24), reason="this runtime has no Cast to all of these types")
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


# Hosts that are not this process.

MODULE = """
    import numpy.typing as npt
    import opgraft

    @opgraft.op("far::Scale", shape=lambda x, w: opgraft.broadcast_shapes(x, w))
    def scale(x: np.ndarray, w: np.ndarray | None = None, *, factor: float = 2.0) -> np.ndarray:
        return x * x.dtype.type(factor)
"""


def far_model() -> onnx.ModelProto:
    return model(
        "(float[n] x) => (float[n] y) { y = far.Scale <factor = 3.0> (x) }", more=', "far": 1'
    )


@pytest.fixture(params=["python", "cpp"])
def command(request: pytest.FixtureRequest) -> list[str]:
    return [sys.executable, "-m", "opgraft", "run", "--host", request.param]


@pytest.fixture
def far(write_module: Write, monkeypatch: pytest.MonkeyPatch, module_folder: Any) -> Iterator[str]:
    """The name of a module, not imported here, that declares far::Scale."""
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    name = write_module(MODULE)
    monkeypatch.chdir(module_folder)
    np.save("x.npy", floats(2))
    yield name


def call(command: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    arguments = [*command, "model.onnx", "--input", "x=x.npy", *more]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_another_process_finds_it_by_imports(far: str, command: list[str]) -> None:
    onnx.save(far_model(), "model.onnx")
    done = call(command, "--import", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command)
    assert done.returncode == 1 and "ModelError: ONNX Runtime refuses the model" in done.stderr
    assert "Nobody here knows the operator far::Scale" in done.stderr and "--import" in done.stderr
    done = call(command, "--import", "no_such_module")
    assert done.returncode == 1 and "no_such_module" in done.stderr


def in_a_process(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_process_finds_it_by_the_model(far: str, command: list[str]) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(
        f"import {far}, onnx; from opgraft import _onnx; m = onnx.load('original.onnx'); "
        "_onnx.record_modules(m); onnx.save(m, 'model.onnx')"
    )
    metadata = onnx.load("model.onnx").metadata_props
    assert [(m.key, m.value) for m in metadata] == [("opgraft.module.far::Scale", far)]
    done = call(command, "--allow", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command)
    assert done.returncode == 1
    assert (
        f"operator far::Scale is of the Python module '{far}', which this host has not"
        in done.stderr
    )


def test_a_prepared_model_names_the_module(far: str, command: list[str]) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(f"import {far}, opgraft; opgraft.prepare('original.onnx').save('model.onnx')")
    done = call(command, "--allow", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command)
    assert done.returncode == 1 and f"'{far}', which this host has not allowed" in done.stderr


def test_a_declaration_in_the_main_module_is_refused_elsewhere(
    far: str, command: list[str], module_folder: Any
) -> None:
    onnx.save(far_model(), "original.onnx")
    script = (module_folder / f"{far}.py").read_text()
    script += "opgraft.prepare('original.onnx').save('model.onnx')"
    (module_folder / "script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], check=True)
    done = call(command, "--allow", "__main__")
    assert done.returncode == 1
    assert "was declared in '__main__', the program that made the model" in done.stderr


def test_a_module_that_does_not_declare_it_any_more(
    far: str, command: list[str], module_folder: Any
) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(f"import {far}, opgraft; opgraft.prepare('original.onnx').save('model.onnx')")
    (module_folder / f"{far}.py").write_text("")
    done = call(command, "--allow", far)
    assert done.returncode == 1
    assert (
        f"the module '{far}' does not declare it (any more); expected @opgraft.op(\"far::Scale\")"
        in done.stderr
    )


def test_imports_of_a_session_and_of_register(far: str) -> None:
    session = opgraft.InferenceSession(far_model(), imports=[far])
    assert list(session.run(None, {"x": floats(2)})[0]) == [0, 3]
    options = onnxruntime.SessionOptions()
    opgraft.register(options, imports=[far])
    prepared = opgraft.prepare(far_model(), imports=far)
    assert [one.operator for one in prepared.report] == ["far::Scale"]
    plain = onnxruntime.InferenceSession(prepared.bytes, options)
    assert list(plain.run(None, {"x": floats(2)})[0]) == [0, 3]
    with pytest.raises(
        opgraft.PyOpError, match="the import of 'no_such_module' raised ModuleNotFound"
    ):
        opgraft.InferenceSession(far_model(), imports=["no_such_module"])
    with pytest.raises(TypeError, match="no keyword 'imprts'; did you mean 'imports'?"):
        opgraft.InferenceSession(far_model(), imprts=["no_such_module"])


def test_a_module_that_exits_while_it_is_imported(write_module: Write) -> None:
    module = write_module("import sys; sys.exit(4)")
    with pytest.raises(opgraft.PyOpError, match=f"the import of '{module}' raised SystemExit: 4"):
        opgraft.InferenceSession(far_model(), imports=[module])


def test_the_commands_take_imports(far: str) -> None:
    onnx.save(far_model(), "model.onnx")
    command = [sys.executable, "-m", "opgraft", "prepare", "model.onnx", "prepared.onnx"]
    done = subprocess.run([*command, "--import", far], capture_output=True, text=True, check=True)
    assert "node 'Scale_y' runs far::Scale" in done.stdout and not done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nobody here knows far::Scale" in done.stderr and "--import MODULE" in done.stderr
    subprocess.run([*command, "--import", far], capture_output=True, check=True)
    runner = [_library.runner_path(), "--onnxruntime", _library.runtime_library()]
    done = subprocess.run(
        [*runner, "--import", far, "--input", "x=x.npy", "model.onnx"],
        capture_output=True, text=True, check=False,
        env={"OPGRAFT_PYTHON": sys.executable, "PYTHONPATH": "."},
    )  # fmt: skip
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr


def test_out_is_not_for_strings() -> None:
    @opgraft.op("test::OutText", shape=lambda x: x)
    def operator(x: npt.NDArray[np.str_], *, out: np.ndarray) -> npt.NDArray[np.str_]:
        return out

    given = model("(string[n] x) => (string[n] y) { y = test.OutText(x) }")
    with pytest.raises(opgraft.PyOpError, match="an output is string, which cannot be written in"):
        opgraft.InferenceSession(given)


def test_a_rule_with_a_size_beyond_all_bounds() -> None:
    @opgraft.op("test::Huge", shape=lambda x: (x[0] * 2**70,))
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return out

    given = model("(float[n] x) => (float[m] y) { y = test.Huge(x) }")
    with pytest.raises(opgraft.PyOpError, match="must return a shape such as"):
        run(given, floats(1))


def test_overlapping_runs_of_other_shapes() -> None:
    """Each has the shapes of its own, also where the rule lets other threads run."""

    def rule(x: Any) -> Any:
        time.sleep(0.001)
        return x

    @opgraft.op("test::Overlap", shape=rule)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return np.negative(x, out=out)

    session = opgraft.InferenceSession(
        model("(float[n] x) => (float[n] y) { y = test.Overlap(x) }")
    )
    with ThreadPoolExecutor(6) as pool:
        for x, y in pool.map(
            lambda size: (floats(size), session.run(None, {"x": floats(size)})[0]), [1, 2, 3] * 30
        ):
            np.testing.assert_array_equal(y, -x)
