"""Models and sessions for the fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import onnx
import onnx.parser
import onnxruntime
from fake_gpu import PROVIDERS, build_driver, build_operators

import opgraft


def model(
    body: str, inputs: str = "float[n, m] x", outputs: str = "float[n, m] y"
) -> onnx.ModelProto:
    graph = f"g ({inputs}) => ({outputs}) {{ {body} }}"
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18, "my": 1, "test.cuda": 1]> {graph}'
    )


def session(body: str, *arguments: str, **named: Any) -> opgraft.InferenceSession:
    """One with the provider, which does not log."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return opgraft.InferenceSession(
        model(body, *arguments), options, **{"providers": PROVIDERS, **named}
    )


def in_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, with the pack and a model at hand."""
    begin = f"""
    import numpy as np, onnx.parser, opgraft
    opgraft.load({str(build_operators())!r})
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    MODEL = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 18, "test.cuda": 1]> '
        'g (float[n, m] x) => (float[n, m] y) {{ y = test.cuda.Twice(x) }}')
    def session():
        return opgraft.InferenceSession(MODEL, providers={PROVIDERS!r})
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPGRAFT_CUDA_DRIVER": str(build_driver()), **environment},
    )
