"""What an operator may return or leave out, and how it gets its attributes."""

from __future__ import annotations

import re
import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opgraft
from conftest import DTYPES, FLOAT, Write, floats, pyop_model, takes_nibbles

BIG = 2**63


def returned(write: Write, expression: str, dtype: str, **given: Any) -> Any:
    """Returns the output of a session whose operator returns this expression."""
    module = write(
        f"""
        import ml_dtypes
        class Op:
            def compute(self):
                return {expression}
        """
    )
    number = helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    model = pyop_model(module, inputs=(), type=number, **given)
    return opgraft.InferenceSession(model, allow=[module]).run(None, {})


@pytest.mark.parametrize(
    ("dtype", "expression", "expected"),
    [
        ("float32", "1.5", 1.5),
        ("float64", "0.1", 0.1),
        ("float32", "0.1", np.float32(0.1)),
        ("float16", "-2.0", -2),
        ("float32", "3", 3),
        ("float32", "[1, 2.5]", [1, 2.5]),
        ("float32", "[[1.0, 2.0], [3.0, 4.0]]", [[1, 2], [3, 4]]),
        ("float32", "[(1.0,), (2.0,)]", [[1], [2]]),
        ("float32", "[]", []),
        ("float32", "[[], []]", [[], []]),
        ("float32", "[float('inf'), float('nan')]", [np.inf, np.nan]),
        ("float32", "[np.float32(1.5)]", [1.5]),
        ("int64", "-7", -7),
        ("int64", f"[{BIG - 1}, {-BIG}]", [BIG - 1, -BIG]),
        ("uint64", f"{2 * BIG - 1}", 2 * BIG - 1),
        ("uint8", "[0, 255]", [0, 255]),
        ("int8", "[np.int8(-5), 3]", [-5, 3]),
        ("bool", "True", True),
        ("bool", "[True, np.bool_(False)]", [True, False]),
        ("float32", "np.float32(2.5)", 2.5),
        ("int32", "np.array([1, 2, 3], np.int32)[::-1]", [3, 2, 1]),
        ("float32", "np.arange(6, dtype=np.float32).reshape(2, 3).T", [[0, 3], [1, 4], [2, 5]]),
        ("float32", "np.asfortranarray([[1, 2], [3, 4]], np.float32)", [[1, 2], [3, 4]]),
        ("float32", "np.broadcast_to(np.float32(2), (2, 2))", [[2, 2], [2, 2]]),
        ("float32", "np.frombuffer(bytes(8), np.float32)", [0, 0]),
        ("float32", "np.array([1, 2], '>f4')", [1, 2]),
        ("int64", "np.array([1, 2], '>i8')[::-1]", [2, 1]),
        ("float16", "np.array(1, '>f2')", 1),
        (
            "float32",
            "np.frombuffer(b'x' + np.float32([1, 2]).tobytes(), 'u1')[1:].view('f4')",
            [1, 2],
        ),
        ("float32", "np.ones((1, 2), np.float32).view(np.recarray)", [[1, 1]]),
    ],
)
def test_values_that_are_taken(
    write_module: Write, dtype: str, expression: str, expected: object
) -> None:
    (result,) = returned(write_module, expression, dtype)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.array(expected, dtype))
    assert result.shape == np.shape(expected)


@pytest.mark.parametrize(
    ("dtype", "expression", "message"),
    [
        ("int64", "1.5", r"returned a float: it holds 1\.5 \(float\), expected integers"),
        ("int64", "[1.0, 2.0]", r"returned a list of length 2: it holds 1\.0 \(float\)"),
        ("int64", "True", r"returned a bool: it holds True \(bool\), expected integers"),
        ("float32", "True", "it holds True"),
        ("bool", "1", r"it holds 1 \(int\), expected bool"),
        ("uint8", "[0, 256]", r"256 \(int\) does not fit uint8"),
        ("uint8", "-1", r"-1 \(int\) does not fit uint8"),
        ("int64", str(BIG), rf"{BIG} \(int\) does not fit int64"),
        ("int64", "10**5000", "a value of type int does not fit int64"),
        ("float32", "1e300", r"1e\+300 \(float\) does not fit float32"),
        ("float16", "[1, 70000]", r"70000 \(int\) does not fit float16"),
        ("float64", "10**400", r"1000.* \(int\) does not fit float64"),
        ("float32", "'1.0'", r"it holds '1\.0' \(str\), expected floats"),
        ("float32", "['a']", r"it holds 'a' \(str\), expected floats"),
        ("float32", "[None]", r"it holds None \(NoneType\)"),
        ("float32", "[1j]", r"it holds 1j \(complex\)"),
        ("float32", "1j", "returned a complex"),
        ("float32", "[[1.0], [1.0, 2.0]]", "its parts are of different lengths"),
        ("float32", "[1.0, [2.0]]", "its parts are of different lengths"),
        ("float32", "[[1.0], 2.0]", "its parts are of different lengths"),
        ("float32", "(lambda l: l.append(l) or l.append(l) or l)([])", "more than 32 levels deep"),
        ("float32", "[np.float64(1.5)]", r"it holds (np.float64\()?1\.5\)? \(float64\)"),
        ("int64", "[np.int32(1)]", r"\(int32\), expected integers"),
        ("float32", "np.float64(1.5)", "returned a numpy.float64"),
        ("float32", "[np.zeros(2, np.float32)]", "return the array itself, not in a list"),
        ("int32", "np.array([1, 2])", "returned an int64 array.*astype\\(numpy.int32\\)"),
        ("float32", "np.array([1, 2], '>f8')", "returned a >f8 array"),
    ],
)
def test_values_that_are_refused(
    write_module: Write, dtype: str, expression: str, message: str
) -> None:
    with pytest.raises(opgraft.PyOpError, match=f"node 'node', .*output 0: expected .*{message}"):
        returned(write_module, expression, dtype)


