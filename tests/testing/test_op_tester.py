"""OpTester in Python: that it passes what is right, and reports what is not, with the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import opgraft
from conftest import VERSION
from opgraft.testing import OpTester

ALL = f"in ONNX Runtime {onnxruntime.__version__}, in all 6 ways of running"
ALONE = f"in ONNX Runtime {onnxruntime.__version__}, only in these ways of running:"


@opgraft.op("test.testing::Scale", shape=lambda x: x)
def scale(x: np.ndarray, *, factor: float = 2.0) -> np.ndarray:
    return (x * factor).astype(x.dtype)


@opgraft.op("test.testing::Twice", shape=lambda x: (2 * x[0], *x[1:]))
def twice(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x])


@opgraft.op("test.testing::Shift", shape=lambda x, by: (x, ()))
def shift(x: np.ndarray, by: np.ndarray | None = None) -> tuple[np.ndarray, NDArray[np.int64]]:
    return x + np.float32(1 if by is None else by), np.array(x.size)


@opgraft.op("test.testing::Upper", shape=lambda x: x)
def upper(x: np.ndarray) -> np.ndarray:
    return np.array([text.upper() for text in x.reshape(-1)], object).reshape(x.shape)


@opgraft.op("test.testing::Refuse", shape=lambda x: x)
def refuse(x: np.ndarray) -> np.ndarray:
    raise ValueError("the matrix is singular")


@opgraft.op("test.testing::Liar", shape=lambda x: x)
def liar(x: np.ndarray) -> np.ndarray:
    return x[:1]


@opgraft.op("test.testing::Aligned", shape=lambda x: x)
def aligned(x: np.ndarray) -> np.ndarray:
    return x + (x.ctypes.data % 16 != 0)


@opgraft.op("test.testing::Counter", shape=lambda x: x)
class Counter:
    def __init__(self) -> None:
        self._runs = -1.0

    def compute(self, x: np.ndarray) -> np.ndarray:
        self._runs += 1
        return x + np.float32(self._runs)


def case(name: str, expected: list[float] | None = None) -> OpTester:
    test = OpTester(f"test.testing::{name}")
    test.add_input("x", np.float32([1, 2]))
    return test.add_output("y", np.float32([1, 2] if expected is None else expected))


TYPES = """float32 float64 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64
    float8_e4m3fn""".split()


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type(dtype: str) -> None:
    test = OpTester("Scale", 1, "test.testing").add_input("x", [[1, 2], [3, 4]], dtype)
    test.add_output("y", [[2, 4], [6, 8]], dtype).run()


def test_special_numbers() -> None:
    x = np.float32([np.nan, np.inf, -np.inf])
    OpTester("test.testing::Scale").add_input("x", x).add_output("y", x).run()
    with pytest.raises(AssertionError, match=r"\[1\]: expected -inf, got inf; 2 of 3 elements"):
        OpTester("test.testing::Scale").add_input("x", x).add_output("y", -x).run()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 3)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    OpTester("test.testing::Scale").add_input("x", x).add_output("y", 2 * x).run()


def test_strings() -> None:
    test = OpTester("test.testing::Upper").add_input("x", ["a", "bc"])
    test.add_output("y", ["A", "BC"]).run()
    wrong = OpTester("test.testing::Upper").add_input("x", ["a", "bc"]).add_output("y", ["A", "b"])
    with pytest.raises(AssertionError, match=r"\[1\]: expected 'b', got 'BC'; 1 of 2 elements"):
        wrong.run()


def test_attributes_and_tolerances() -> None:
    test = case("Scale", [3.1, 6.1]).add_attribute("factor", 3.0).set_tolerance(0.2)
    test.run()
    test.set_tolerance(0.05, output="y")
    with pytest.raises(AssertionError, match=r"away \(tolerance 0\.05 \+ 0 \* \|expected\|\)"):
        test.run()


def test_omitted_inputs_and_outputs() -> None:
    test = OpTester("test.testing::Shift").add_input("x", np.float32([1, 2])).add_omitted_input()
    test.add_output("y", np.float32([2, 3])).add_output("count", np.int64(2)).run()
    test = OpTester("test.testing::Shift").add_input("x", np.float32([1, 2]))
    test.add_input("by", np.float32([5, 6])).add_omitted_output()
    test.add_output("count", np.int64(2)).run()


def test_constant_inputs() -> None:
    """Reshape's second input is one to a rule that is to tell the shape."""
    test = OpTester("Reshape", 14).add_input("x", np.float32([1, 2]))
    test.add_input("shape", np.int64([2, 1]), constant=True)
    test.add_output("y", np.float32([[1], [2]])).run()


