"""Operators that run sessions that run the operators: an error where the stack would end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import opgraft
from conftest import HOST_PYTHON, Write, pyop_model
from opgraft._base._library import runner_path, runtime_library

pytestmark = pytest.mark.skipif(
    "san.so" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer takes a multiple of the stack"
)

# The process would end where the stack does.
PROGRAM = """
    import sys, threading
    import numpy as np, onnx, onnxruntime, opgraft
    import endless
    model, host, what = sys.argv[1:]
    sys.setrecursionlimit(100_000)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    def make(class_name):
        path = f"{model}/{class_name}.onnx"
        if host == "opgraft":
            return opgraft.InferenceSession(path, options, allow=["endless"])
        opgraft.register(options, allow=["endless"])
        return onnxruntime.InferenceSession(opgraft.prepare(path).bytes, options)
    endless.make = make
    if what == "run":
        endless.session = make("Run")
    def call():
        try:
            if what == "run":
                endless.session.run(None, {"x": np.zeros(1, np.float32)})
            else:
                make("Make")
        except Exception as error:
            text = str(error)
            start = text.rfind("operators and sessions call each other")
            print(text[start:start + 60])
    for size in (256, 1024, 2048) if what == "run" else (512, 1024):
        threading.stack_size(size * 1024)
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
"""
ENDLESS = """
    class Run:
        def compute(self, x):
            return session.run(None, {"x": x})[0]
    class Make:
        def __init__(self):
            make("Make")
        def compute(self, x):
            return x
"""


@pytest.mark.parametrize("what", ["run", "make"])
@pytest.mark.parametrize("host", ["opgraft", "onnxruntime"])
def test_on_small_stacks(
    write_module: Write, module_folder: Path, tmp_path: Path, host: str, what: str
) -> None:
    write_module(ENDLESS, name="endless")
    for class_name in ("Run", "Make"):
        onnx.save(pyop_model("endless", class_name), tmp_path / f"{class_name}.onnx")
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), host, what]
    environment = dict(os.environ, PYTHONPATH=str(module_folder))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert (done.returncode, len(said)) == (0, 3 if what == "run" else 2), done.stderr[-2000:]
    assert all(line.startswith("operators and sessions call each other ") for line in said), said


def test_in_a_cpp_program(write_module: Write, module_folder: Path, tmp_path: Path) -> None:
    """Its thread is that of ulimit -s, here of 2 MB."""
    write_module(
        f"""
        import sys, opgraft, onnxruntime
        sys.setrecursionlimit(100_000)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        inner = None
        class Op:
            def compute(self, x):
                global inner
                if inner is None:
                    path = "{tmp_path}/model.onnx"
                    inner = opgraft.InferenceSession(path, options, allow=["endless"])
                return inner.run(None, {{"x": x}})[0]
        """,
        name="endless",
    )
    onnx.save(pyop_model("endless"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.zeros(1, np.float32))
    command = [runner_path(), "--onnxruntime", runtime_library(), "--allow", "endless"]
    command += ["--input", f"x={tmp_path}/x.npy", str(tmp_path / "model.onnx")]
    environment = dict(os.environ, PYTHONPATH=str(module_folder), OPGRAFT_PYTHON=HOST_PYTHON)
    done = subprocess.run(
        ["bash", "-c", 'ulimit -s 2048; exec "$@"', "bash", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert "operators and sessions call each other" in done.stderr


def test_a_recursion_that_ends(write_module: Write) -> None:
    module = write_module(
        """
        session = None
        class Op:
            def compute(self, x):
                return x if x[0] <= 0 else 1 + session.run(None, {"x": x - 1})[0]
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    sys.modules[module].session = session
    try:
        assert session.run(None, {"x": np.float32([20])})[0] == 20
    finally:
        sys.modules[module].session = None


PARALLEL = """
    import sys
    import numpy as np, onnxruntime, opgraft
    import nested
    model = sys.argv[1]
    def options(mode):
        made = onnxruntime.SessionOptions()
        made.log_severity_level = 4
        made.execution_mode = mode
        made.inter_op_num_threads = 2
        return made
    MODE = onnxruntime.ExecutionMode
    outer = opgraft.InferenceSession(model, options(MODE.ORT_PARALLEL), allow=["nested"])
    feed = {"x": np.float32([3])}
    nested.session = outer
    try:
        outer.run(None, feed)
    except opgraft.PyOpError as error:
        print(str(error).splitlines()[-1])
    # With another session between.
    between = opgraft.InferenceSession(
        model, options(MODE.ORT_SEQUENTIAL), allow=["nested"])
    class Turns:
        count = 0
        def run(self, *arguments):
            self.count += 1
            return (between if self.count % 2 else outer).run(*arguments)
    nested.session = Turns()
    try:
        outer.run(None, feed)
    except opgraft.PyOpError as error:
        print(next(line for line in str(error).splitlines() if "ORT_PARALLEL" in line))
    # The way out.
    nested.session = opgraft.InferenceSession(
        model, options(MODE.ORT_SEQUENTIAL), allow=["nested"])
    print(outer.run(None, feed)[0])
"""


def test_an_operator_that_runs_its_own_session_in_parallel_mode(
    write_module: Write, module_folder: Path, tmp_path: Path
) -> None:
    write_module(
        """
        session = None
        class Op:
            def compute(self, x):
                return x if x[0] <= 0 else 1 + session.run(None, {"x": x - 1})[0]
        """,
        name="nested",
    )
    onnx.save(pyop_model("nested"), tmp_path / "model.onnx")
    command = [sys.executable, "-c", textwrap.dedent(PARALLEL), str(tmp_path / "model.onnx")]
    environment = dict(os.environ, PYTHONPATH=str(module_folder))
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *refused, result = done.stdout.splitlines()
    assert len(refused) == 2 and all("ORT_PARALLEL" in one for one in refused), refused
    assert result == "[3.]"
