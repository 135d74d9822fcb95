"""What opgraft.extensions does otherwise than onnxruntime-extensions, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from extension_hosts import Host, contrib_model, echo, make_host

import opgraft
from conftest import Write, floats
from opgraft import _pyop, extensions
from opgraft.extensions import PyCustomOpDef


@pytest.fixture(params=["plain", "opgraft"])
def ours(request: pytest.FixtureRequest) -> Host:
    return make_host(request.param)


def test_the_largest_integers(ours: Host) -> None:
    x = np.uint64([0, 2**53 + 1, 2**64 - 1])  # theirs gives other numbers
    np.testing.assert_array_equal(ours.run(echo(ours, "dt_uint64"), x=x)[0], x)


def test_float16_and_bfloat16(ours: Host) -> None:
    (y,) = ours.run(echo(ours, "dt_float16"), x=np.float16([1, 65504]))
    np.testing.assert_array_equal(y, np.float16([1, 65504]))
    seen = []
    types = PyCustomOpDef

    @ours.package.onnx_op(op_type="Half16", inputs=[types.dt_bfloat16], outputs=[types.dt_bfloat16])
    def half(x: Any) -> Any:
        seen.append(x.dtype.name)
        return x / 2

    model = contrib_model(
        """(float[n] x) => (float[n] y)
        { a = Cast <to = 16> (x) b = ai.onnx.contrib.Half16 (a) y = Cast <to = 1> (b) }"""
    )
    np.testing.assert_array_equal(ours.run(model, x=np.float32([3, 5]))[0], [1.5, 2.5])
    assert seen == ["bfloat16"]


@pytest.mark.parametrize("name", ["dt_complex64", "dt_complex128"])
def test_complex_types_are_refused(name: str) -> None:
    number = getattr(PyCustomOpDef, name)
    with pytest.raises(opgraft.Error, match=f"{name}, which ONNX Runtime does not support"):
        extensions.onnx_op(op_type="Complex", inputs=[number])(lambda x: x)


def test_an_exception_is_an_error(ours: Host) -> None:
    @ours.package.onnx_op(op_type="Raises")
    def raises(x: Any) -> Any:
        if x[0] < 0:
            raise KeyError("the reason")
        return x

    session = ours.session(
        contrib_model("(float[n] x) => (float[n] y) { [r] y = ai.onnx.contrib.Raises (x) }")
    )
    with pytest.raises(Exception, match="node 'r', operator ai.onnx.contrib::Raises") as caught:
        session.run(None, {"x": np.float32([-1])})
    assert "KeyError: 'the reason'" in str(caught.value)
    if not ours.is_plain:
        assert isinstance(caught.value, opgraft.PyOpError)
        assert isinstance(caught.value.__cause__, KeyError)
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], floats(2))


def test_their_process_ends_on_an_exception(tmp_path: Path) -> None:
    make_host("theirs")
    code = """
import numpy as np, onnxruntime, {package} as package
@package.onnx_op(op_type="Raises")
def raises(x): raise KeyError("the reason")
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(package.get_library_path())
try:
    onnxruntime.InferenceSession("model.onnx", options).run(None, {{"x": np.zeros(1, np.float32)}})
except Exception as error:
    print("caught", "the reason" in str(error))
