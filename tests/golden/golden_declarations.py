"""The operators that the golden models of format 2 run."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

import opgraft

Real = TypeVar("Real", np.float32, np.float64)


@opgraft.op("golden::Pick", shape=lambda index, x, *, count: ((count,), (count,)))
def pick(
    index: npt.NDArray[np.int64],
    x: npt.NDArray[Real],
    *,
    count: int = 1,
    names: list[str],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Real]]:
    assert names == ["a", "b"]
    return index[:count], x[index[:count]]


@opgraft.op("golden::Half", shape=lambda x: x)
def half(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
    return np.divide(x, 2, out=out)
