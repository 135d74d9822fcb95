"""What the tests on a real GPU share: operators for it, built by its own compiler, and models."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

import opgraft

_REPOSITORY = Path(__file__).resolve().parents[2]
PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]


def _why_not() -> str:
    """Why there is no GPU for these tests; "" where there is one."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "there is no GPU: run these tests where there is one (docs/cuda.md)"
    if shutil.which("nvcc") is None:
        return "there is no nvcc"
    return ""


needs_gpu = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


@functools.cache
def build_operators() -> Path:
    """The pack of operators_gpu.cu, as an author builds it."""
    source = Path(__file__).parent / "operators_gpu.cu"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    library = _REPOSITORY / "build" / "packs" / f"operators_gpu-{digest}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "opgraft", "build", str(source), "-o", str(library)]
        subprocess.run([*command, "--cuda-arch", "native"], check=True)
    return library


def model(
    body: str, inputs: str = "float[n, m] x", output: str = "float[n, m] y"
) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18, "test.cuda": 1]> g ({inputs}) => ({output}) '
        f"{{ {body} }}"
    )


def session(body: str, *arguments: Any, **named: Any) -> opgraft.InferenceSession:
    opgraft.load(build_operators())
    return opgraft.InferenceSession(model(body, *arguments), providers=PROVIDERS, **named)


def bind(one: opgraft.InferenceSession, x: Any, y: Any) -> Any:
    """A binding of tensors of torch's, in place."""
    import torch

    binding = one.io_binding()
    values = [
        runtime.OrtValue.from_dlpack(torch.utils.dlpack.to_dlpack(tensor), False)
        for tensor in (x, y)
    ]
    binding._iobinding.bind_ortvalue_input("x", values[0])
    binding._iobinding.bind_ortvalue_output("y", values[1])
    return binding
