"""The operators that the golden models of format 3 run, on a GPU."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

import opgraft

Real = TypeVar("Real", np.float32, np.float16)


@opgraft.op("golden::Both", device="cuda", shape=lambda index, x, *, name: (x, index))
def both(
    index: npt.NDArray[np.int64], x: npt.NDArray[Real], *, name: str
) -> tuple[npt.NDArray[Real], npt.NDArray[np.int64]]:
    assert name == "a"
    return x, index


@opgraft.op("golden::Same", device="cuda", shape=lambda x: x)
def same(x: np.ndarray) -> np.ndarray:
    return x


@opgraft.op("golden::Fixed", device="cuda")
def fixed(x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return x
