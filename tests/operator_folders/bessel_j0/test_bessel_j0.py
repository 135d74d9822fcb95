"""BesselJ0 against torch: in a session, and its shape rule in onnx."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import parser

import opgraft

MODEL = parser.parse_model(
    '<ir_version: 10, opset_import: ["": 21, "ai.opgraft": 1]>'
    "g (float[n, 3] x) => (y) { y = ai.opgraft.BesselJ0 (x) }"
)


def test_values() -> None:
    x = np.linspace(-4, 4, 12, dtype="f4").reshape(4, 3)
    y = opgraft.InferenceSession(MODEL).run(None, {"x": x})[0]  # finds the pack
    right = torch.special.bessel_j0(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-6)


def test_shapes() -> None:
    opgraft.InferenceSession(MODEL)  # onnx knows the operators of packs that are loaded
    inferred = onnx.shape_inference.infer_shapes(MODEL, strict_mode=True)
    shape = inferred.graph.output[0].type.tensor_type.shape
    assert [one.dim_param or one.dim_value for one in shape.dim] == ["n", 3]
