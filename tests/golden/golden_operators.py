"""The operators of the golden models."""

from __future__ import annotations

import numpy as np


class Scale:
    """Uses every kind of attribute that a node may give."""

    def __init__(
        self, text: str, factor: float, offset: int, steps: list[int], weights: list[float],
        names: list[str],
    ) -> None:  # fmt: skip
        assert (text, names) == ("Grüße", ["a", "b"])
        self.factor = np.float32(factor)
        self.offset = np.float32(offset + sum(steps) + sum(weights))

    def scale(self, x: np.ndarray) -> np.ndarray:
        return x * self.factor + self.offset


class Join:
    """Has an input that is absent, and outputs of two types, one of which nobody wants."""

    def compute(
        self, first: np.ndarray, absent: None, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert absent is None
        return np.concatenate([first, last]), first, np.array(len(first) + len(last))
