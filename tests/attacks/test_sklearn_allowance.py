"""A model with a stored estimator, in hosts that allow nothing: it is refused, and nothing runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

skops_io = pytest.importorskip(
    "skops.io", reason="skops is not installed: pip install opgraft[sklearn]"
)

import sklearn  # noqa: E402
from sklearn.ensemble import StackingClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402

import opgraft  # noqa: E402
from conftest import HOST_PYTHON, Write  # noqa: E402
from opgraft._base._library import runner_path, runtime_library  # noqa: E402
from opgraft.sklearn import operators  # noqa: E402

X = np.float32([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [5.0, 4.0]])


def model_of(estimator: Any, method: str = "transform") -> onnx.ModelProto:
    """A model that holds the estimator as it is, and that nobody's to_onnx has seen."""
    data = np.frombuffer(skops_io.dumps(estimator), np.uint8)
    node = helper.make_node(
        "PyOp", ["X"], ["y"], "node", domain=operators.DOMAIN, module=operators.__name__,
        class_name="Estimator", input_types=[1], output_types=[1],
        estimator=numpy_helper.from_array(data), methods=[method], dtypes=["float32"], ranks=[2],
        scikit_learn=sklearn.__version__,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("X", 1, [None, 2])],
        [helper.make_tensor_value_info("y", 1, [None, None])],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(operators.DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def path_as_numbers(path: Path) -> Any:
    """What spells the path, byte by byte, in an array of X's kind."""
    text = str(path).encode()
    return np.frombuffer(text.ljust(-(-len(text) // 8) * 8, b"_"), np.float32).reshape(-1, 2)


def writer() -> Any:
    """An estimator that writes to the path that its input spells: a stack calls the method of its
    parts that it names itself, here `ndarray.tofile`."""
    stack = StackingClassifier([("a", LogisticRegression())], cv=2).fit(X, [0, 1, 0, 1])
    stack.estimators_ = [np.array([b"print('was run')"])]
    stack.stack_method_ = ["tofile"]
    to_text = FunctionTransformer(str, kw_args={"encoding": "utf-8"})
    return Pipeline([("path", to_text), ("stack", stack)])


@pytest.fixture
def attack(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model that would write a file, its input, and the file."""
    model = model_of(writer())
    # To read this one takes onnx itself, which is not there to be imported by a refused model.
    kind = helper.make_tensor_type_proto(1, [2])
    model.graph.node[0].attribute.append(helper.make_attribute("kind", kind))
    onnx.save(model, tmp_path / "model.onnx")
    numbers = path_as_numbers(tmp_path / "written")
    np.save(tmp_path / "X.npy", numbers)
    return tmp_path / "model.onnx", tmp_path / "X.npy", Path(numbers.tobytes().decode())


def check_refusal(text: str) -> None:
    assert "This host does not allow that" in text, text
    assert "node '" in text and "a stored scikit-learn estimator" in text
    assert "write files, start processes" in text
    assert "you trust this file as you trust a program" in text
    assert 'allow=["sklearn"]' in text


PROGRAM = """
import sys
import numpy, opgraft, onnxruntime
kind, model, numbers = sys.argv[1:]
try:
    if kind == "session":
        session = opgraft.InferenceSession(model)
    else:
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(opgraft.library_path())
        session = onnxruntime.InferenceSession(model, options)
    session.run(None, {"X": numpy.load(numbers)})
except Exception as error:
    print(type(error).__name__, error)
watched = {"sklearn", "skops", "opgraft.sklearn", "onnx", "ml_dtypes"}
print("imported:", *sorted(watched & {*sys.modules}))
"""


@pytest.mark.parametrize("kind", ["session", "plain"])
def test_in_python(attack: tuple[Path, Path, Path], kind: str) -> None:
    model, numbers, written = attack
    if kind == "plain":
        prepared = model.with_name("prepared.onnx")
        prepared.write_bytes(opgraft.prepare(model).bytes)
        model = prepared
    command = [sys.executable, "-c", PROGRAM, kind, model, numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not written.exists(), done.stdout
    check_refusal(done.stdout)
    assert done.stdout.strip().endswith("imported:")  # none of them


def test_in_a_program_without_python(attack: tuple[Path, Path, Path]) -> None:
    """Python is not even started there."""
    model, numbers, written = attack
    command = [runner_path(), "--onnxruntime", runtime_library(), "--input", f"X={numbers}", model]
    variables = {**os.environ, "OPGRAFT_PYTHON": "/no/python/here"}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert not written.exists()
    assert done.returncode > 0
    check_refusal(done.stderr)


@pytest.mark.skipif(sys.executable != HOST_PYTHON, reason="scikit-learn is not in that Python")
def test_beside_an_operator_that_is_allowed(
    attack: tuple[Path, Path, Path], write_module: Write, module_folder: Path
) -> None:
    """Python runs there already, for the other operator."""
    model, numbers, written = attack
    module = write_module("class Op:\n    def compute(self, x):\n        return x\n")
    loaded = onnx.load(model)
    first = helper.make_node("PyOp", ["X"], ["z"], "first", domain="my", module=module,
                             class_name="Op", input_types=[1], output_types=[1])  # fmt: skip
    loaded.graph.node[0].input[0] = "z"
    loaded.graph.node.insert(0, first)
    onnx.save(loaded, model)
    command = [runner_path(), "--onnxruntime", runtime_library(), "--input", f"X={numbers}"]
    variables = {**os.environ, "OPGRAFT_PYTHON": HOST_PYTHON, "PYTHONPATH": str(module_folder)}
    done = subprocess.run([*command, "--allow", module, model], capture_output=True, text=True,
                          env=variables, check=False)  # fmt: skip
    assert not written.exists()
    assert done.returncode > 0
    check_refusal(done.stderr)


def test_only_the_process_that_wrote_it_needs_no_allowance(tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from sklearn.decomposition import NMF

    import opgraft.sklearn

    fitted = NMF(2, max_iter=900).fit(X)
    model = opgraft.sklearn.to_onnx(fitted, X)
    opgraft.InferenceSession(model)
    onnx.save(model, tmp_path / "model.onnx")
    code = """
import sys, numpy, opgraft
try:
    opgraft.InferenceSession(sys.argv[1])
except opgraft.PolicyError:
    print("refused")
session = opgraft.InferenceSession(sys.argv[1], allow=["sklearn"])
print(session.run(None, {"X": numpy.ones((1, 2), numpy.float32)})[0].shape)
"""
    command = [sys.executable, "-c", code, tmp_path / "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["refused", "(1, 2)"]


def test_one_byte_more_makes_it_a_strangers() -> None:
    """What is known is the file, and not the node: nothing of it can be changed."""
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    import opgraft.sklearn

    model = opgraft.sklearn.to_onnx(FunctionTransformer(np.cosh).fit(X), X)
    (node,) = (one for one in model.graph.node if one.op_type == "PyOp")
    (attribute,) = (one for one in node.attribute if one.name == "estimator")
    opgraft.InferenceSession(model)
    data = numpy_helper.to_array(attribute.t)
    attribute.t.CopyFrom(numpy_helper.from_array(np.append(data, np.uint8(0))))
    with pytest.raises(opgraft.PolicyError) as caught:
        opgraft.InferenceSession(model)
    check_refusal(str(caught.value))


def test_the_allowance_reaches_every_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(FunctionTransformer(np.cosh).fit(X))
    wanted = np.cosh(X)
    onnx.save(model, tmp_path / "model.onnx")
    for allow in (["sklearn"], ["opgraft.sklearn.operators"]):
        (output,) = opgraft.InferenceSession(model, allow=allow).run(None, {"X": X})
        np.testing.assert_allclose(output, wanted)
    for allow in (["sklearn.*"], ["sklearn.tree"], ["opgraft"], ["opgraft.sklearn"]):
        with pytest.raises(opgraft.PolicyError):
            opgraft.InferenceSession(model, allow=allow)
    monkeypatch.setenv("OPGRAFT_ALLOW", "sklearn")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(opgraft.library_path())
    session = onnxruntime.InferenceSession(opgraft.prepare(model).bytes, options)
    np.testing.assert_allclose(session.run(None, {"X": X})[0], wanted)
    if sys.executable != HOST_PYTHON:
        return  # scikit-learn is not in that Python
    np.save(tmp_path / "X.npy", X)
    command = [runner_path(), "--onnxruntime", runtime_library(), "--allow", "sklearn"]
    command += ["--input", f"X={tmp_path}/X.npy", "--output", f"y={tmp_path}/y.npy"]
    command += [f"{tmp_path}/model.onnx"]
    variables = {**os.environ, "OPGRAFT_PYTHON": HOST_PYTHON, "OPGRAFT_ALLOW": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted)


def test_the_allowance_is_for_no_module_of_that_name() -> None:
    node = helper.make_node(
        "PyOp", ["X"], ["y"], "node", domain="my", module="sklearn", class_name="Thing",
        output_types=[1],
    )  # fmt: skip
    model = model_of(FunctionTransformer(np.cosh).fit(X))
    model.graph.node[0].CopyFrom(node)
    with pytest.raises(opgraft.PolicyError, match="module 'sklearn'"):
        opgraft.InferenceSession(model, allow=["sklearn"])
