"""Operators that end their process: the message says how, and in which operator."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import opgraft
from conftest import HOST_PYTHON, pyop_model

ENDINGS = """
import ctypes, os, signal
class Abort:
    def compute(self, x): os.abort()
class Crash:
    def compute(self, x): return ctypes.string_at(8)
class Kill:
    def compute(self, x): os.kill(os.getpid(), signal.SIGKILL)
class Leave:
    def compute(self, x): os._exit(0)
class Made:
    def __init__(self): os.abort()
    def compute(self, x): return x
class Inner:
    def compute(self, x):
        import opgraft
        opgraft.InferenceSession("Double.onnx", allow=["endings"]).run(None, {"x": x})
        os.abort()
class Double:
    def compute(self, x): return x + x
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPGRAFT_PYTHON", HOST_PYTHON)
    (tmp_path / "endings.py").write_text(ENDINGS)
    np.save("x.npy", np.ones(3, np.float32))
    onnx.save(pyop_model("endings", "Double"), "Double.onnx")
    return tmp_path


def run(class_name: str, host: str) -> subprocess.CompletedProcess[str]:
    onnx.save(pyop_model("endings", class_name), "model.onnx")
    command = [sys.executable, "-m", "opgraft", "run", "model.onnx", "--host", host]
    command += ["--allow", "endings", "--input", "x=x.npy"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("class_name", "status", "who", "end"),
    [
        ("Abort", 128 + signal.SIGABRT, "opgraft-run: the process", "by SIGABRT inside"),
        ("Crash", 128 + signal.SIGSEGV, "opgraft-run: the process", "by SIGSEGV inside"),
        (
            "Made",
            128 + signal.SIGABRT,
            "opgraft-run: the process",
            "by SIGABRT inside the creation of",
        ),
        ("Inner", 128 + signal.SIGABRT, "opgraft-run: the process", "by SIGABRT inside"),
        ("Kill", 128 + signal.SIGKILL, "opgraft: opgraft-run", "by SIGKILL, inside"),
        ("Leave", 1, "opgraft: opgraft-run", "with status 0 by code that it ran, inside"),
    ],
)
def test_in_cpp(folder: Path, class_name: str, status: int, who: str, end: str) -> None:
    """Inner has run its own session before, whose operator does not end the process."""
    done = run(class_name, "cpp")
    assert done.returncode == status, done.stderr
    said = f"{who} was ended {end} node 'node', operator endings.{class_name}\n"
    assert said in done.stderr
    assert done.stderr.count("was ended") == 1
    assert done.stdout == ""


def test_an_operator_that_ends_nothing(folder: Path) -> None:
    done = run("Double", "cpp")
    assert (done.returncode, done.stderr) == (0, "")


def test_in_python(folder: Path) -> None:
    """Python itself prints the operator's line."""
    done = run("Crash", "python")
    assert done.returncode == -signal.SIGSEGV
    assert 'endings.py", line 6 in compute' in done.stderr


def test_the_record_of_the_program_itself(folder: Path) -> None:
    onnx.save(pyop_model("endings", "Kill"), "model.onnx")
    program = str(Path(opgraft.library_path()).parents[1] / "bin" / "opgraft-run")
    command = [program, "--onnxruntime", opgraft.runtime_library(), "--allow", "endings"]
    command += ["--input", "x=x.npy", "--record", "record", "model.onnx"]
    done = subprocess.run(
        command, env={"OPGRAFT_PYTHON": HOST_PYTHON, "OPGRAFT_PATH": "."}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    record = Path("record").read_bytes()
    assert record.startswith(b"running\0")
    assert record[64:].startswith(b"node 'node', operator endings.Kill\0")
