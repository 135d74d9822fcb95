"""The Python operators of the demo: ordinary classes, with nothing of Opgraft in them."""

import numpy as np


class Offsets:
    """Adds two arrays, then each of three offsets, which the node gives as attributes."""

    def __init__(self, first: str, second: str, third: str) -> None:
        self.offsets = [np.float32(offset) for offset in (first, second, third)]

    def compute(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, ...]:
        total = left + right
        return tuple(total + offset for offset in self.offsets)


class NeighbourSums:
    """The sum of all arrays but the last, and of all but the first."""

    def compute(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.add.reduce(arrays[:-1]), np.add.reduce(arrays[1:])