"""
    model = contrib_model("(float[n] x) => (float[n] y) { y = ai.onnx.contrib.Raises (x) }")
    onnx.save(model, tmp_path / "model.onnx")
    for package, returned, printed in [
        ("onnxruntime_extensions", -6, ""),
        ("opgraft.extensions", 0, "caught True\n"),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", code.format(package=package)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (returned, printed), done.stderr


@pytest.mark.parametrize(
    ("declared", "result", "expected"),
    [
        ("dt_double", np.int64([1, -2]), [1.0, -2.0]),  # theirs gives 5e-324 and NaN
        ("dt_int64", np.float64([1, -2]), [1, -2]),  # theirs gives 4607182418800017408, ...
        ("dt_bool", np.int64([1, 0]), [True, False]),
        ("dt_float", [1, 2], [1, 2]),  # theirs ends the process
        ("dt_string", np.array(["a", "bc"]), ["a", "bc"]),
    ],
)
def test_results_are_converted_by_value(
    ours: Host, declared: str, result: Any, expected: list[Any]
) -> None:
    number = getattr(PyCustomOpDef, declared)
    ours.package.onnx_op(op_type="Converts", outputs=[number])(lambda x: result)
    name = onnx.TensorProto.DataType.Name(number).lower()
    model = contrib_model(f"(float[n] x) => ({name}[m] y) {{ y = ai.onnx.contrib.Converts (x) }}")
    (y,) = ours.run(model, x=floats(1))
    assert y.tolist() == expected


@pytest.mark.parametrize(
    ("declared", "result", "message"),
    [
        ("dt_int32", np.float32([1.5]), "values that int32 does not have"),
        ("dt_int32", np.int64([2**40]), "values that int32 does not have"),
        ("dt_int64", np.float32([np.nan]), "values that int64 does not have"),
        ("dt_float", np.array(["a"]), "expected a NumPy array of float32"),
        ("dt_float", np.complex64([1j]), "complex64"),
        ("dt_float", None, "None"),
    ],
)
def test_results_that_do_not_fit_are_errors(
    ours: Host, declared: str, result: Any, message: str
) -> None:
    number = getattr(PyCustomOpDef, declared)
    ours.package.onnx_op(op_type="DoesNotFit", outputs=[number])(lambda x: result)
    name = onnx.TensorProto.DataType.Name(number).lower()
    model = contrib_model(f"(float[n] x) => ({name}[m] y) {{ y = ai.onnx.contrib.DoesNotFit (x) }}")
    session = ours.session(model)
    with pytest.raises(Exception, match="ai.onnx.contrib::DoesNotFit") as caught:
        session.run(None, {"x": floats(1)})
    assert message in str(caught.value)


def test_the_wrong_number_of_outputs_is_an_error(ours: Host) -> None:
    two = [PyCustomOpDef.dt_float] * 2
    ours.package.onnx_op(op_type="Miscounts", outputs=two)(lambda x: (x, x, x))
    model = contrib_model(
        "(float[n] x) => (float[n] y, float[n] z) { y, z = ai.onnx.contrib.Miscounts (x) }"
    )
    session = ours.session(model)
    with pytest.raises(Exception, match="2 outputs|2 arrays|expected 2"):
        session.run(None, {"x": floats(1)})


def test_runs_of_several_threads(ours: Host) -> None:
    barrier = threading.Barrier(2, timeout=20)

    @ours.package.onnx_op(op_type="Meets")
    def meets(x: Any) -> Any:
        barrier.wait()  # passes only if another run is in the operator at the same time
        return x + 1

    model = contrib_model("(float[n] x) => (float[n] y) { y = ai.onnx.contrib.Meets (x) }")
    session = ours.session(model)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(session.run(None, {"x": floats(2)})[0]))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.tolist() for one in results] == [[1, 2], [1, 2]]


def test_onnx_and_the_reference_evaluator_know_it() -> None:
    from onnx.reference import ReferenceEvaluator

    @extensions.onnx_op(op_type="KnownToOnnx", attrs={"k": PyCustomOpDef.dt_int64})
    def known(x: Any, k: int) -> Any:
        return x * k

    model = contrib_model(
        "(float[n] x) => (float[n] y) { y = ai.onnx.contrib.KnownToOnnx <k = 3> (x) }"
    )
    onnx.checker.check_model(model, full_check=True)
    (y,) = ReferenceEvaluator(model).run(None, {"x": floats(3)})
    np.testing.assert_array_equal(y, 3 * floats(3))


@pytest.mark.parametrize("host_name", ["python", "cpp"])
def test_in_another_process(
    write_module: Write, module_folder: Path, monkeypatch: pytest.MonkeyPatch, host_name: str
) -> None:
    module = write_module("""
        from opgraft.extensions import PyCustomOpDef, onnx_op

        @onnx_op(op_type="FarAway", attrs={"k": PyCustomOpDef.dt_int64})
        def far_away(x, **attributes):
            return x * attributes["k"]
    """)
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    monkeypatch.chdir(module_folder)
    model = "(float[n] x) => (float[n] y) { y = ai.onnx.contrib.FarAway <k = 2> (x) }"
    onnx.save(contrib_model(model), "model.onnx")
    np.save("x.npy", floats(3))
    command = [sys.executable, "-m", "opgraft", "run", "--host", host_name, "model.onnx"]
    command += ["--input", "x=x.npy", "--import", module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "y float32 (3)\n0 2 4\n", done.stderr


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: extensions.onnx_op(op_type="R", inputs=[99])(len), "99, which ONNX Runtime"),
        (lambda: extensions.onnx_op(op_type="R", outputs=[0])(len), "is PyCustomOpDef.undefined"),
        (lambda: extensions.onnx_op(op_type="R", attrs="sep")(len), "a list of names, ['sep']"),
        (
            lambda: extensions.onnx_op(op_type="R", attrs={"b": PyCustomOpDef.dt_bool})(len),
            "'b' is PyCustomOpDef.dt_bool, expected dt_int64, dt_float or dt_string",
        ),
        (lambda: extensions.onnx_op()(lambda x: x), "expected the operator's name"),
        (lambda: extensions.onnx_op(op_type="ai.opgraft::R")(len), "Opgraft's own"),
        (lambda: extensions.Opdef.create(3, op_type="R"), "expected a function, not 3"),  # type: ignore[arg-type]
    ],
)
def test_declarations_that_are_refused(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(opgraft.Error) as caught:
        declare()
    assert message in str(caught.value)


def native_model() -> onnx.ModelProto:
    """A native operator of theirs, between two Python operators."""

    @extensions.onnx_op(op_type="PyBefore")
    def before(x: Any) -> Any:
        return x - 1

    return contrib_model(
        """(float[n] x) => (float[n] neg, float[n] y)
        { a = ai.onnx.contrib.PyBefore (x)
          [native] neg, pos = ai.onnx.contrib.NegPos (a)
          y = ai.onnx.contrib.PyBefore (pos) }"""
    )


def test_a_native_operator_of_theirs_is_refused_with_what_to_do() -> None:
    with pytest.raises(opgraft.ModelError) as caught:
        opgraft.InferenceSession(native_model())
    for part in (
        "node 'native', operator ai.onnx.contrib::NegPos",
        "register_custom_ops_library(onnxruntime_extensions.get_library_path())",
        "opgraft.InferenceSession(model, sess_options)",
        "@onnx_op of opgraft.extensions",
    ):
        assert part in str(caught.value)


def test_a_native_operator_of_theirs_beside_python_operators_of_ours() -> None:
    theirs = make_host("theirs").package
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(theirs.get_library_path())
    session = opgraft.InferenceSession(native_model(), options)
    negative, y = session.run(None, {"x": np.float32([-1, 4])})
    np.testing.assert_array_equal(negative, [-2, 0])
    np.testing.assert_array_equal(y, [-1, 2])


def test_both_libraries_with_one_session_are_refused_with_what_to_do() -> None:
    theirs = make_host("theirs").package
    model = native_model()
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(theirs.get_library_path())
    options.register_custom_ops_library(extensions.get_library_path())
    with pytest.raises(opgraft.Error, match="does not need opgraft.extensions.get_library_path"):
        opgraft.InferenceSession(model, options)


def test_registering_again() -> None:
    @extensions.onnx_op(op_type="RegisteredTwice")
    def once(x: Any) -> Any:
        return x

    model = contrib_model(
        "(float[n] x) => (float[n] y) { y = ai.onnx.contrib.RegisteredTwice (x) }"
    )
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        options.register_custom_ops_library(extensions.get_library_path())
    for session in (
        onnxruntime.InferenceSession(model.SerializeToString(), options),
        opgraft.InferenceSession(model, options),
        onnxruntime.InferenceSession(model.SerializeToString(), options),
    ):
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], floats(2))
    extensions.onnx_op(op_type="DeclaredLater")(lambda x: x)
    with pytest.raises(Exception, match="declare operators first, or make new session options"):
        options.register_custom_ops_library(extensions.get_library_path())


def test_operators_of_opgraft_op_in_a_plain_session() -> None:
    import numpy.typing as npt

    @opgraft.op("test.plain::Lists")
    def lists(
        x: npt.NDArray[np.float32],
        *,
        k: list[int],
        f: tuple[float, ...] = (0.5,),
        s: list[str],
    ) -> npt.NDArray[np.int64]:
        return np.int64([*k, round(sum(f) * 4), *map(len, s)])

    @opgraft.op("test.plain::Follows")  # its output has the type of its input: not for plain ones
    def follows(x: np.ndarray) -> np.ndarray:
        return x

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(extensions.get_library_path())

    def plain(node: str) -> onnxruntime.InferenceSession:
        text = f"(float[n] x) => (int64[m] y) {{ y = test.plain.{node} (x) }}"
        model = contrib_model(text, ', "test.plain": 1')
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    run = plain('Lists <k = [1, 2], f = [0.25, 1.0], s = ["abc", ""]>').run
    assert run(None, {"x": floats(1)})[0].tolist() == [1, 2, 5, 3, 0]
    run = plain('Lists <k = [7], s = ["a"]>').run
    assert run(None, {"x": floats(1)})[0].tolist() == [7, 2, 1]
    with pytest.raises(Exception, match="test.plain:Follows.* is not a registered"):
        plain("Follows")


def test_the_library_is_the_module() -> None:
    assert extensions.get_library_path() == _pyop.__file__
    assert extensions.get_library_path() != opgraft.library_path()