def test_a_library() -> None:
    """Registered as any program does; here onnxruntime-extensions' own."""
    extensions = pytest.importorskip("onnxruntime_extensions")
    test = OpTester(
        "ai.onnx.contrib::StringUpper", 1, library=extensions.get_library_path()
    ).add_input("x", ["a", "bc"])
    test.add_output("y", ["A", "BC"]).run()
    with pytest.raises(AssertionError, match="is not a registered function/op"):
        OpTester("test.testing::Scale", library=extensions.get_library_path()).add_input(
            "x", np.float32([1])
        ).add_output("y", np.float32([2])).run()


def test_an_expected_failure() -> None:
    case("Refuse").expect_failure("the matrix is singular")
    with pytest.raises(AssertionError) as raised:
        case("Refuse").expect_failure("the matrix is empty")
    assert 'expected a failure with "the matrix is empty", but the error is: ' in str(raised.value)
    assert "the matrix is singular" in str(raised.value)
    with pytest.raises(AssertionError) as raised:
        case("Scale").expect_failure("singular")
    assert 'expected a failure with "singular", but it did not fail' in str(raised.value)
    assert ALL in str(raised.value)


@pytest.mark.parametrize(
    "make, texts",
    [
        (
            lambda: case("Scale", [2, 4.5]),
            [
                "test.testing::Scale: output 'y'[1]: expected 4.5, got 4.0, which is 0.5 away "
                "(tolerance 1e-05 + 1e-05 * |expected|); 1 of 2 elements differ",
                ALL,
            ],
        ),
        (
            lambda: case("Scale", [2]),
            ["output 'y': expected the shape [1], got [2]", ALL],
        ),
        (
            lambda: (
                OpTester("test.testing::Scale")
                .add_input("x", np.float32([1]))
                .add_output("y", np.float64([2]))
            ),
            ["output 'y': expected float64, got float32", ALL],
        ),
        (
            lambda: case("Aligned"),
            [
                "output 'y'[0]: expected 1.0, got 2.0",
                f"2 of 2 elements differ\n  {ALONE}\n    inputs fed at odd addresses",
            ],
        ),
        (
            lambda: case("Counter"),
            ["in a second run, output 'y'[0]: expected 1.0, got 2.0", ALL],
        ),
        (
            lambda: case("Nothing"),
            ["test.testing::Nothing: it failed: ", ALL],
        ),
    ],
)
def test_what_is_wrong_is_reported(make: Callable[[], OpTester], texts: list[str]) -> None:
    with pytest.raises(AssertionError) as raised:
        make().run()
    for text in texts:
        assert text in str(raised.value)


def test_a_rule_that_lies_is_found_out() -> None:
    """The kernel refuses such an output itself; onnx's shape inference is asked all the same."""
    with pytest.raises(AssertionError) as raised:
        case("Liar", [1]).run()
    assert "test.testing::Liar: it failed: " in str(raised.value)


