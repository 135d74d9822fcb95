"""Every element type that ONNX Runtime supports, through Python operators and sessions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import FLOAT, Write, floats, pyop_model, takes_float4, takes_nibbles

VIEWED = "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz".split()
PACKED = "int4 uint4 float4_e2m1fn".split()
TYPES = VIEWED + [pytest.param(name, marks=takes_nibbles) for name in PACKED[:2]]
TYPES += [pytest.param("float4_e2m1fn", marks=takes_float4)]
IDENTITY = "class Op:\n    def compute(self, x): return x.copy()"
NUMBERS = {
    "bfloat16": TensorProto.BFLOAT16,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
}


def every_value(name: str) -> np.ndarray:
    """Returns all values of a type of up to 8 bits, or some of bfloat16; an odd number of them."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    if name in PACKED:
        return np.array([*range(16), 3], np.uint8).view(dtype)
    integers = np.arange(0, 65536, 13, dtype=np.uint16) if name == "bfloat16" else np.arange(256)
    return integers.astype(np.uint16 if name == "bfloat16" else np.uint8)[:-1].view(dtype)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Compares bit by bit, so that NaN equals NaN."""
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


@pytest.mark.parametrize("name", TYPES)
def test_between_two_operators(write_module: Write, name: str) -> None:
    """One makes the values, the other reads them; the session itself only sees bytes."""
    module = write_module(
        f"""
        import ml_dtypes
        class Make:
            def compute(self, x):
                return x.view(ml_dtypes.{name})
        class Read:
            def compute(self, x):
                assert x.dtype == ml_dtypes.{name}, x.dtype
                Read.is_view = not x.flags.writeable
                return x[::-1].copy().view(np.uint16 if x.itemsize == 2 else np.uint8)
        """
    )
    values = every_value(name)
    raw = values.view(np.uint16 if values.itemsize == 2 else np.uint8)
    number = helper.np_dtype_to_tensor_dtype(raw.dtype)
    make = pyop_model(module, "Make", outputs=("m",), output_types=[NUMBERS[name]], type=number)
    read = pyop_model(module, "Read", inputs=("m",), input_types=[NUMBERS[name]], type=number)
    make.graph.node[0].name = "first"
    make.graph.node.append(read.graph.node[0])
    make.graph.output[0].CopyFrom(read.graph.output[0])
    session = opgraft.InferenceSession(make, allow=[module])
    for part in (raw, raw[:2], raw[:1], raw[:0]):
        np.testing.assert_array_equal(session.run(None, {"x": part})[0], part[::-1])
    assert sys.modules[module].Read.is_view is (name in VIEWED)


@takes_nibbles
def test_a_nibble_lies_where_the_runtime_expects_it(write_module: Write) -> None:
    """Checked with the runtime's own kernels: Cast reads what the operator made."""
    module = write_module(
        """
        import ml_dtypes
        class Op:
            def compute(self):
                return np.array([1, -2, 7], ml_dtypes.int4)
        """
    )
    model = pyop_model(module, inputs=(), outputs=("m",), type=TensorProto.INT4)
    scale = helper.make_tensor("scale", FLOAT, [], [1.0])
    model.graph.initializer.append(scale)
    model.graph.node.append(helper.make_node("DequantizeLinear", ["m", "scale"], ["y"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [3]))
    model.opset_import[0].version = 21
    model.ir_version = 10
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {})
    np.testing.assert_array_equal(result, [1, -2, 7])


def test_nibbles_where_the_runtime_has_none(write_module: Write) -> None:
    model = pyop_model(write_module(IDENTITY), type=TensorProto.INT4)
    with pytest.raises(
        opgraft.ModelError, match="node 'node'.*of int4, which .* 1.20.1 cannot have.*int4 .*1.21"
    ):
        opgraft.prepare(model, runtime="1.20.1")
    opgraft.prepare(model, runtime="1.21.0")


def test_copies_of_packed_and_text_inputs_may_be_kept(write_module: Write) -> None:
    module = write_module(
        """
        class Op:
            kept = []
            def compute(self, x):
                x[0] = x[1]
                self.kept.append(x)
                return x
        """
    )
    session = opgraft.InferenceSession(pyop_model(module, type=TensorProto.STRING), allow=[module])
    for _ in range(2):
        assert session.run(None, {"x": np.array(["a", "b"])})[0].tolist() == ["b", "b"]


TEXTS = ["", "a", "Grüße", "\0", "a\0b", "\U0001f600", "x" * 10_000]


