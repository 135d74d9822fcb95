"""Models and sessions for the fake GPU."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser
import onnxruntime
from fake_gpu import PROVIDERS

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