def test_a_wrong_inference_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a session and of onnx: both are asked, for sizes and for symbols."""
    from opgraft._testing import _case

    monkeypatch.setattr(_case.Session, "inferred", lambda *_: ("float32", ("x_0+1",)))
    with pytest.raises(AssertionError) as raised:
        case("Scale", [2, 4]).run()
    assert str(raised.value) == (
        "test.testing::Scale: output 'y': the runtime inferred the shape [x_0+1], where x_0+1 is "
        f"3, but it is [2]\n  {ALONE}\n    inputs fed, dimensions symbolic"
    )
    monkeypatch.undo()
    monkeypatch.setattr(_case, "ask_onnx", lambda *_: ({"y": ("float64", (None, 2))}, {}))
    with pytest.raises(AssertionError) as raised:
        case("Scale", [2, 4]).run()
    assert "output 'y': its shape rule says float64, but it is float32" in str(raised.value)
    assert "its shape rule says the shape [?, 2], but it is [2]" in str(raised.value)
    assert "\n    onnx.shape_inference, dimensions fixed\n" in str(raised.value)


def test_the_reference_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from opgraft._testing import _case

    monkeypatch.setattr(_case, "run_reference", lambda _: {"y": np.float32([2, 5])})
    with pytest.raises(AssertionError) as raised:
        case("Scale", [2, 4]).run()
    assert "output 'y'[1]: expected 4.0, got 5.0" in str(raised.value)
    assert f"{ALONE}\n    onnx.reference" in str(raised.value)


def test_shapes_alone() -> None:
    test = OpTester("test.testing::Twice").add_input_shape("x", np.float32, ["n", None])
    test.add_output_shape("y", np.float32, ["2*n", None]).infer_shapes()
    test = OpTester("test.testing::Twice").add_input_shape("x", np.float32, None)
    test.add_output_shape("y", np.float32, None).infer_shapes()
    test = OpTester("test.testing::Twice").add_input_shape("x", np.float32, ["n", 3])
    test.add_output_shape("y", np.float32, ["n", 3])
    with pytest.raises(AssertionError) as raised:
        test.infer_shapes()
    text = "test.testing::Twice: output 'y': expected the shape [n, 3], got [2*n, 3]"
    assert f"{text}\n  from onnx.shape_inference" in str(raised.value)
    if VERSION >= (1, 28):
        assert f"{text}\n  inferred by ONNX Runtime" in str(raised.value)


def test_a_rule_that_is_to_fail() -> None:
    def product(columns: int) -> OpTester:
        test = OpTester("MatMul", 13).add_input_shape("a", np.float32, ["n", columns])
        test.add_input_shape("b", np.float32, [3, "m"])
        return test.add_output_shape("c", np.float32, ["n", "m"])

    product(4).infer_shapes(failure="Incompatible dimensions")
    with pytest.raises(AssertionError, match='to fail with "other", but the error is: '):
        product(4).infer_shapes(failure="other")
    with pytest.raises(AssertionError, match="but it did not fail"):
        product(3).infer_shapes(failure="Incompatible dimensions")


def test_several_operators_share_a_case() -> None:
    """Here the twin is one of the runtime's; it may be a pack's as well."""

    @opgraft.op("test.testing::Sum", shape=opgraft.broadcast_shapes)
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    def sum_of(*operators: str) -> OpTester:
        test = OpTester(operators, 1).add_input("x", np.float32([1, 2]))
        return test.add_input("b", np.float32([10])).add_output("y", np.float32([11, 12]))

    sum_of("test.testing::Sum", "test.testing::Sum").run()
    with pytest.raises(AssertionError) as raised:
        sum_of("test.testing::Sum", "com.microsoft::Gelu").run()
    assert "com.microsoft::Gelu: " in str(raised.value)
    assert "test.testing::Sum" not in str(raised.value)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: OpTester([]), "expected the name of the operator"),
        (lambda: OpTester("my::Op").run(), "no output was added"),
        (lambda: OpTester("my::Op").set_tolerance(1), "no such output has been added"),
        (lambda: OpTester("my::Op").add_input("", 1.0), "an input or output needs a name"),
        (lambda: OpTester("my::Op").add_input("x", 1).add_output("x", 1), "are called 'x'"),
        (
            lambda: OpTester("my::Op").add_input_shape("x", int, ["n"]).add_output("y", 1).run(),
            "'x' has no elements, which only infer_shapes allows",
        ),
    ],
)
def test_a_wrong_case(make: Callable[[], object], text: str) -> None:
    with pytest.raises(opgraft.Error, match=text):
        make()


def test_a_failure_points_at_the_line_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\n"
        "from opgraft.testing import OpTester\n"
        "def test_it():\n"
        "    test = OpTester('Neg', 13).add_input('x', np.float32([1]))\n"
        "    test.add_output('y', np.float32([2])).run()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "test_it.py:5: AssertionError" in done.stdout
    assert "expected 2.0, got -1.0" in done.stdout
    assert "testing.py" not in done.stdout


def test_arrays_of_ml_dtypes_are_taken_as_they_are() -> None:
    x = np.array([1, 2], ml_dtypes.bfloat16)
    OpTester("test.testing::Scale").add_input("x", x).add_output("y", x + x).run()
