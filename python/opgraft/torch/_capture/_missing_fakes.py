"""Fake functions for operators that torch.export cannot capture otherwise: the shapes of their
results.

Each takes and returns fake tensors, which have a shape and a type but no elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch import _private

aten = torch.ops.aten


@contextmanager
def fakes() -> Iterator[None]:
    """Registers these functions with torch for the duration of the context."""
    with _private.fake_functions(_FAKES, _DECOMPOSITIONS, _CORRECTIONS):
        yield


def has_fake(target: Any) -> bool:
    """Whether one of these functions replaces the operator. It must then not be decomposed: the
    result would be what the fake function does."""
    return target in _FAKES


def _like(tensor: torch.Tensor, shape: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return tensor.new_empty(tuple(shape), dtype=dtype)


def _cov(self: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
    dtype = self.dtype if self.dtype.is_floating_point or self.dtype.is_complex else torch.float32
    weights = [one for one in (*others, *named.values()) if isinstance(one, torch.Tensor)]
    if any(one.dtype == torch.float64 for one in weights):
        dtype = torch.promote_types(dtype, torch.float64)
    count: Any = self.shape[0] if self.ndim == 2 else 1
    is_one = isinstance(count, int) and count == 1  # of one variable it is a number
    return _like(self, () if is_one else (count, count), dtype)


def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    is_batched = log_probs.ndim == 3
    shape = (log_probs.shape[1],) if reduction == 0 and is_batched else ()
    return _like(log_probs, shape)


def _lstsq(
    self: torch.Tensor,
    b: torch.Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
) -> tuple[torch.Tensor, ...]:
    *batch, rows, columns = self.shape
    is_vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and tuple(b.shape) == (*batch, rows))
    right = () if is_vector else (b.shape[-1],)
    rows_of_b = b.shape[: b.ndim - 1 - (not is_vector)]
    batch = list(torch.broadcast_shapes(batch, rows_of_b))  # type: ignore[no-untyped-call]
    real = self.real.dtype if self.dtype.is_complex else self.dtype
    driver = driver or "gelsy"  # the default on the CPU
    has_residuals = rows > columns and driver != "gelsy"
    return (
        _like(self, (*batch, columns, *right)),
        _like(self, (*batch, *right) if has_residuals else (0,), real),
        _like(self, batch if driver != "gels" else (0,), torch.int64),
        _like(self, (*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,), real),
    )


def _narrow(self: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    """Uses operators that torch.export can capture: it cannot capture a view whose start depends on
    data."""
    first = torch.where(start < 0, start + self.shape[dim], start).reshape(1)
    return self.index_select(dim, first + torch.arange(length, device=self.device))


def _combinations(self: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """torch selects by masks, and torch.export does not know that each selects the same number."""
    if r == 0:
        return _like(self, (0,))
    size = int(self.shape[0])
    count = math.comb(size + r - 1, r) if with_replacement and size else math.comb(size, r)
    return _like(self, (count, r))


def _recurrent(
    input: torch.Tensor,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """For GRU and LSTM. torch runs them step by step to find the shapes, and would fix the number
    of steps to the example's."""
    states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
    size = states[0].shape[-1] * (2 if bidirectional else 1)
    steps, batch = (1, 0) if batch_first else (0, 1)
    output = _like(input, (input.shape[steps], input.shape[batch], size))
    output = output.transpose(0, 1) if batch_first else output
    return output, *(_like(input, one.shape) for one in states)


def _unique_consecutive(own: Callable[..., Any]) -> Callable[..., Any]:
    """Corrects torch's fake function, which gets negative axes wrong, and returns all three results
    along any axis."""

    def unique_consecutive(
        mode: Any,
        target: Any,
        x: torch.Tensor,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        axis = dim if dim is None or dim >= 0 else dim + x.dim()
        if dim == 0 and x.dim() == 1:  # the result is the same as without an axis
            axis = None
        return own(mode, target, x, return_inverse, return_counts, axis)

    return unique_consecutive


_FAKES: dict[Any, Callable[..., Any]] = {
    aten.combinations.default: _combinations,
    aten.cov.default: _cov,
    aten.corrcoef.default: _cov,
    aten.ctc_loss.IntList: _ctc_loss,
    aten.ctc_loss.Tensor: _ctc_loss,
    aten.gru.input: _recurrent,
    aten.linalg_lstsq.default: _lstsq,
    aten.lstm.input: _recurrent,
}
_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {aten.narrow.Tensor: _narrow}
_CORRECTIONS = {aten.unique_consecutive.default: _unique_consecutive}
