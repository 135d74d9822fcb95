"""The examples of examples/torch_registry run, and print what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from packs import EXAMPLE, REPOSITORY, command

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")


def run(name: str, *arguments: str, folder: Path) -> list[str]:
    path = REPOSITORY / "examples" / "torch_registry" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, path, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("[torch.onnx]")]


def test_gelu(tmp_path: Path) -> None:
    assert run("gelu", folder=tmp_path) == ["['com.microsoft::Gelu']"]


def test_add_and_round(tmp_path: Path) -> None:
    done = command("build", EXAMPLE / "custom_op_library.cc", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (said,) = run("add_and_round", "./libcustom_op_library.so", folder=tmp_path)
    assert said == "['test.customop::CustomOpOne', 'test.customop::CustomOpTwo', '::Cast']"
    assert onnx.load(tmp_path / "add_and_round.onnx").graph.input[0].name == "x"


def test_inverse(tmp_path: Path) -> None:
    assert run("inverse", folder=tmp_path) == [
        f"dynamo={dynamo}, com.microsoft {version}: the same result as torch"
        for dynamo in (True, False)
        for version in (1, 5)
    ]


def test_each_example_is_tested() -> None:
    files = {path.stem for path in (REPOSITORY / "examples" / "torch_registry").glob("*.py")}
    assert files == {"gelu", "add_and_round", "inverse"}
