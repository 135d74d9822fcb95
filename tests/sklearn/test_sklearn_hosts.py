"""Converted scikit-learn models in processes that have not made them: Python, C++, plain ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")

import onnxruntime
from iris_data import X, y
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

import opgraft
import opgraft.sklearn
from conftest import HOST_PYTHON, Write
from opgraft import _command
from opgraft._base._library import runner_path, runtime_library


def fitted(*first: Any) -> Any:
    steps = (MinMaxScaler(clip=True), NMF(3, random_state=0, max_iter=900))
    return make_pipeline(*first, *steps, LogisticRegression(max_iter=300)).fit(X, y)


def run_cpp(folder: Path, *allow: str, **environment: str) -> subprocess.CompletedProcess[str]:
    np.save(folder / "X.npy", X)
    command = [runner_path(), "--onnxruntime", runtime_library()]
    for name in allow:
        command += ["--allow", name]
    command += ["--input", f"X={folder}/X.npy", "--output", f"label={folder}/label.npy"]
    command += ["--output", f"probabilities={folder}/probabilities.npy", f"{folder}/model.onnx"]
    variables = {**os.environ, "OPGRAFT_PYTHON": HOST_PYTHON, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)


def save(estimator: Any, folder: Path) -> onnx.ModelProto:
    model = opgraft.sklearn.to_onnx(estimator, X, options={"zipmap": False})
    onnx.save(model, folder / "model.onnx")
    return model


def check(estimator: Any, folder: Path) -> None:
    assert (np.load(folder / "label.npy") == estimator.predict(X)).all()
    probabilities = np.load(folder / "probabilities.npy")
    np.testing.assert_allclose(probabilities, estimator.predict_proba(X), atol=1e-4)


@pytest.mark.skipif(sys.executable != HOST_PYTHON, reason="scikit-learn is not in that Python")
def test_in_cpp(tmp_path: Path) -> None:
    """A pipeline with one step in Python, which the host allows."""
    estimator = fitted()
    model = save(estimator, tmp_path)
    assert len(opgraft.sklearn.python_steps(model)) == 1
    done = run_cpp(tmp_path)
    assert done.returncode != 0 and 'allow=["sklearn"]' in done.stderr
    done = run_cpp(tmp_path, "sklearn")
    assert done.returncode == 0, done.stderr
    check(estimator, tmp_path)


FUNCTION = "def half(X):\n    return X / 2\n"


@pytest.mark.skipif(sys.executable != HOST_PYTHON, reason="scikit-learn is not in that Python")
def test_a_users_function_in_cpp(tmp_path: Path, write_module: Write, module_folder: Path) -> None:
    import importlib

    module = write_module(FUNCTION)
    estimator = fitted(FunctionTransformer(importlib.import_module(module).half))
    save(estimator, tmp_path)
    done = run_cpp(tmp_path, "sklearn", PYTHONPATH=str(module_folder))
    assert done.returncode != 0
    assert "PolicyError" in done.stderr and f'"{module}.half"' in done.stderr
    done = run_cpp(tmp_path, "sklearn", f"{module}.half", PYTHONPATH=str(module_folder))
    assert done.returncode == 0, done.stderr
    check(estimator, tmp_path)
    done = run_cpp(tmp_path, "sklearn", f"{module}.half")
    assert done.returncode != 0 and "PYTHONPATH" in done.stderr


def test_prepare_prints_all_that_must_be_allowed(
    tmp_path: Path,
    write_module: Write,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import importlib

    module = write_module(FUNCTION)
    save(fitted(FunctionTransformer(importlib.import_module(module).half)), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert _command.main(["prepare", "model.onnx", "prepared.onnx"]) == 0
    wanted = sorted(["sklearn", f"{module}.half"])
    assert f"allow={wanted!r}" in capfd.readouterr().out


def test_in_another_python(tmp_path: Path) -> None:
    estimator = fitted()
    save(estimator, tmp_path)
    np.save(tmp_path / "X.npy", X)
    code = """
import sys
import numpy as np, opgraft
session = opgraft.InferenceSession("model.onnx", allow=["sklearn"])
label, probabilities = session.run(None, {"X": np.load("X.npy")})
np.save("label.npy", label), np.save("probabilities.npy", probabilities)
print("skl2onnx" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"  # what exports is not needed to run
    check(estimator, tmp_path)


def test_in_a_plain_session(tmp_path: Path) -> None:
    estimator = fitted()
    prepared = opgraft.prepare(save(estimator, tmp_path))
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    session = onnxruntime.InferenceSession(prepared.bytes, options)
    label, _ = session.run(None, {"X": X})
    assert (label == estimator.predict(X)).all()


def test_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    estimator = fitted()
    model = opgraft.sklearn.to_onnx(estimator, X, options={"zipmap": False})
    session = opgraft.InferenceSession(model)
    wanted = estimator.predict(X)

    def run(_: int) -> bool:
        return bool((session.run(None, {"X": X})[0] == wanted).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))