@pytest.mark.parametrize("shape", [(7,), (7, 1), (0,), (0, 3), ()])
def test_strings(write_module: Write, shape: tuple[int, ...]) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, x):
                assert x.dtype == object
                assert all(type(element) is str for element in x.flat)
                return x[::-1] if x.ndim else x
        """
    )
    session = opgraft.InferenceSession(pyop_model(module, type=TensorProto.STRING), allow=[module])
    size = int(np.prod(shape))
    x = np.array(TEXTS[:size], object).reshape(shape)
    (result,) = session.run(None, {"x": x})
    assert result.shape == shape
    assert result.tolist() == (x[::-1] if shape else x).tolist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("np.array(['a', 'bc'])", ["a", "bc"]),
        ("np.array(['a', 'bc'])[::-1]", ["bc", "a"]),
        ("np.array(['a', 'bc']).astype('>U2')", ["a", "bc"]),
        ("np.array(['a', 'bc'], object)[::-1]", ["bc", "a"]),
        ("np.array(['a', 'b' * 99], StringDType()) if StringDType else ['a', 'b' * 99]", None),
        ("['a', 'bc']", ["a", "bc"]),
        ("[['a'], ['bc']]", [["a"], ["bc"]]),
        ("'text'", "text"),
        ("np.str_('text')", "text"),
        ("[np.str_('a')]", ["a"]),
        ("[]", []),
    ],
)
def test_strings_that_are_returned(write_module: Write, expression: str, expected: object) -> None:
    module = write_module(
        f"""
        StringDType = getattr(getattr(np, "dtypes", None), "StringDType", None)
        class Op:
            def compute(self):
                return {expression}
        """
    )
    model = pyop_model(module, inputs=(), type=TensorProto.STRING)
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {})
    assert result.tolist() == (["a", "b" * 99] if expected is None else expected)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.array(['a', 3], object)", "element 1 of 2 is an int, not a str"),
        ("np.array(['a', None], object)", "element 1 of 2 is None, not a str"),
        ("np.array([b'a'])", r"expected an array of str, but compute returned a \|S1 array"),
        ("np.array([1.0])", "expected an array of str, .*float64 array"),
        ("np.array(['\\ud800'], object)", "element 0 of 1 has a lone surrogate"),
        ("['a', 3]", r"returned a list of length 2: it holds 3 \(int\), expected str"),
        ("b'a'", "expected an array of str, but compute returned a bytes"),
        ("3", r"it holds 3 \(int\), expected str"),
        ("None", "returned None"),
    ],
)
def test_strings_that_are_refused(write_module: Write, expression: str, message: str) -> None:
    module = write_module(f"class Op:\n    def compute(self): return {expression}")
    model = pyop_model(module, inputs=(), type=TensorProto.STRING)
    session = opgraft.InferenceSession(model, allow=[module])
    with pytest.raises(opgraft.PyOpError, match=f"node 'node'.*output 0: .*{message}"):
        session.run(None, {})


def test_bytes_that_are_no_text_pass_through_unharmed(write_module: Write) -> None:
    """They reach an operator as lone surrogates, which become the same bytes again in outputs."""
    module = write_module(
        r"""
        class First:
            def compute(self):
                return ["\udcff\udc00"[:1], "a\udc80"]
        class Second:
            def compute(self, x):
                raw = [element.encode("utf-8", "surrogateescape") for element in x]
                return np.frombuffer(b" ".join(raw), np.uint8)
        """
    )
    model = pyop_model(module, "First", inputs=(), outputs=("s",), type=TensorProto.STRING)
    second = pyop_model(module, "Second", inputs=("s",), type=TensorProto.UINT8, input_types=[8])
    model.graph.node.append(second.graph.node[0])
    model.graph.node[0].name = "first"
    model.graph.output[0].CopyFrom(second.graph.output[0])
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {})
    assert result.tobytes() == b"\xff a\x80"


@pytest.mark.parametrize(
    "number",
    [
        TensorProto.COMPLEX64,
        TensorProto.COMPLEX128,
        *range(24, 29),  # newer than the oldest supported onnx
    ],
)
def test_types_that_the_runtime_lacks_are_refused_by_name(write_module: Write, number: int) -> None:
    module = write_module("class Op:\n    def compute(self): return 1")
    model = pyop_model(module, inputs=())
    del model.graph.node[0].attribute[:]
    attributes = {"module": module, "class_name": "Op", "output_types": [number]}
    for name, value in attributes.items():
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    with pytest.raises(
        opgraft.ModelError, match="node 'node'.*asks for (complex|float|u?int2).*, but ONNX Ru"
    ):
        opgraft.prepare(model)


WITHOUT = """
    import sys
    sys.modules["ml_dtypes"] = None  # as if it were not installed
    sys.path[:0] = [{tests!r}, {modules!r}]
    import numpy as np, onnxruntime
    import opgraft
    {body}
