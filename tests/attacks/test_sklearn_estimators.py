"""Stored estimators that are tampered with: refused by hosts that allow nothing, errors of ours in
those that allow sklearn.

None writes a file, starts a process, imports a module or ends the process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")

import sklearn_compiled  # noqa: F401  (registers the attacks)
import sklearn_tampered  # noqa: F401  (registers the attacks)
from sklearn_attacks import ATTACKS, ROWS, TELLTALE

from conftest import HOST_PYTHON
from opgraft._base._library import runner_path, runtime_library

PROGRAM = Path(__file__).with_name("sklearn_attacks.py")
#: In C++ each is a process of its own.
IN_CPP = ["stack_writes_a_file", "threshold_fits", "labels_beyond_the_classes"]


def environment(**more: str) -> dict[str, str]:
    folders = [str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(folders), **more}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    from sklearn_attacks import write

    write(folder)
    return folder


def run_all(models: Path, folder: Path, host: str, allow: str) -> dict[str, str]:
    """What became of each model, all of which one process has run in a folder of its own."""
    (folder / f"{TELLTALE}.py").write_text("def function(X):\n    return X\n")
    before = sorted(os.listdir(folder))
    done = subprocess.run(
        [sys.executable, PROGRAM, "run", models, host],
        cwd=folder,
        env=environment(OPGRAFT_ALLOW=allow, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line]
    found = dict(lines)
    found["process"] = f"{done.returncode} {done.stderr[-3000:]}"
    found["files"] = ", ".join({*os.listdir(folder)} - {*before})
    return found


def check_nothing_else(outcomes: dict[str, str]) -> None:
    assert outcomes["process"].startswith("0 "), outcomes["process"]
    assert outcomes["did"] == ""
    assert outcomes["files"] == ""


@pytest.fixture(scope="module", params=["opgraft", "plain"])
def outcomes(
    request: pytest.FixtureRequest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    return run_all(models, tmp_path_factory.mktemp("process"), request.param, "sklearn")


@pytest.mark.parametrize("host", ["opgraft", "plain"])
def test_with_nothing_allowed(models: Path, tmp_path: Path, host: str) -> None:
    outcomes = run_all(models, tmp_path, host, "")
    for name in ATTACKS:
        assert "This host does not allow that" in outcomes.get(name, "never begun"), name
    check_nothing_else(outcomes)


def test_with_nothing_allowed_in_cpp(models: Path, tmp_path: Path) -> None:
    """Python is not started there."""
    np.save(tmp_path / "X.npy", ROWS)
    command = [runner_path(), "--onnxruntime", runtime_library(), "--input", "X=X.npy"]
    for name in ATTACKS:
        done = subprocess.run(
            [*command, models / f"{name}.onnx"],
            cwd=tmp_path,
            env={**environment(), "OPGRAFT_PYTHON": "/no/python/here", "OPGRAFT_ALLOW": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, (name, done)
        assert "This host does not allow that" in done.stderr, name
    assert os.listdir(tmp_path) == ["X.npy"]


@pytest.mark.parametrize("name", list(ATTACKS))
def test_it_is_an_error_of_ours(outcomes: dict[str, str], name: str) -> None:
    outcome, expected = outcomes.get(name, "never begun"), ATTACKS[name][2]
    if expected:
        assert re.search(expected, outcome), outcome
    else:
        assert outcome.startswith("ran: (3, "), outcome


def test_the_process_goes_on_and_does_nothing_else(outcomes: dict[str, str]) -> None:
    check_nothing_else(outcomes)


@pytest.mark.skipif(sys.executable != HOST_PYTHON, reason="scikit-learn is not in that Python")
@pytest.mark.parametrize("name", IN_CPP)
def test_in_cpp(models: Path, tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "X.npy", ROWS)
    command = [runner_path(), "--onnxruntime", runtime_library(), "--allow", "sklearn"]
    command += ["--input", "X=X.npy", models / f"{name}.onnx"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(OPGRAFT_PYTHON=HOST_PYTHON),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    assert re.search(ATTACKS[name][2], done.stderr), done.stderr
    assert os.listdir(tmp_path) == ["X.npy"]
