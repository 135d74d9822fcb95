"""The operators of this pack against NumPy, and against ONNX Runtime's own kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnxruntime
import pytest
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


def test_gelu_against_its_formula() -> None:
    x = np.linspace(-8, 8, 10_001, dtype="f4")
    expected = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype("f8")]
    y = run_ours("Gelu", "Gelu (x)", "float[n] x", {"x": x})
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=3e-7)


def test_gelu_of_a_type_that_the_runtime_lacks() -> None:
    x = np.float64([-1, 0, 2])
    y = run_ours("Gelu", "Gelu (x)", "double[n] x", {"x": x})
    np.testing.assert_allclose(y, [-0.15865525393145707, 0, 1.9544997361036416], rtol=1e-14)


@pytest.mark.parametrize(
    "operator, node, inputs, feed",
    [
        ("Inverse", "Inverse (x)", "float[n, n] x", {"x": np.float32([[4, 7], [2, 6]])}),
        ("Gelu", "Gelu (x)", "float[n] x", {"x": np.float32([-1, 0, 1])}),
        (
            "Trilu",
            "Trilu (x, k)",
            "float[n, m] x, int64 k",
            {"x": np.ones((3, 3), "f4"), "k": np.array(1)},
        ),
    ],
)
def test_the_runtime_s_own_kernel_runs_unless_ours_is_preferred(
    operator: str, node: str, inputs: str, feed: dict[str, Any]
) -> None:
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