@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [
        ("bfloat16", "1.5", 1.5),
        ("bfloat16", "[1, 2.5]", [1, 2.5]),
        ("bfloat16", "ml_dtypes.bfloat16(3)", 3),
        ("bfloat16", "np.array([1, 2], ml_dtypes.bfloat16)[::-1]", [2, 1]),
        ("bfloat16", "BIG_ENDIAN", [1, 2]),
        ("float8_e5m2", "[0.5, float('inf')]", [0.5, np.inf]),
        pytest.param(*("int4", "[7, -8]", [7, -8]), marks=takes_nibbles),
        pytest.param(*("int4", "ml_dtypes.int4(-3)", -3), marks=takes_nibbles),
        pytest.param(
            *("int4", "np.array([[1, 2], [3, 4]], 'int4').T", [[1, 3], [2, 4]]),
            marks=takes_nibbles,
        ),
    ],
)
def test_values_of_ml_dtypes_that_are_taken(
    write_module: Write, kind: str, expression: str, expected: object
) -> None:
    big = "(lambda a: a.byteswap().view(a.dtype.newbyteorder('>')))(np.array([1, 2], 'bfloat16'))"
    (result,) = returned(write_module, expression.replace("BIG_ENDIAN", big), kind)
    assert result.dtype == getattr(ml_dtypes, kind)
    np.testing.assert_array_equal(result.astype(np.float64), expected)


@pytest.mark.parametrize(
    ("kind", "expression", "message"),
    [
        pytest.param(*("int4", "8", r"8 \(int\) does not fit int4"), marks=takes_nibbles),
        pytest.param(*("int4", "[1.0]", "expected integers"), marks=takes_nibbles),
        ("float8_e4m3fn", "1e6", r"1000000\.0 \(float\) does not fit float8_e4m3fn"),
        ("float8_e4m3fn", "float('inf')", r"inf \(float\) does not fit float8_e4m3fn"),
        ("bfloat16", "np.float32([1])", r"returned a float32 .*astype\(ml_dtypes\.bfloat16\)"),
        ("bfloat16", "np.float16([1])", "returned a float16"),
        pytest.param(*("int4", "np.int8([1])", "returned an int8"), marks=takes_nibbles),
        ("float8_e5m2", "np.array([1], ml_dtypes.float8_e4m3fn)", "returned a float8_e4m3fn"),
    ],
)
def test_values_of_ml_dtypes_that_are_refused(
    write_module: Write, kind: str, expression: str, message: str
) -> None:
    with pytest.raises(opgraft.PyOpError, match=message):
        returned(write_module, expression, kind)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1.0, 2.0]", (1, 2)),
        ("(1.0, [2.0, 3.0])", (1, [2, 3])),
        ("[[1.0], [2.0]]", ([1], [2])),
        ("(np.float32(1), (2.0,))", (1, [2])),
    ],
)
def test_a_list_is_the_list_of_outputs_where_there_are_several(
    write_module: Write, expression: str, expected: tuple[object, object]
) -> None:
    results = returned(write_module, expression, "float32", outputs=("a", "b"))
    for result, value in zip(results, expected, strict=True):
        assert result.tolist() == value


@pytest.mark.parametrize("outputs", [("a", ""), ("", "a"), ("a", "", "")])
def test_nothing_need_be_returned_for_an_output_that_nobody_wants(
    write_module: Write, outputs: tuple[str, ...]
) -> None:
    values = ["1.0" if name else "None" for name in outputs]
    (result,) = returned(write_module, f"({', '.join(values)})", "float32", outputs=outputs)
    assert result == 1
    wrong = ["None" if name else "1.0" for name in outputs]
    with pytest.raises(opgraft.PyOpError, match=r"expected .*, but compute returned None\. Fix"):
        returned(write_module, f"({', '.join(wrong)})", "float32", outputs=outputs)


