"""Declared operators in hosts other than the process that declared them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import Write, floats
from conftest import graph_model as model
from opgraft._base import _library

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
    assert "The operator far::Scale is not defined" in done.stderr and "--import" in done.stderr
    done = call(command, "--import", "no_such_module")
    assert done.returncode == 1 and "no_such_module" in done.stderr


def in_a_process(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_process_finds_it_by_the_model(far: str, command: list[str]) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(
        f"import {far}, onnx; from opgraft._declare import _in_onnx; "
        "m = onnx.load('original.onnx'); _in_onnx.record_modules(m); onnx.save(m, 'model.onnx')"
    )
    metadata = onnx.load("model.onnx").metadata_props
    assert [(m.key, m.value) for m in metadata] == [("opgraft.module.far::Scale", far)]
    done = call(command, "--allow", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command)
    assert done.returncode == 1
    assert (
        f"operator far::Scale runs the Python module '{far}', which this host does not"
        in done.stderr
    )


def test_another_process_finds_it_by_the_node(far: str, command: list[str]) -> None:
    """As written by exporters, which make nodes but no model."""
    given = model(
        """(float[n] x, bool b) => (float[n] y) {
            y = If (b) <then_branch = a () => (t) { t = far.Scale <factor = 3.0> (x) },
                        else_branch = b () => (e) { e = far.Scale (x) }> }""",
        more=', "far": 1',
    )
    for branch in given.graph.node[0].attribute:
        branch.g.node[0].metadata_props.add(key="other", value="nothing")
        branch.g.node[0].metadata_props.add(key="opgraft.module", value=far)
    onnx.save(given, "model.onnx")
    np.save("b.npy", np.array(True))
    done = call(command, "--input", "b=b.npy", "--allow", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command, "--input", "b=b.npy")
    assert done.returncode == 1 and f"'{far}', which this host does not allow" in done.stderr


def test_a_prepared_model_names_the_module(far: str, command: list[str]) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(f"import {far}, opgraft; opgraft.prepare('original.onnx').save('model.onnx')")
    done = call(command, "--allow", far)
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
    done = call(command)
    assert done.returncode == 1 and f"'{far}', which this host does not allow" in done.stderr


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
    assert "was declared in '__main__' of the program that made the model" in done.stderr


def test_a_module_that_does_not_declare_it_any_more(
    far: str, command: list[str], module_folder: Any
) -> None:
    onnx.save(far_model(), "original.onnx")
    in_a_process(f"import {far}, opgraft; opgraft.prepare('original.onnx').save('model.onnx')")
    (module_folder / f"{far}.py").write_text("")
    done = call(command, "--allow", far)
    assert done.returncode == 1
    assert (
        f"the module '{far}' does not (or no longer) declare it; expected "
        '@opgraft.op("far::Scale")' in done.stderr
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
    assert "not defined here: far::Scale" in done.stderr and "--import MODULE" in done.stderr
    subprocess.run([*command, "--import", far], capture_output=True, check=True)
    runner = [_library.runner_path(), "--onnxruntime", _library.runtime_library()]
    done = subprocess.run(
        [*runner, "--import", far, "--input", "x=x.npy", "model.onnx"],
        capture_output=True, text=True, check=False,
        env={"OPGRAFT_PYTHON": sys.executable, "PYTHONPATH": "."},
    )  # fmt: skip
    assert done.stdout == "y float32 (2)\n0 3\n", done.stderr