"""


def run_without_ml_dtypes(module_folder: Path, body: str) -> str:
    program = textwrap.dedent(WITHOUT).format(
        tests=str(Path(__file__).parents[1]), modules=str(module_folder), body=body
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_without_ml_dtypes(write_module: Write, module_folder: Path, tmp_path: Path) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x")
    plain, half = tmp_path / "plain.onnx", tmp_path / "half.onnx"
    cast, native = tmp_path / "cast.onnx", tmp_path / "native.onnx"
    onnx.save(pyop_model(module), plain)
    onnx.save(pyop_model(module, type=TensorProto.BFLOAT16), half)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, native)
    read = pyop_model(module, inputs=("y",), outputs=("z",), input_types=None)
    model.graph.node.append(read.graph.node[0])
    model.graph.output[0].CopyFrom(read.graph.output[0])
    onnx.save(model, cast)
    output = run_without_ml_dtypes(
        module_folder,
        f"""
session = opgraft.InferenceSession({str(plain)!r}, allow=[{module!r}])
print(session.run(None, {{"x": np.float32([1, 2])}}))
try:
    opgraft.InferenceSession({str(half)!r}, allow=[{module!r}])
except opgraft.UnavailableError as error:
    print(error)
session = opgraft.InferenceSession({str(cast)!r}, allow=[{module!r}])
try:
    session.run(["z"], {{"x": np.float32([1, 2])}})
except opgraft.UnavailableError as error:
    print(error)
session = opgraft.InferenceSession({str(native)!r})
try:
    session.run(None, {{"x": np.float32([1, 2])}})
except opgraft.UnavailableError as error:
    print(error)
""",
    )
    assert "[1., 2.]" in output
    assert "node 'node'" in output
    assert "arrays of bfloat16 need the Python package ml_dtypes, which is not installed" in output
    assert "operator " + module + ".Op: input 0: arrays of bfloat16 need" in output
    assert output.count("pip install --upgrade ml_dtypes") == 3


def test_ml_dtypes_is_imported_only_where_it_is_needed(
    write_module: Write, module_folder: Path, tmp_path: Path
) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x + 1")
    onnx.save(pyop_model(module), tmp_path / "model.onnx")
    program = f"""
import sys
sys.path.insert(0, {str(module_folder)!r})
import numpy as np, opgraft
session = opgraft.InferenceSession({str(tmp_path / "model.onnx")!r}, allow=[{module!r}])
session.run(None, {{"x": np.float32([1, 2])}})
print("ml_dtypes" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("name", TYPES)
def test_through_a_session(write_module: Write, name: str) -> None:
    module = write_module(IDENTITY)
    session = opgraft.InferenceSession(pyop_model(module, type=NUMBERS[name]), allow=[module])
    x = every_value(name)
    even = x[:-1].reshape(2, -1)
    for array in (x, x[::-1], x[::2], even.T, x[:1], x[:0], x[0].reshape(()), even.reshape(-1, 2)):
        for outputs in (None, ["y"]):
            (result,) = session.run(outputs, {"x": array})
            assert same(result, array), array
    assert same(session.run(None, {"x": x[3]})[0], x[3].reshape(()))
    results = [session.run(None, {"x": np.full(9, value, x.dtype)})[0] for value in x[:4]]
    for value, result in zip(x[:4], results, strict=True):  # each has its own memory
        assert same(result, np.full(9, value, x.dtype))


def test_big_endian_inputs(write_module: Write) -> None:
    """Plain ONNX Runtime ignores the byte order."""
    module = write_module(IDENTITY)
    for dtype in (">f4", ">i8", ">u2", ">f2"):
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype).newbyteorder("="))
        session = opgraft.InferenceSession(pyop_model(module, type=number), allow=[module])
        (result,) = session.run(None, {"x": np.array([1, 2, 300], dtype)})
        assert result.tolist() == [1, 2, 300]
    session = opgraft.InferenceSession(
        pyop_model(module, type=TensorProto.BFLOAT16), allow=[module]
    )
    x = np.array([1, 2, 300], ml_dtypes.bfloat16)
    big = x.byteswap().view(x.dtype.newbyteorder(">"))
    assert same(session.run(None, {"x": big})[0], x)


