"""Operators that entries of PyTorch's operator database have shown to be wrong or refused."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

FLOATS = torch.tensor([0.5, -1.5, 2.0, 3.0])
INTEGERS = torch.tensor([1, -2, 3, 3])


def assert_right(model: Any, *args: torch.Tensor, portable: bool = True) -> Any:
    program = opgraft.torch.export(model, args)
    assert program.report.verified and program.report.is_portable is portable, program.report
    for got, wanted in zip(program(*args), model(*args), strict=True):
        torch.testing.assert_close(got, wanted)
    return program


def test_combinations() -> None:
    """How many there are is decided by the size, and was taken for data."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.combinations(x),
            torch.combinations(x, with_replacement=True),
            torch.combinations(x, 3),
            torch.combinations(x, 5),  # none
            torch.combinations(x, 5, with_replacement=True),
        )

    program = assert_right(model, FLOATS)
    other = torch.rand(4)
    for got, wanted in zip(program(other), model(other), strict=True):
        assert torch.equal(got, wanted)


def test_unique_consecutive_along_an_axis_that_is_counted_from_the_end() -> None:
    def model(x: torch.Tensor) -> Any:
        return (
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=-1),
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=-2),
            torch.unique_consecutive(x[0], dim=0),
        )

    x = torch.tensor([[1.0, 1.0, 2.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    program = assert_right(model, x)
    other = torch.tensor([[1.0, 2.0, 2.0], [1.0, 2.0, 2.0], [3.0, 2.0, 2.0]])
    for got, wanted in zip(program(other), model(other), strict=True):
        assert torch.equal(got, wanted)


def test_second_names_with_types_that_differ() -> None:
    """Of masked.var: an integer less a float is a float, by whichever name."""

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.subtract(x, y),
            torch.divide(y, x),
            torch.divide(x, 2),
            torch.multiply(x, y),
            torch.greater(x, y),
            torch.less_equal(x, y),
            torch.special.erf(x),
            torch.special.sinc(x),
        )

    assert_right(model, INTEGERS, FLOATS)
    assert_right(lambda x: [torch.masked.var(x, correction=-1)], INTEGERS)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_geometric(dtype: torch.dtype) -> None:
    """Its decomposition draws numbers of the tensor's type, and integers have none."""
    x = torch.empty(20_000, dtype=dtype)
    program = opgraft.torch.export(lambda x: x.clone().geometric_(0.25), (x,))
    assert program.report.is_portable and program.report.verified, program.report
    [got] = program(x)
    assert got.dtype == dtype and got.min() == 1
    # 4 throws on average; 1 with probability 0.25, 2 with 0.1875. Ten times the spread is allowed.
    assert abs(float(got.double().mean()) - 4) < 0.25
    for throws, share in ((1, 0.25), (2, 0.1875)):
        assert abs(float((got == throws).double().mean()) - share) < 0.03


def test_what_torch_itself_does_not_run() -> None:
    """An error of ours that names the operator, not torch's own from somewhere within."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.clone().geometric_(0.25)

    with pytest.raises(opgraft.Error, match=r"aten::rand_like.*not implemented for 'Long'"):
        opgraft.torch.export(model, (INTEGERS,), fallback="aten")
