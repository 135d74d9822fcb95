"""Tests Inverse against NumPy, and against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from operator_models import check_both_kernels, model, run_ours

import opgraft


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 3), (7, 5, 5), (2, 3, 20, 20), (130, 130), (0, 4, 4)]
)
@pytest.mark.parametrize("dtype, name", [("f4", "float"), ("f8", "double")])
def test_inverse_against_numpy(shape: tuple[int, ...], dtype: str, name: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x += shape[-1] * np.eye(shape[-1], dtype=dtype)
    y = run_ours("Inverse", "Inverse (x)", f"{name}[{', '.join('abcd'[: len(shape)])}] x", {"x": x})
    tolerance = 1e-5 if dtype == "f4" else 1e-12
    np.testing.assert_allclose(y, np.linalg.inv(x), rtol=tolerance, atol=tolerance)
    assert y.dtype == x.dtype


def test_inverse_with_several_threads_and_a_late_singular_matrix() -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 6, 6)).astype("f4") + 6 * np.eye(
        6, dtype="f4"
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 3
    session = opgraft.InferenceSession(
        model("Inverse (x)", "float[b, n, n] x"), options, prefer=["com.microsoft"]
    )
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.linalg.inv(x), atol=1e-5)
    x[12_345] = x[19_999] = 0
    with pytest.raises(opgraft.Error, match=r"Batch element 12345\): The diagonal element 1 is"):
        session.run(None, {"x": x})


def test_inverse_of_the_runtime_runs_unless_ours_is_preferred() -> None:
    check_both_kernels(
        "Inverse", "Inverse (x)", "float[n, n] x", {"x": np.float32([[4, 7], [2, 6]])}
    )
