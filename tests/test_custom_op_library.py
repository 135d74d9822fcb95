"""The example examples/custom_op_library, built both ways, in the model of PyTorch's tutorial.

It runs in a plain ONNX Runtime session, in a process that cannot import opgraft.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from packs import EXAMPLE, command

# The second half of the tutorial: the model that its exporter writes for torch.round(x + x).
MODEL = """<ir_version: 8, opset_import: ["": 18, "test.customop": 1]>
    graph (float[n] x) => (float[n] y) {
        add_x = test.customop.CustomOpOne (x, x)
        round_x = test.customop.CustomOpTwo (add_x)
        y = Cast <to = 1> (round_x)
    }"""

LARGEST = 2**31 - 128  # the largest float that an int32 can hold

PROGRAM = """
import sys
try:
    import opgraft
except ModuleNotFoundError:
    pass
else:
    sys.exit("opgraft is there")
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(sys.argv[1])
session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
np.save(sys.argv[4], session.run(None, {"x": np.load(sys.argv[3])})[0])
"""


@pytest.fixture(scope="module")
def built_by_command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    done = command("build", EXAMPLE / "custom_op_library.cc", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "libcustom_op_library.so\n"), done.stderr
    return folder / "libcustom_op_library.so"


@pytest.fixture(scope="module")
def built_by_cmake(cmake_build: Path) -> Path:
    return cmake_build / "example" / "libcustom_op_library.so"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All installed packages except opgraft."""
    folder = tmp_path_factory.mktemp("packages")
    for module in (onnxruntime, onnx, np):
        for path in Path(module.__file__ or "").parents[1].iterdir():
            if "opgraft" not in path.name and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize("way", ["built_by_command", "built_by_cmake"])
def test_the_tutorials_model_without_opgraft(
    way: str, request: pytest.FixtureRequest, packages: Path, tmp_path: Path
) -> None:
    library = request.getfixturevalue(way)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    x = np.float32([0.1, -1.3, 0.25, 0.75, 1.25, -0.25, -0.75, 3e9, -3e9, np.inf, np.nan])
    np.save(tmp_path / "x.npy", x)
    names = [library, "model.onnx", "x.npy", "y.npy"]
    variables = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, *map(str, names)],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # torch.round and np.round round halves to the even number.
    expected = [*np.round(x[:7] + x[:7]), LARGEST, -(2**31), LARGEST, 0]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.float32(expected))


def test_tensors_of_different_shapes_are_refused(built_by_command: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18, "test.customop": 1]> '
        "graph (float[n] x, float[m] y) => (float[n] z) { z = test.customop.CustomOpOne (x, y) }"
    )
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(built_by_command))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    with pytest.raises(Exception, match="CustomOpOne.*x and y differ in shape"):
        session.run(None, {"x": np.zeros(2, np.float32), "y": np.zeros(3, np.float32)})
