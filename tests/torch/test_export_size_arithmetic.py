"""Numbers that a model computes from open sizes, of complex tensors too."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def exported(model: Any, x: Any) -> Any:
    """With an open first size that nothing is said against."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="dynamic_shapes leaves sizes open")
        warnings.filterwarnings("error", message="the exported model is valid for only some")
        return opgraft.torch.export(model, (x,), dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x / math.sqrt(x.shape[0]),
        lambda x: x * round(x.shape[0] / 4),
        lambda x: x[: round(x.shape[0] * 0.5)],
    ],
    ids=["sqrt", "round", "slice"],
)
def test_functions_of_an_open_size(model: Any) -> None:
    """torch's exporter has none of these. Of 2, 6, 10 and 14 a quarter lies between two integers,
    and Python rounds it to the even one."""
    program = exported(model, torch.rand(6, 2))
    assert program.report.is_portable
    for rows in (1, 2, 3, 5, 10, 14):
        x = torch.rand(rows, 2)
        torch.testing.assert_close(program(x)[0], model(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda z: z * z.shape[0],
        lambda z: z[: z.shape[0] // 2],
        lambda z: z[: z.size(-2) - 1] + z.shape[-1],
        lambda z: z @ torch.ones(3, 3, dtype=torch.complex64),
    ],
    ids=["product", "half", "negative axes", "matmul"],
)
def test_sizes_of_complex_tensors(model: Any) -> None:
    """ONNX has one axis more for them, the pair of parts, and torch's exporter no sizes at all."""
    program = exported(model, torch.randn(4, 3, dtype=torch.complex64))
    for rows in (2, 3, 9):
        z = torch.randn(rows, 3, dtype=torch.complex64)
        torch.testing.assert_close(program(z)[0], torch.view_as_real(model(z)))
