"""Stores estimators, and checks stored ones before they are loaded.

Files refer to the classes below by the name of this package.
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
