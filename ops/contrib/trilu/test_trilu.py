"""Tests Trilu against NumPy, and against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import pytest
from operator_models import check_both_kernels, run_ours


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-3, 0, 2])
def test_trilu_against_numpy(upper: int, k: int) -> None:
    x = np.arange(1, 61, dtype="i8").reshape(3, 4, 5)
    y = run_ours(
        "Trilu",
        f"Trilu <upper = {upper}> (x, k)",
        "int64[a, b, c] x, int64 k",
        {"x": x, "k": np.array(k)},
    )
    np.testing.assert_array_equal(y, (np.triu if upper else np.tril)(x, k))


def test_trilu_of_the_runtime_runs_unless_ours_is_preferred() -> None:
    check_both_kernels(
        "Trilu",
        "Trilu (x, k)",
        "float[n, m] x, int64 k",
        {"x": np.ones((3, 3), "f4"), "k": np.array(1)},
    )