@pytest.mark.parametrize("value", ["None", "()", "[]"])
def test_no_outputs(write_module: Write, value: str) -> None:
    """Such a node is run for its side effects; the graph still needs an output."""
    module = write_module(
        f"""
        class Op:
            calls = 0
            def compute(self, x):
                Op.calls += 1
                return {value}
        """
    )
    model = pyop_model(module, outputs=())
    model.graph.node.append(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, None))
    model.opset_import[0].version = 21
    session = opgraft.InferenceSession(model, allow=[module])
    session.run(None, {"x": floats(1)})
    assert sys.modules[module].Op.calls == 1


def test_nodes_without_outputs_and_names(write_module: Write) -> None:
    """ONNX Runtime refuses two nodes of the same name, so each gets its own."""
    module = write_module(
        """
        import opgraft
        calls = []
        class Op:
            def compute(self, x):
                calls.append("class")

        @opgraft.op("test.values.nameless::note")
        def note(x: np.ndarray) -> None:
            calls.append("declared")
        """
    )
    model = pyop_model(module, outputs=())
    model.graph.node[0].ClearField("name")
    declared = helper.make_node("note", ["x"], [], domain="test.values.nameless")
    model.graph.node.extend([model.graph.node[0], declared, declared])
    branch = helper.make_graph(
        [*model.graph.node, helper.make_node("Identity", ["x"], ["z"])],
        "branch", [], [helper.make_tensor_value_info("z", FLOAT, None)],
    )  # fmt: skip
    condition = helper.make_tensor("condition", TensorProto.BOOL, [], [True])
    model.graph.initializer.append(condition)
    model.graph.node.append(
        helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    )
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, None))
    model.opset_import[0].version = 21
    model.opset_import.append(helper.make_opsetid("test.values.nameless", 1))
    session = opgraft.InferenceSession(model, allow=[module], imports=[module])
    session.run(None, {"x": floats(1)})
    assert sorted(sys.modules[module].calls) == ["class"] * 4 + ["declared"] * 4
    names = [operator.node for operator in opgraft.prepare(model).report]
    assert len(names) == 12 and len(set(names)) == 12