@pytest.mark.parametrize("dtype", ["object", "U", ">U3", "T"])
def test_strings_through_a_session(write_module: Write, dtype: str) -> None:
    if dtype == "T" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 1 has no StringDType")
    module = write_module(IDENTITY)
    session = opgraft.InferenceSession(pyop_model(module, type=TensorProto.STRING), allow=[module])
    x = np.array([["a", "Grü"], ["", "b"]], dtype)
    (result,) = session.run(None, {"x": x})
    assert result.tolist() == x.tolist()


def mixed_model(module: str) -> onnx.ModelProto:
    """Returns a model with inputs and outputs of floats, strings and bfloat16."""
    types = {"f": FLOAT, "s": TensorProto.STRING, "b": TensorProto.BFLOAT16}
    model = pyop_model(
        module,
        inputs=tuple(types),
        outputs=tuple(name + "2" for name in types),
        input_types=list(types.values()),
        output_types=list(types.values()),
    )
    for values in (model.graph.input, model.graph.output):
        for value, number in zip(values, types.values(), strict=True):
            value.type.tensor_type.elem_type = number
    return model


def test_a_session_with_some_of_each(write_module: Write) -> None:
    module = write_module(
        "class Op:\n    def compute(self, f, s, b): return f + 1, s[::-1], b[::-1]"
    )
    session = opgraft.InferenceSession(mixed_model(module), allow=[module])
    feed = {
        "f": np.array([1, 2], ">f4"),
        "s": np.array(["a", "Grüße"]),
        "b": np.array([1, 2], ml_dtypes.bfloat16),
    }
    for names in (["f2", "s2", "b2"], ["b2", "f2"], ["s2"], None):
        results = dict(zip(names or ["f2", "s2", "b2"], session.run(names, feed), strict=True))
        if "f2" in results:
            assert results["f2"].tolist() == [2, 3]
        if "s2" in results:
            assert results["s2"].tolist() == ["Grüße", "a"]
        if "b2" in results:
            assert same(results["b2"], feed["b"][::-1].copy())
    assert feed["f"].dtype == ">f4"  # the caller's dictionary is unchanged


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (np.float32([1]), "float32"),
        (np.uint16([1]), "uint16"),
        (np.array([1], ml_dtypes.float8_e5m2), "float8_e5m2"),
        ([1.0], "list"),
    ],
)
def test_an_input_of_another_type(write_module: Write, value: object, given: str) -> None:
    module = write_module(IDENTITY)
    session = opgraft.InferenceSession(
        pyop_model(module, type=TensorProto.BFLOAT16), allow=[module]
    )
    with pytest.raises(
        opgraft.Error, match=rf"input 'x': expected .* ml_dtypes\.bfloat16, not of {given}\. Fix"
    ):
        session.run(None, {"x": value})


def test_an_input_that_is_missing_or_unknown(write_module: Write) -> None:
    module = write_module(IDENTITY)
    model = pyop_model(module, type=TensorProto.BFLOAT16)
    session = opgraft.InferenceSession(model, allow=[module])
    x = np.array([1], ml_dtypes.bfloat16)
    with pytest.raises(Exception, match="(?i)missing|required"):
        session.run(None, {})
    with pytest.raises(Exception, match="(?i)invalid"):
        session.run(None, {"x": x, "z": floats(1)})
    with pytest.raises(Exception, match="(?i)invalid output"):
        session.run(["z"], {"x": x})


def test_an_operators_error_in_a_session_with_such_types(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): raise ValueError('bad value')")
    model = pyop_model(module, type=TensorProto.BFLOAT16)
    session = opgraft.InferenceSession(model, allow=[module])
    with pytest.raises(opgraft.PyOpError, match="bad value") as error:
        session.run(None, {"x": np.array([1], ml_dtypes.bfloat16)})
    assert isinstance(error.value.__cause__, ValueError)


def test_results_outlive_their_session(write_module: Write) -> None:
    module = write_module(IDENTITY)
    model = pyop_model(module, type=TensorProto.BFLOAT16)
    x = np.arange(10_000).astype(ml_dtypes.bfloat16)
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {"x": x})
    np.random.default_rng(0).random(100_000)  # reuses freed memory
    assert same(result, x)
    result[0] = 5  # it belongs to the caller
    assert result[0] == 5


def test_a_session_of_the_runtimes_own_operators() -> None:
    """No Python operator at all, only Cast from and to bfloat16."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, None)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = opgraft.InferenceSession(model)
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.float32([1.5, -2]))
