"""Stored estimators: written, looked through, and read where that is safe.

Files name the classes below by this package.
"""

from opgraft.sklearn._stored._compiled_objects import (
    StoredBirch,
    StoredNeighbours,
    StoredPredictor,
    StoredSparse,
    StoredSpline,
    StoredTree,
)

__all__ = [
    "StoredBirch",
    "StoredNeighbours",
    "StoredPredictor",
    "StoredSparse",
    "StoredSpline",
    "StoredTree",
]