def test_something_returned_where_there_is_no_output(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x")
    model = pyop_model(module, outputs=())
    model.graph.node.append(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, None))
    model.opset_import[0].version = 21
    session = opgraft.InferenceSession(model, allow=[module])
    with pytest.raises(opgraft.PyOpError, match="a tuple of 0 arrays.*returned a float32 array"):
        session.run(None, {"x": floats(1)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_empty_tensors_of_each_type(
    write_module: Write, dtype: str, shape: tuple[int, ...]
) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x.copy()")
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session = opgraft.InferenceSession(pyop_model(module, type=number), allow=[module])
    x = np.ones(shape, dtype)
    (result,) = session.run(None, {"x": x})
    assert (result.dtype, result.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(result, x)


def attribute(write: Write, value: Any) -> Any:
    """Returns what __init__ gets for an attribute with this value."""
    module = write(
        """
        class Op:
            def __init__(self, value):
                Op.seen = value
            def compute(self):
                return np.uint8(0)
        """
    )
    model = pyop_model(module, inputs=(), type=TensorProto.UINT8)
    given = value if isinstance(value, onnx.AttributeProto) else helper.make_attribute("v", value)
    given.name = "value"
    model.graph.node[0].attribute.append(given)
    opgraft.InferenceSession(model, allow=[module])
    return sys.modules[module].Op.seen


RAW = [*DTYPES, "complex64", "complex128"]
RAW += "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()
RAW += "int4 uint4 float4_e2m1fn int2 uint2 float6_e2m3fn float6_e3m2fn".split()


def example(name: str) -> np.ndarray:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if not hasattr(ml_dtypes, name) and name not in RAW[:14]:
        pytest.skip("this ml_dtypes has no such type")
    return np.array([1, 0, 1, 1, 0], np.int8).astype(dtype)


@pytest.mark.parametrize("name", RAW)
def test_tensors_as_attributes(write_module: Write, name: str) -> None:
    """As raw bytes and in a field of their type; as one tensor and as a list."""
    expected = example(name)
    raw = numpy_helper.from_array(expected, "t")
    assert raw.raw_data
    typed = helper.make_tensor("t", raw.data_type, [5], expected)
    assert not typed.raw_data
    for tensor in (raw, typed):
        seen = attribute(write_module, tensor)
        assert seen.dtype == expected.dtype
        assert seen.tobytes() == expected.tobytes()
    seen = attribute(write_module, [raw, typed])
    assert [array.tobytes() for array in seen] == [expected.tobytes()] * 2


def test_negative_integers_in_the_fields_of_a_tensor(write_module: Write) -> None:
    for name in ("int8", "int16", "int32", "int64"):
        expected = np.array([[-1, 5], [np.iinfo(name).min, np.iinfo(name).max]], name)
        number = helper.np_dtype_to_tensor_dtype(expected.dtype)
        seen = attribute(write_module, helper.make_tensor("t", number, [2, 2], expected.ravel()))
        np.testing.assert_array_equal(seen, expected)


def test_strings_in_a_tensor(write_module: Write) -> None:
    strings = ["Grüße".encode(), b"\xff"]
    tensor = TensorProto(data_type=TensorProto.STRING, dims=[2, 1], string_data=strings)
    seen = attribute(write_module, tensor)
    assert seen.dtype == object
    assert seen.tolist() == [["Grüße"], ["\udcff"]]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_scalars_and_empty_tensors_as_attributes(
    write_module: Write, shape: tuple[int, ...]
) -> None:
    seen = attribute(write_module, numpy_helper.from_array(np.ones(shape, np.float32)))
    assert (seen.shape, seen.dtype) == (shape, np.float32)


@pytest.mark.parametrize("number", [0.1, 1 / 3, 1e-45, 3.4028234e38, float("inf")])
def test_floats_have_the_value_that_the_model_holds(write_module: Write, number: float) -> None:
    """A FLOAT has 32 bits; a number of 64 bits needs a tensor."""
    assert attribute(write_module, number) == float(np.float32(number))
    assert attribute(write_module, [number, number]) == [float(np.float32(number))] * 2
    seen = attribute(write_module, numpy_helper.from_array(np.array(number)))
    assert seen.dtype == np.float64
    assert seen == number


def test_parts_of_a_model_as_attributes(write_module: Write) -> None:
    graph = pyop_model("other").graph
    kind = graph.input[0].type
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", FLOAT, [1], [1.0]),
        helper.make_tensor("i", TensorProto.INT64, [1], [2]),
        [3],
    )
    for value in (graph, kind, sparse):
        assert attribute(write_module, value) == value
        assert attribute(write_module, [value, value]) == [value, value]


def test_parts_of_a_model_without_onnx(
    write_module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(opgraft.UnavailableError, match="'value', of ONNX's kind GRAPH.* install o"):
        attribute(write_module, pyop_model("other").graph)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data_type": 1, "dims": [2], "raw_data": b"1234"}, "it holds 4 bytes .* expected 8 for"),
        ({"data_type": 1, "dims": [2], "float_data": [1, 2, 3]}, "it holds 12 bytes"),
        ({"data_type": 1, "dims": [-1]}, "its shape .* is invalid"),
        ({"data_type": 1, "dims": [2**62, 2**62]}, "its shape .* too large"),
        ({"data_type": 1, "dims": [2**60]}, "its shape .* too large|it holds 0 bytes"),
        ({"data_type": 22, "dims": [3], "raw_data": b"1"}, "it holds 1 bytes .*expected 2"),
        ({"data_type": 8, "dims": [2], "string_data": [b"1"]}, "it holds 1 strings, expected 2"),
        ({"data_type": 0, "dims": [0]}, "which is not an ONNX type"),
        ({"data_type": 99, "dims": [0]}, "type number 99, which is not an ONNX type"),
        (
            {"data_type": 1, "dims": [1], "data_location": 1},
            "its elements are stored outside the model",
        ),
    ],
)
def test_broken_tensors(write_module: Write, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(
        opgraft.ModelError, match=f"node 'node'.*'value', of ONNX's kind TENSOR: .*{message}"
    ):
        attribute(write_module, TensorProto(**fields))


def test_a_tensor_of_more_dimensions_than_numpy_has(write_module: Write) -> None:
    with pytest.raises(opgraft.Error, match="node 'node'"):
        attribute(write_module, TensorProto(data_type=1, dims=[1] * 99, raw_data=b"1234"))


@pytest.mark.parametrize("number", [0, 15, 77])
def test_an_attribute_of_no_kind(write_module: Write, number: int) -> None:
    serialized = helper.make_attribute("v", 1).SerializeToString()
    broken = onnx.AttributeProto.FromString(re.sub(rb"\xa0\x01\x02", b"", serialized))
    if number:
        broken = onnx.AttributeProto.FromString(
            broken.SerializeToString() + b"\xa0\x01" + bytes([number])
        )
    with pytest.raises(opgraft.ModelError, match="'value', of ONNX's kind .*: ONNX has no such"):
        attribute(write_module, broken)
