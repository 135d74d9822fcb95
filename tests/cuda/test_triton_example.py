"""examples/triton_operator runs, where there is a GPU and Triton."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton_operator" / "rms_norm.py"


def test_the_example() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    pytest.importorskip("triton", reason="triton is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(
        "my::RmsNorm of (1000, 768) on cuda:0: the same result as torch"
    ), done.stderr


def test_it_declares_what_it_says() -> None:
    """Where there is no Triton: all but the kernel."""
    pytest.importorskip("torch", reason="torch is not installed")
    code = f"""
import sys, types
jit = lambda kernel: kernel
language = types.ModuleType("triton.language")
language.constexpr = int
triton = types.ModuleType("triton")
triton.jit, triton.language = jit, language
sys.modules.update({{"triton": triton, "triton.language": language}})
sys.path.insert(0, {str(EXAMPLE.parent)!r})
import rms_norm, opgraft, onnx.parser
prepared = opgraft.prepare(onnx.parser.parse_model(rms_norm.MODEL))
print(prepared.report[0].operator)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "my::RmsNorm", done.stderr
