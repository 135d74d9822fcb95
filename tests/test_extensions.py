"""opgraft.extensions: one suite over our import and over onnxruntime-extensions' own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import Write, floats, graph_model
from opgraft import _pyop, extensions
from opgraft.extensions import PyCustomOpDef

CONTRIB = ', "ai.onnx.contrib": 1'
FLOAT = onnx.TensorProto.FLOAT


def contrib_model(text: str, more: str = CONTRIB) -> onnx.ModelProto:
    return graph_model(text, more=more)


@dataclass
class Host:
    """A package to import from, and the kind of session that runs its operators."""

    package: ModuleType
    is_plain: bool

    def session(self, model: onnx.ModelProto) -> onnxruntime.InferenceSession:
        if not self.is_plain:
            return opgraft.InferenceSession(model)
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(self.package.get_library_path())
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(self, model: onnx.ModelProto, **feed: Any) -> list[Any]:
        return list(self.session(model).run(None, feed))


def make_host(name: str) -> Host:
    if name != "theirs":
        return Host(extensions, name == "plain")
    return Host(pytest.importorskip("onnxruntime_extensions", exc_type=ImportError), True)


@pytest.fixture(params=["theirs", "plain", "opgraft"])
def host(request: pytest.FixtureRequest) -> Host:
    return make_host(request.param)


@pytest.fixture(params=["plain", "opgraft"])
def ours(request: pytest.FixtureRequest) -> Host:
    return make_host(request.param)


# What both packages do.


def test_one_float_in_and_out_by_default(host: Host) -> None:
    @host.package.onnx_op(op_type="PyReverseMatrix")
    def reverse_matrix(x: Any) -> Any:
        return np.flip(x, axis=0).astype(np.float32)

    model = contrib_model(
        """(float[n, 2] x) => (float[n, 2] y)
        { a = Identity (x) y = ai.onnx.contrib.PyReverseMatrix (a) }"""
    )
    (y,) = host.run(model, x=floats(6).reshape(3, 2))
    np.testing.assert_array_equal(y, [[4, 5], [2, 3], [0, 1]])


def test_a_chain_of_operators_of_several_types(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="ChainAdd", inputs=[types.dt_float, types.dt_float])
    def add(x: Any, y: Any) -> Any:
        return np.add(x, y)

    @host.package.onnx_op(op_type="ChainRound", outputs=[types.dt_int32])
    def rounded(x: Any) -> Any:
        return np.round(x).astype(np.int32)

    model = contrib_model(
        """(float[3, 5] x, float[3, 5] w) => (int32[3, 5] y)
        { s = ai.onnx.contrib.ChainAdd (x, w) y = ai.onnx.contrib.ChainRound (s) }"""
    )
    x = floats(15).reshape(3, 5)
    (y,) = host.run(model, x=x, w=x + np.float32(0.25))
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, 2 * x)


def test_two_outputs(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="PyNegPos", outputs=[types.dt_float, types.dt_float])
    def negpos(x: Any) -> Any:
        negative, positive = x.copy(), x.copy()
        negative[x > 0] = 0
        positive[x < 0] = 0
        return negative, positive

    # Made by the helper with the shape [], which stands for any, as models of theirs have it.
    values = [helper.make_tensor_value_info(name, FLOAT, []) for name in ("x", "neg", "pos")]
    node = helper.make_node("PyNegPos", ["x"], ["neg", "pos"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    x = np.float32([[0, 1, 1.5], [7, 8, -5.5]])
    negative, positive = host.run(model, x=x)
    np.testing.assert_array_equal(negative, np.minimum(x, 0))
    np.testing.assert_array_equal(positive, np.maximum(x, 0))


def test_strings_and_a_list_of_attributes(host: Host) -> None:
    types = host.package.PyCustomOpDef
    kinds = []

    @host.package.onnx_op(
        op_type="PyOpJoin", inputs=[types.dt_string], outputs=[types.dt_string], attrs=["sep"]
    )
    def join(rows: Any, **kwargs: Any) -> Any:
        kinds.append((rows.dtype, type(rows.flat[0])))
        return np.array([kwargs["sep"].join(row) for row in rows], dtype=object)

    model = contrib_model(
        '(string[n, m] x) => (string[n] y) { y = ai.onnx.contrib.PyOpJoin <sep = "; é"> (x) }'
    )
    (y,) = host.run(model, x=np.array([["a", "b"], ["ü", ""]], dtype=object))
    assert y.tolist() == ["a; éb", "ü; é"]
    assert kinds == [(np.dtype(object), str)]


def test_typed_attributes_by_keyword(host: Host) -> None:
    types = host.package.PyCustomOpDef
    given = {}

    @host.package.onnx_op(
        op_type="TypedAttributes",
        attrs={"count": types.dt_int64, "factor": types.dt_float, "text": types.dt_string},
    )
    def keep(x: Any, **attributes: Any) -> Any:
        given.update(attributes)
        return x

    model = contrib_model(
        """(float[n] x) => (float[n] y)
        { y = ai.onnx.contrib.TypedAttributes <count = -3, factor = 0.25, text = "a b"> (x) }"""
    )
    host.run(model, x=floats(2))
    assert given == {"count": -3, "factor": 0.25, "text": "a b"}
    assert [type(one) for one in given.values()].count(str) == 1


def test_a_domain_of_its_own(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(
        op_type="test.customop::Epsilon", inputs=[types.dt_double], outputs=[types.dt_double]
    )
    def epsilon(x: Any) -> Any:
        return x + 1e-3

    model = contrib_model(
        "(double[n] x) => (double[n] y) { y = test.customop.Epsilon (x) }", ', "test.customop": 1'
    )
    (y,) = host.run(model, x=np.array([0.0, -5.5]))
    np.testing.assert_array_equal(y, np.array([0.0, -5.5]) + 1e-3)


def test_the_functions_name_and_a_call_without_a_session(host: Host) -> None:
    @host.package.onnx_op()
    def NamedByItself(x: Any) -> Any:
        return -x

    assert NamedByItself.op_type == "NamedByItself"
    np.testing.assert_array_equal(NamedByItself(floats(3)), -floats(3))
    model = contrib_model("(float[n] x) => (float[n] y) { y = ai.onnx.contrib.NamedByItself (x) }")
    np.testing.assert_array_equal(host.run(model, x=floats(3))[0], -floats(3))


def test_inputs_may_be_written_to(host: Host) -> None:
    @host.package.onnx_op(op_type="WritesInput")
    def writes(x: Any) -> Any:
        x += 1
        return x

    model = contrib_model(
        """(float[n] x) => (float[n] y, float[n] z)
        { a = Neg (x) y = ai.onnx.contrib.WritesInput (a) z = Identity (a) }"""
    )
    y, z = host.run(model, x=floats(2))
    np.testing.assert_array_equal(y, [1, 0])
    np.testing.assert_array_equal(z, [0, -1])


def test_results_become_the_declared_type(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="WiderThanDeclared", outputs=[types.dt_float, types.dt_int32])
    def wider(x: Any) -> Any:
        return x.astype(np.float64) / 3, np.round(x).astype(np.int64)

    model = contrib_model(
        "(float[n] x) => (float[n] y, int32[n] z) { y, z = ai.onnx.contrib.WiderThanDeclared (x) }"
    )
    y, z = host.run(model, x=floats(4))
    np.testing.assert_array_equal(y, (floats(4).astype(np.float64) / 3).astype(np.float32))
    assert z.dtype == np.int32 and z.tolist() == [0, 1, 2, 3]


def test_inputs_of_any_type_and_none(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="AnyToFloat", inputs=[types.undefined])
    def any_to_float(x: Any) -> Any:
        return x.astype(np.float32)

    @host.package.onnx_op(op_type="NoInput", inputs=[])
    def no_input() -> Any:
        return np.float32([7])

    model = contrib_model(
        """(int16[n] x) => (float[n] y)
        { a = ai.onnx.contrib.AnyToFloat (x) b = ai.onnx.contrib.NoInput () y = Add (a, b) }"""
    )
    np.testing.assert_array_equal(host.run(model, x=np.int16([1, -2]))[0], [8, 5])


NUMBERS = [
    "dt_float", "dt_uint8", "dt_int8", "dt_uint16", "dt_int16", "dt_int32", "dt_int64", "dt_bool",
    "dt_double", "dt_uint32", "dt_uint64",
]  # fmt: skip


def echo(host: Host, name: str) -> onnx.ModelProto:
    """Declares the identity on one type; returns a model with a node of it."""
    number = getattr(host.package.PyCustomOpDef, name)
    host.package.onnx_op(op_type=f"Echo_{name}", inputs=[number], outputs=[number])(lambda x: x)
    values = [helper.make_tensor_value_info(one, number, ["n"]) for one in "xy"]
    node = helper.make_node(f"Echo_{name}", ["x"], ["y"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.contrib", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("name", NUMBERS)
def test_every_type_of_numbers(host: Host, name: str) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(getattr(PyCustomOpDef, name))
    x = np.array([0, 1, 1], dtype)
    if np.issubdtype(dtype, np.integer):
        x[1:] = np.iinfo(dtype).min, min(np.iinfo(dtype).max, 2**63 - 1)
    (y,) = host.run(echo(host, name), x=x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x)


def test_a_node_without_a_declared_attribute_is_refused(host: Host) -> None:
    types = host.package.PyCustomOpDef
    host.package.onnx_op(op_type="NeedsAttribute", attrs={"k": types.dt_int64})(lambda x, k: x)
    for node in ("NeedsAttribute (x)", 'NeedsAttribute <k = "3"> (x)'):
        model = contrib_model(f"(float[n] x) => (float[n] y) {{ y = ai.onnx.contrib.{node} }}")
        with pytest.raises(Exception, match="attribute 'k'"):
            host.session(model)


def test_the_constants_are_theirs_and_onnxs() -> None:
    theirs = make_host("theirs").package
    names = [name for name in vars(PyCustomOpDef) if name == "undefined" or name[:3] == "dt_"]
    assert sorted(names) == sorted(
        one for one in dir(theirs.PyCustomOpDef) if one == "undefined" or one[:3] == "dt_"
    )
    for name in names:
        assert getattr(PyCustomOpDef, name) == getattr(theirs.PyCustomOpDef, name)
    assert extensions.default_opset_domain() == theirs.default_opset_domain()
    assert extensions.PyOp is PyCustomOpDef


# What is better here.


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


# Refusals, and registering.


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
