"""ATen nodes in other hosts: a C++ program without Python, the command, plain sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import HOST_PYTHON
from opgraft._base._library import runtime_library

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_models import of_call  # noqa: E402

A = torch.ops.aten
LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aten") / "aten_host"
    library = Path(opgraft.library_path())
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(path)]
    command += [str(Path(__file__).with_name("aten_host.cc")), f"-I{opgraft.get_include()}"]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(of_call(A.linalg_inv.default, [torch.eye(3)]).model, path)
    return path


def run(
    program: Path, model: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [str(program), runtime_library(), str(model), "50", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_program_without_python(program: Path, model: Path) -> None:
    done = run(program, model)
    assert done.stdout == "0 wrong of 400; libtorch 1, libpython 0\n", done.stderr
    done = run(program, model, OPGRAFT_LIBTORCH=str(LIBRARY))
    assert done.stdout == "0 wrong of 400; libtorch 1, libpython 0\n", done.stderr


def test_libtorch_by_the_python_command(program: Path, model: Path, tmp_path: Path) -> None:
    """libopgraft.so lies alone, so that only the command can tell where torch is."""
    alone = tmp_path / "alone" / "lib"
    alone.mkdir(parents=True)
    library = alone / "libopgraft.so"
    library.write_bytes(Path(opgraft.library_path()).read_bytes())
    variables = {"LD_PRELOAD": str(library), "OPGRAFT_PYTHON": HOST_PYTHON}
    done = run(program, model, **variables)
    assert done.stdout == "0 wrong of 400; libtorch 1, libpython 0\n", done.stderr
    done = run(program, model, **{**variables, "OPGRAFT_PYTHON": "false"})
    assert done.returncode == 2
    assert done.stdout.startswith(
        "opgraft.UnavailableError: node 'it', operator aten::linalg_inv: "
    )
    assert "'false' has no package torch" in done.stdout


def test_what_a_program_allows(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(of_call(A.sigmoid_backward.default, [torch.ones(3), torch.ones(3)]).model, path)
    done = run(program, path)
    assert done.returncode == 2
    assert done.stdout.startswith("opgraft.PolicyError: node 'it', operator aten::sigmoid_backward")
    assert run(program, path, "aten::sigmoid_backward").returncode == 1  # it runs, and differs


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_the_command(model: Path, host: str) -> None:
    np.save(model.with_name("x.npy"), np.eye(3, dtype=np.float32) * 4)
    command = [sys.executable, "-m", "opgraft", "run", str(model), "--host", host]
    command += ["--input", f"x0={model.with_name('x.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("y0 float32 (3, 3)\n0.25 0 0"), done.stdout


def test_prepare_and_doctor(model: Path) -> None:
    prepared = str(model.with_name("prepared.onnx"))
    command = [sys.executable, "-m", "opgraft"]
    done = subprocess.run(
        [*command, "prepare", str(model), prepared], capture_output=True, text=True, check=True
    )
    assert "libtorch runs aten::linalg_inv\n" in done.stdout
    assert done.stderr == ""
    done = subprocess.run(
        [*command, "doctor", str(model)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_plain_session() -> None:
    case = of_call(A.linalg_svd.default, [torch.eye(3)])
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    session = onnxruntime.InferenceSession(opgraft.prepare(case.model).bytes, options)
    for got, expected in zip(session.run(None, case.feed), case.expected, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
