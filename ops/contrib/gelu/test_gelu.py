"""Tests Gelu against its formula, and against ONNX Runtime's own kernel."""

from __future__ import annotations

import math

import numpy as np
from operator_models import check_both_kernels, run_ours


def test_gelu_against_its_formula() -> None:
    x = np.linspace(-8, 8, 10_001, dtype="f4")
    expected = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype("f8")]
    y = run_ours("Gelu", "Gelu (x)", "float[n] x", {"x": x})
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=3e-7)


def test_gelu_of_a_type_that_the_runtime_lacks() -> None:
    x = np.float64([-1, 0, 2])
    y = run_ours("Gelu", "Gelu (x)", "double[n] x", {"x": x})
    np.testing.assert_allclose(y, [-0.15865525393145707, 0, 1.9544997361036416], rtol=1e-14)


def test_gelu_of_the_runtime_runs_unless_ours_is_preferred() -> None:
    check_both_kernels("Gelu", "Gelu (x)", "float[n] x", {"x": np.float32([-1, 0, 1])})
