"""The code of docs/torch.md on operators of one's own, and that of the README, run as it stands."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
SECTIONS = ("Operators in eager mode", "Gradients", "Export with plain torch.onnx.export")


def blocks_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.S)


def run_example(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "example.py").write_text(code)
    return subprocess.run(
        [sys.executable, "example.py"], cwd=folder, capture_output=True, text=True, check=False
    )


def sections(page: str) -> str:
    text = (REPOSITORY / page).read_text()
    parts = re.split(r"^## ", text, flags=re.M)
    found = [part for part in parts if part.startswith(SECTIONS)]
    assert len(found) == len(SECTIONS)
    return "\n".join(found)


def test_the_guide(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", sections("docs/torch.md"), re.S))
    # A comment behind an expression is what it gives.
    result = re.compile(r"^(\S.*?) {2,}# ((?:tensor|\[array).*)$", re.M)
    assert len(result.findall(code)) >= 5
    checked = result.sub(r"assert repr(\1) == r'''\2''', \1", code)
    checked += """
a = (torch.rand(2, 3, 3, dtype=torch.float64) + 2 * torch.eye(3)).requires_grad_()
assert torch.autograd.gradcheck(torch.ops.com_microsoft.Inverse, (a,))
table = opgraft.torch.translation_table()
assert torch.ops.aten.lgamma.default in table
"""
    done = run_example(checked, tmp_path)
    assert done.returncode == 0, done.stderr


def test_docstrings() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.ops.mylibrary.AddAndRound(x)

    @opgraft.op("mylibrary::AddAndRound", shape=lambda x: x)
    def add_and_round(x: np.ndarray) -> np.ndarray:
        return np.round(x + x)

    names = {"torch": torch, "opgraft": opgraft, "model": Model().eval(), "x": torch.rand(3)}
    runner = doctest.DocTestRunner()
    for function in ("operator", "register_backward", "translation_table"):
        found = doctest.DocTestFinder().find(getattr(opgraft.torch, function), globs=names)
        assert any(test.examples for test in found), function
        for test in found:
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    x = torch.tensor([0.5], requires_grad=True)
    torch.ops.mylibrary.AddAndRound(x).backward()
    assert x.grad.item() == 2


def test_a_model_with_missing_operators_in_the_readme(tmp_path: Path) -> None:
    blocks = blocks_of("README.md")
    (code,) = (block for block in blocks if "program.report" in block)
    done = run_example(code, tmp_path)
    assert done.returncode == 0, done.stderr
    for operator, became in (
        ("relu", "ONNX"),
        ("inverse", "pack: com.microsoft::Inverse"),
        ("linalg_svdvals", "ATen node"),
    ):
        assert re.search(rf"^aten::{operator} +1  {became}", done.stdout, re.M), done.stdout


def test_the_program_of_the_guide_to_gpus(tmp_path: Path) -> None:
    """Which runs without a GPU too."""
    code = blocks_of("docs/cuda.md")[0]
    (expected,) = re.findall(r"^print.*# (\[.*\])$", code, re.M)
    done = run_example(code, tmp_path)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="tests/cuda has what runs on a GPU")
def test_the_first_operator_for_gpus_without_one(tmp_path: Path) -> None:
    """All of it is there but the GPU, and the error says so."""
    page = (REPOSITORY / "docs" / "start" / "gpu.md").read_text()
    (code,) = re.findall(r"    ```python\n(.*?)    ```", page, re.S)
    code = textwrap.dedent(code)
    done = run_example(code, tmp_path)
    assert done.returncode == 1
    assert "opgraft.UnavailableError: " in done.stderr
    assert "my::Scale: it runs on GPUs alone, and OpgraftCUDA is not available: " in done.stderr
