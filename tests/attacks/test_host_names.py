"""Names and paths that hosts give: one entry is one name, and what is no file is not read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest

import opgraft
from conftest import Write, pyop_model
from opgraft._base._library import runner_path, runtime_library

ECHO = "class Op:\n    def compute(self, x): return x"
ENTRIES = ["MODULE\0", "MODULE\0x", "MODULE,os", "os,MODULE", ",MODULE", "MODULE,", " MODULE"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_one_name(write_module: Write, entry: str) -> None:
    module = write_module(ECHO)
    entry = entry.replace("MODULE", module)
    model = pyop_model(module)
    for allow in ([entry], entry):
        with pytest.raises(opgraft.Error, match="the name of a Python module"):
            opgraft.InferenceSession(model, allow=allow)  # type: ignore[arg-type]
        with pytest.raises(opgraft.Error, match="the name of a Python module"):
            opgraft.register(onnxruntime.SessionOptions(), allow=allow)  # type: ignore[arg-type]
        with pytest.raises(opgraft.Error, match="the name of a Python module"):
            opgraft.prepare(model, allow=allow)  # type: ignore[arg-type]
    with pytest.raises(opgraft.Error, match="imports: .* the name of a Python module"):
        opgraft.InferenceSession(model, allow=[module], imports=[entry])
    with pytest.raises(opgraft.Error, match="prefer: .* is not the name of an operator"):
        opgraft.InferenceSession(model, allow=[module], prefer=[entry])
    assert module not in sys.modules


def test_a_list_in_the_environment_stays_one(
    write_module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module(ECHO)
    monkeypatch.setenv("OPGRAFT_ALLOW", f"other, {module}")
    opgraft.InferenceSession(pyop_model(module))


def run_cpp(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [runner_path(), "--onnxruntime", runtime_library(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("option", ["--allow", "--import", "--prefer"])
def test_an_option_of_a_cpp_program_is_one_name(tmp_path: Path, option: str) -> None:
    onnx.save(pyop_model("module_x"), tmp_path / "model.onnx")
    done = run_cpp(option, "module_x,os", str(tmp_path / "model.onnx"))
    assert done.returncode == 1
    assert "'module_x,os' is not a name: it contains a comma or a zero byte" in done.stderr


def test_a_path_does_not_end_at_a_zero(tmp_path: Path) -> None:
    onnx.save(pyop_model("m"), tmp_path / "model.onnx")
    for wrong in (f"{tmp_path}/model.onnx\0", f"{tmp_path}/model.onnx\0.bak"):
        for open_it in (opgraft.prepare, opgraft.InferenceSession):
            with pytest.raises(opgraft.ModelError, match="path contains a zero byte"):
                open_it(wrong)
        with pytest.raises((opgraft.Error, ValueError), match="null byte"):
            opgraft.load(wrong)


@pytest.fixture(params=["FIFO", "socket", "device", "directory"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A path, and what is said of it."""
    path = tmp_path / "model.onnx"
    if request.param == "FIFO":
        os.mkfifo(path)
    elif request.param == "socket":
        before = os.getcwd()
        os.chdir(tmp_path)  # the name of a socket must be short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(before)
    elif request.param == "directory":
        path.mkdir()
        return str(path), "Is a directory"
    else:
        return "/dev/zero", "it is a device, which may never end"
    return str(path), f"it is a {request.param}, which may never end"


def test_what_is_no_file_is_not_read(no_file: tuple[str, str]) -> None:
    path, said = no_file
    with pytest.raises(opgraft.ModelError, match=said):
        opgraft.InferenceSession(path)
    with pytest.raises(opgraft.ModelError, match=said):
        opgraft.prepare(path)
    done = run_cpp(path)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    command = [sys.executable, "-m", "opgraft", "doctor", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
