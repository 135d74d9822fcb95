"""Messages of `opgraft run` about wrong inputs and operators that end it, in both hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import HOST_PYTHON, pyop_model

hosts = pytest.mark.parametrize("host", ["python", "cpp"])


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPGRAFT_PYTHON", HOST_PYTHON)


def run(host: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "opgraft", "run", "--host", host, "model.onnx", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr


def add(given: np.ndarray, host: str) -> str:
    """Runs a model of two inputs with `given` as the second."""
    head = '<ir_version: 10, opset_import: ["": 21]>'
    graph = "graph (double[n] a, double[n] b) => (double[n] y) { y = Add(a, b) }"
    onnx.save(onnx.parser.parse_model(f"{head} {graph}"), "model.onnx")
    np.save("a.npy", np.ones(3))
    np.save("b.npy", given, allow_pickle=True)
    return run(host, "--input", "a=a.npy", "--input", "b=b.npy")


@hosts
def test_a_type_that_the_model_does_not_take(host: str) -> None:
    said = add(np.ones(3, np.float32), host)
    assert "input 'b'" in said and "float32" in said and "but the model takes float64" in said
    assert "Unexpected input data type" not in said


@hosts
def test_objects_are_not_read(host: str) -> None:
    said = add(np.array(["a", None, 3], dtype=object), host)
    assert "b.npy" in said
    assert (
        "holds pickled Python objects, which are not read because they may run code. Fix: " in said
    )


@hosts
def test_the_line_that_ended_the_process(host: str) -> None:
    Path("aborting.py").write_text(
        "import os\n\n\nclass Op:\n    def compute(self, x):\n        os.abort()\n"
    )
    onnx.save(pyop_model("aborting"), "model.onnx")
    np.save("x.npy", np.ones(3, np.float32))
    said = run(host, "--allow", "aborting", "--input", "x=x.npy")
    assert 'aborting.py", line 6 in compute' in said


@hosts
def test_a_module_that_is_not_found_is_told_once(host: str) -> None:
    onnx.save(pyop_model("not_there_at_all"), "model.onnx")
    np.save("x.npy", np.ones(3, np.float32))
    said = run(host, "--allow", "not_there_at_all", "--input", "x=x.npy")
    assert said.count("No module named 'not_there_at_all'") == 1
    assert "must be on Python's path" in said and "Traceback" not in said


@hosts
def test_a_module_that_is_not_found_by_another_is_told_with_its_line(host: str) -> None:
    Path("importing.py").write_text("import not_there_at_all\n")
    onnx.save(pyop_model("importing"), "model.onnx")
    np.save("x.npy", np.ones(3, np.float32))
    said = run(host, "--allow", "importing", "--input", "x=x.npy")
    assert 'importing.py", line 1' in said
