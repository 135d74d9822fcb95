"""Processes with OpgraftCUDA, and without a GPU, on the fake driver; and the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from fake_gpu import build_driver, build_operators, needs_plugins
from fake_models import in_process, model

pytestmark = needs_plugins
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"OPGRAFT_CUDA_DRIVER": "/nowhere/libcuda.so"}, "there is no driver of CUDA"),
        ({"FAKE_CUDA_INIT": "100"}, "CUDA cannot start: an error of the fake driver"),
        ({"FAKE_CUDA_GPUS": "0"}, "CUDA sees no GPU"),
    ],
)
def test_without_a_gpu_the_session_says_so_and_runs_on_the_cpu(
    environment: dict[str, str], reason: str
) -> None:
    done = in_process("print(session().run(None, {'x': X})[0].sum())", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{(X * 2 + 1).sum()}\n"
    assert "OpgraftCUDA is not available" in done.stderr
    assert reason in done.stderr
    assert "Operators with a kernel for the CPU run there" in done.stderr
    assert done.stderr.count("libcuda.so") <= 1  # the system's words name it too


def test_an_operator_for_gpus_alone_says_why_there_is_none() -> None:
    code = "MODEL.graph.node[0].op_type = 'Copy'; session()"
    done = in_process(code, FAKE_CUDA_GPUS="0")
    assert re.search(
        r"UnavailableError: node '.*', operator test.cuda::Copy: it runs on GPUs alone, for these "
        r"types, and OpgraftCUDA is not available: CUDA sees no GPU",
        done.stderr,
    )


def test_the_memory_of_the_fake_faults() -> None:
    """Else the other tests would show nothing."""
    done = in_process(
        """
        import ctypes, onnxruntime
        one = session(); one.run(None, {"x": X})
        value = onnxruntime.OrtValue.ortvalue_from_numpy(X, "gpu", 0, 0x10DE)
        ctypes.string_at(value.data_ptr(), 4)
        """
    )
    assert done.returncode == -11


@pytest.mark.parametrize(
    "code",
    [
        "y = session().run(None, {'x': X})",
        "import onnxruntime; s = session(); b = s.io_binding(); b.bind_cpu_input('x', X);"
        "d = onnxruntime.OrtDevice.make('gpu', 0, 0x10DE)._get_c_device();"
        "b._iobinding.bind_output('y', d); s.run_with_iobinding(b); y = b.get_outputs()",
    ],
    ids=["session", "values"],
)
def test_the_process_ends_well(code: str) -> None:
    """With whatever is alive by then."""
    done = in_process(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_the_command_runs_on_the_gpu(tmp_path: Path, host: str) -> None:
    onnx.save(model("y = test.cuda.Twice(x)"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "libcuda.so").symlink_to(build_driver())

    def run(gpu: str, driver: str) -> subprocess.CompletedProcess[str]:
        options = ["--input", "x=x.npy", "--output", "y=y.npy", "--host", host, "--gpu", gpu]
        options += ["--pack", str(build_operators())]
        return subprocess.run(
            [sys.executable, "-m", "opgraft", "run", "model.onnx", *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "OPGRAFT_CUDA_DRIVER": str(tmp_path / driver)},
        )

    done = run("0", "libcuda.so")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), X * 2)
    for gpu, driver, reason in (
        ("9", "libcuda.so", "no GPU .*9"),
        ("first", "libcuda.so", "expected a number from 0 on, not 'first'"),
        ("0", "libother.so", "OpgraftCUDA is not available: there is no driver"),
    ):
        refused = run(gpu, driver)
        assert refused.returncode == (2 if gpu == "first" else 1)
        assert re.search(reason, refused.stderr)
