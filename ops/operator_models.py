"""Models of one node, for Python tests that compare ours with ONNX Runtime's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import parser

import opgraft


def model(node: str, inputs: str, version: int = 1) -> bytes:
    return bytes(
        parser.parse_model(
            f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": {version}]>'
            f"graph ({inputs}) => (y) {{ y = com.microsoft.{node} }}"
        ).SerializeToString()
    )


def run_ours(operator: str, node: str, inputs: str, feed: dict[str, Any]) -> np.ndarray:
    session = opgraft.InferenceSession(model(node, inputs), prefer=[f"com.microsoft::{operator}"])
    return np.asarray(session.run(None, feed)[0])


def check_both_kernels(operator: str, node: str, inputs: str, feed: dict[str, Any]) -> None:
    """Checks that the runtime's own kernel runs unless ours is preferred, and that both agree."""
    name = f"com.microsoft::{operator}"
    for version in (1, 5):  # document 003 exports to version 5
        content = model(node, inputs, version)
        plain = opgraft.InferenceSession(content)
        ours = opgraft.InferenceSession(content, prefer=[name])
        np.testing.assert_allclose(plain.run(None, feed)[0], ours.run(None, feed)[0], rtol=1e-5)
    prepared = opgraft.prepare(content)
    assert prepared.packs == {}
    prepared = opgraft.prepare(content, prefer=[name])
    assert list(prepared.packs) == [name]
    assert prepared.packs[name].endswith("libopgraft_contrib.so")
    assert b"ai.opgraft.com.microsoft" in prepared.bytes
