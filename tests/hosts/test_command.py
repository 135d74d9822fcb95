"""The command `opgraft`, as a user types it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import opgraft
from conftest import floats, pyop_model, save_with_external_weight


def opgraft_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("opgraft")
    return subprocess.run(
        [command, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with the module, the model and an input."""
    (tmp_path / "mymodule.py").write_text("class Op:\n    def compute(self, x): return x + x")
    onnx.save(pyop_model("mymodule"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", floats(3))
    return tmp_path


@pytest.mark.parametrize("host", [[], ["--host", "python"], ["--host", "cpp"]])
def test_run(folder: Path, host: list[str]) -> None:
    done = opgraft_command(
        "run", "model.onnx", "--input", "x=x.npy", "--allow", "mymodule", *host, cwd=folder
    )
    assert (done.returncode, done.stdout) == (0, "y float32 (3)\n0 2 4\n"), done.stderr


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_outputs_that_are_no_tensors(folder: Path, host: str) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        agraph (float[n] x) => (seq(float[n]) s, float[n] y) {
            y = Neg (x)  s = SequenceConstruct (x, y) }""")
    onnx.save(model, folder / "sequence.onnx")
    arguments = ["run", "sequence.onnx", "--input", "x=x.npy", "--host", host]
    done = opgraft_command(*arguments, "--output", "y=y.npy", cwd=folder)
    shown = "s sequence (2)\n[float32 (3): 0 1 2] [float32 (3): -0 -1 -2]\n"
    shown += "y float32 (3)\n-0 -1 -2\n"
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
    assert (np.load(folder / "y.npy") == -floats(3)).all()
    done = opgraft_command(*arguments, "--output", "s=s.npy", cwd=folder)
    assert (done.returncode, done.stdout) == (1, shown)
    assert "Error: --output s: it is not a tensor, and .npy files only hold tensors" in done.stderr


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_maps_of_probabilities(folder: Path, host: str) -> None:
    """Converted classifiers have such outputs."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
        agraph (float[n] x) => (seq(map(string, float)) p, seq(map(int64, float)) q) {
            one = Constant <value = int64[1] {1}> ()
            rows = Unsqueeze (x, one)
            both = Concat <axis = 1> (rows, rows)
            p = ai.onnx.ml.ZipMap <classlabels_strings = ["no", "yes"]> (both)
            q = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5]> (both) }""")
    onnx.save(model, folder / "maps.onnx")
    np.save(folder / "x.npy", np.array([0.25, 0.1], np.float32))
    done = opgraft_command("run", "maps.onnx", "--input", "x=x.npy", "--host", host, cwd=folder)
    shown = 'p sequence (2)\n{"no": 0.25, "yes": 0.25} {"no": 0.100000001, "yes": 0.100000001}\n'
    shown += "q sequence (2)\n{3: 0.25, 5: 0.25} {3: 0.100000001, 5: 0.100000001}\n"
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_run_refused(folder: Path, host: str) -> None:
    done = opgraft_command("run", "model.onnx", "--input", "x=x.npy", "--host", host, cwd=folder)
    assert done.returncode == 1
    assert "PolicyError: node 'node', operator mymodule.Op" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["python", "cpp"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the model's input 'x' is missing: --input x=FILE.npy"),
        (["--input", "x"], "--input x: expected NAME=FILE.npy"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "--input x is given twice"),
        (["--input", "x=none.npy"], "none.npy"),
        (["--input", "x=mymodule.py"], "not a .npy file"),
        (["--input", "x=x.npy", "--input", "z=x.npy"], "--input z: the model has no such input"),
        (["--input", "x=x.npy", "--output", "z=z.npy"], "--output z: the model has no such output"),
        (["--input", "x=x.npy", "--output", "y=no/y.npy"], "No such file"),
        (["--input", "x=double.npy"], "float64|tensor(double)"),
    ],
)
def test_run_used_wrongly(folder: Path, host: str, arguments: list[str], message: str) -> None:
    np.save(folder / "double.npy", np.zeros(3))
    done = opgraft_command(
        "run", "model.onnx", "--allow", "mymodule", "--host", host, *arguments, cwd=folder
    )
    assert done.returncode == 1
    assert any(part in done.stderr for part in message.split("|")), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_input_of_another_type_or_shape_is_named(folder: Path) -> None:
    onnx.save(pyop_model("mymodule", shape=["n", 3]), folder / "model.onnx")
    for value in (np.zeros((2, 3)), np.zeros((2, 4), np.float32), np.zeros(3, np.float32)):
        np.save(folder / "x.npy", value)
        done = opgraft_command(
            "run", "model.onnx", "--allow", "mymodule", "--input", "x=x.npy", cwd=folder
        )
        assert f"input 'x' (x.npy) is {value.dtype} {value.shape}, but the model" in done.stderr
        assert "takes float32 (?, 3)" in done.stderr


def test_arrays_in_another_order(folder: Path) -> None:
    """ONNX Runtime itself would read wrong numbers from the first one."""
    for value in (floats(3).astype(">f4"), np.asfortranarray(floats(3))):
        np.save(folder / "x.npy", value)
        done = opgraft_command(
            "run", "model.onnx", "--allow", "mymodule", "--input", "x=x.npy", cwd=folder
        )
        assert done.stdout == "y float32 (3)\n0 2 4\n"


def test_an_operator_that_the_runtime_lacks(folder: Path) -> None:
    model = pyop_model("mymodule")
    model.graph.node[0].domain, model.graph.node[0].op_type = "", "ImageDecoder"
    del model.graph.node[0].attribute[:]
    onnx.save(model, folder / "model.onnx")
    done = opgraft_command("run", "model.onnx", "--input", "x=x.npy", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("opgraft: ")
    assert "Traceback" not in done.stderr


def test_version(folder: Path) -> None:
    first, *others = opgraft_command("--version", cwd=folder).stdout.splitlines()
    assert first == f"opgraft {opgraft.__version__}"
    assert f"onnxruntime {onnxruntime.__version__}" in others
    assert f"numpy {np.__version__}" in others and f"onnx {onnx.__version__}" in others
    assert f"python {platform.python_version()}" in others
    assert "packs libopgraft_contrib.so" in others


def test_prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = opgraft_command("prepare", "model.onnx", "prepared.onnx", cwd=folder)
    assert done.returncode == 0
    assert "node 'node' runs mymodule.Op" in done.stdout
    assert "opgraft.register(sess_options, allow=['mymodule'])" in done.stdout
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)  # from another test
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=["mymodule"])
    session = onnxruntime.InferenceSession(folder / "prepared.onnx", options)
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, 2])
    del sys.modules["mymodule"]


def test_prepare_for_another_runtime(folder: Path) -> None:
    done = opgraft_command(
        "prepare", "model.onnx", "prepared.onnx", "--runtime", "1.22.1", cwd=folder
    )
    assert done.returncode == 0
    model = onnx.load(folder / "prepared.onnx")
    versions = {entry.domain: entry.version for entry in model.opset_import}
    assert (model.ir_version, versions) == (10, {"": 22, "ai.opgraft": 1})


def test_prepare_keeps_external_data_where_it_is(folder: Path) -> None:
    save_with_external_weight(pyop_model("mymodule", inputs=("weight",)), folder, 1)
    assert opgraft_command("prepare", "model.onnx", "prepared.onnx", cwd=folder).returncode == 0
    assert (folder / "prepared.onnx").stat().st_size < 1000
    done = opgraft_command(
        "run", "prepared.onnx", "--allow", "mymodule", "--host", "cpp", cwd=folder
    )
    assert done.stdout.startswith("y float32 (1000)\n2 2 2 "), done.stderr
    assert done.stdout.endswith(" 2 ...\n")


def test_prepare_refused(folder: Path) -> None:
    done = opgraft_command("prepare", "mymodule.py", "prepared.onnx", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("opgraft: ModelError: 'mymodule.py' is not an ONNX model")
    assert not (folder / "prepared.onnx").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "model.onnx", "--input", "x=x.npy", "--allow", "mymodule"],
        ["run", "model.onnx", "--input", "x=x.npy", "--allow", "mymodule", "--host", "cpp"],
        ["prepare", "model.onnx", "prepared.onnx"],
        ["doctor", "model.onnx"],
        ["doctor", "model.onnx", "--json"],
        ["new", "my.domain::Scale"],
    ],
)
@pytest.mark.parametrize("is_buffered", [True, False])
def test_nobody_reads(folder: Path, arguments: list[str], is_buffered: bool) -> None:
    """As in `opgraft doctor model.onnx | head -3`: it ends without a message."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [Path(sys.executable).with_name("opgraft"), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "" if is_buffered else "1"},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == ""


def test_nobody_reads_errors(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [Path(sys.executable).with_name("opgraft"), "run", "none.onnx"]
        done = subprocess.run(command, cwd=folder, stderr=writing, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 141
