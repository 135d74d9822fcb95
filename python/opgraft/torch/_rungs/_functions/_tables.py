"""Functions of one number as tables of polynomials: a few nodes for any smooth function.

An interval is cut into pieces of the same size, and each piece has a polynomial of its own, which
interpolates the function at Chebyshev nodes. The coefficients are computed while exporting, in
doubles: from torch's own kernels, or from series.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value

Array = np.ndarray[Any, Any]
#: Computes a function in doubles.
Exact = Callable[[Array], Array]


@dataclass(frozen=True)
class Interval:
    """An interval of a variable, in pieces."""

    low: float
    high: float
    count: int


class Pieces:
    """Says of each number which piece it is in, and where in it. Numbers outside belong to the
    first or the last piece; NaN remains NaN."""

    def __init__(self, call: Call, *parts: tuple[Value, Interval, Value | None]) -> None:
        """`parts`: a variable, its interval, and where it is used instead of those before it."""
        op = call.op
        self._call = call
        self._intervals = tuple(interval for _, interval, _ in parts)
        place, total = None, 0
        for variable, interval, is_used in parts:
            scale = interval.count / (interval.high - interval.low)
            own = op.Mul(variable, call.constant(scale))
            shift = total - interval.low * scale
            own = op.Add(own, call.constant(shift)) if shift else own
            place = own if is_used is None else op.Where(is_used, own, place)
            total += interval.count
        zero = call.constant(0.0)
        inside = op.Where(op.Greater(place, zero), place, zero)  # 0 for NaN too
        inside = op.Min(inside, call.constant(total - 0.5))
        self._index = call.cast(inside, torch.int32)
        self._offset = op.Sub(place, op.Add(call.double(self._index), call.constant(0.5)))

    def value(self, *functions: Exact) -> Value:
        """Returns the values of functions, one for each interval, with the precision that the
        result has."""
        op = self._call.op
        terms = 10 if self._call.gives_doubles else 6
        rows = _table(functions, self._intervals, terms)
        result = op.Gather(self._call.constant(rows[-1]), self._index)
        for row in reversed(rows[:-1]):
            coefficient = op.Gather(self._call.constant(row), self._index)
            result = op.Add(op.Mul(result, self._offset), coefficient)
        return result


def is_exact_enough(call: Call) -> bool:
    """Whether roundings in doubles do not show in the result: for all types but doubles."""
    return not call.gives_doubles


@functools.cache
def _table(functions: Sequence[Exact], intervals: Sequence[Interval], terms: int) -> Array:
    """Returns the coefficients by their powers, each for all pieces. The variable goes from -0.5 to
    0.5 in each piece."""
    nodes = np.polynomial.chebyshev.chebpts1(terms)
    to_series = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, terms - 1))
    to_powers = np.zeros((terms, terms))
    for order in range(terms):
        power = np.polynomial.chebyshev.cheb2poly(np.eye(terms)[order])
        to_powers[: len(power), order] = power * 2.0 ** np.arange(len(power))
    values = []
    for function, interval in zip(functions, intervals, strict=True):
        size = (interval.high - interval.low) / interval.count
        places = np.arange(interval.count)[:, None] + (nodes + 1) / 2
        values.append(function(interval.low + size * places))
    return np.ascontiguousarray((np.concatenate(values) @ to_series.T @ to_powers.T).T)


def of_torch(function: Callable[[torch.Tensor], torch.Tensor], points: Array) -> Array:
    """Computes a function of torch's, in doubles."""
    return function(torch.from_numpy(np.ascontiguousarray(points))).numpy()


def zero(points: Array) -> Array:
    return np.zeros_like(points)
