"""Holders that replace compiled objects in stored estimators, and rebuild them with checks.

scikit-learn's trees, its neighbour trees, and SciPy's splines and sparse matrices read their arrays
without bounds checks, so a crafted one could crash the process. None of them is loaded from a file:
the file has the arrays, and this module builds the object from them after it checked every index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from scipy.interpolate import BSpline
from sklearn.cluster import Birch
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import BallTree, KDTree
from sklearn.tree._tree import Tree

from opgraft.sklearn._stored._damage import damaged

#: Distances whose parameters scikit-learn checks against the data when it builds a tree.
METRICS = (
    "euclidean manhattan chebyshev minkowski seuclidean hamming canberra braycurtis jaccard dice "
    "rogerstanimoto russellrao sokalsneath haversine"
).split()
#: Formats of sparse matrices that take memory only for their values, rows and columns.
FORMATS = ("csr", "csc", "coo")


class Stored:
    """The state of a compiled object, as plain attributes."""

    def restore(self) -> Any:
        """Returns the object. Raises a ModelError if the state is not valid."""
        raise NotImplementedError


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise damaged(what)


def _whole(value: Any, what: str, least: int = 0) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool) and value >= least, what)
    return int(value)


class StoredTree(Stored):
    """A `sklearn.tree._tree.Tree`."""

    def __init__(self, tree: Any) -> None:
        _, (self.n_features, self.n_classes, self.n_outputs), state = tree.__reduce__()
        self.max_depth, self.nodes = int(state["max_depth"]), state["nodes"]
        self.values = state["values"]

    def restore(self) -> Any:
        features = _whole(self.n_features, "a tree has a wrong number of features", 1)
        outputs = _whole(self.n_outputs, "a tree has a wrong number of outputs", 1)
        classes = np.ascontiguousarray(self.n_classes, dtype=np.intp)
        _require(classes.shape == (outputs,) and (classes >= 1).all(), "a tree has wrong classes")
        nodes, values = self.nodes, self.values
        reference = Tree(1, np.array([1], dtype=np.intp), 1).__getstate__()["nodes"].dtype
        _require(
            isinstance(nodes, np.ndarray) and nodes.dtype == reference, "a tree has wrong nodes"
        )
        _require(nodes.ndim == 1 and 1 <= len(nodes) < 2**31, "a tree has wrong nodes")
        shape = (len(nodes), outputs, int(classes.max()))
        _require(
            isinstance(values, np.ndarray) and values.shape == shape, "a tree has wrong values"
        )
        _require(values.dtype == np.float64, "a tree has wrong values")
        is_split = nodes["left_child"] != -1
        splits = nodes[is_split]
        _require(
            (splits["feature"] >= 0).all() and (splits["feature"] < features).all(),
            "a tree uses a feature that does not exist",
        )
        depths = _depths(is_split, nodes["left_child"], nodes["right_child"])
        tree = Tree(features, classes, outputs)
        tree.__setstate__(
            {
                "max_depth": int(depths.max()),
                "node_count": len(nodes),
                "nodes": np.ascontiguousarray(nodes),
                "values": np.ascontiguousarray(values),
            }
        )
        return tree


def _depths(is_split: Any, left: Any, right: Any) -> Any:
    """Returns the depth of each node. Raises an error if a child does not come after its parent."""
    count = len(is_split)
    where = np.flatnonzero(is_split)
    for child in (left, right):
        child = child[where].astype(np.int64)
        _require((child > where).all() and (child < count).all(), "a tree has a wrong child")
    depths = np.zeros(count, dtype=np.int64)
    for index in where:
        depths[left[index]] = depths[right[index]] = depths[index] + 1
    return depths


class StoredPredictor(Stored):
    """A tree of the histogram-based gradient boosting."""

    def __init__(self, predictor: Any) -> None:
        self.nodes = predictor.nodes
        self.binned_bitsets = predictor.binned_left_cat_bitsets
        self.raw_bitsets = predictor.raw_left_cat_bitsets

    def restore(self) -> Any:
        nodes = self.nodes
        _require(
            isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes),
            "a predictor has wrong nodes",
        )
        _require(nodes.dtype == PREDICTOR_RECORD_DTYPE, "a predictor has wrong nodes")
        for bitsets in (self.binned_bitsets, self.raw_bitsets):
            is_bitset = isinstance(bitsets, np.ndarray) and bitsets.dtype == np.uint32
            _require(is_bitset and bitsets.ndim == 2 and bitsets.shape[1] == 8, "wrong bit sets")
            is_categorical = (nodes["is_categorical"] != 0) & (nodes["is_leaf"] == 0)
            _require(
                (nodes["bitset_idx"][is_categorical] < len(bitsets)).all(), "a bit set is missing"
            )
        _depths(nodes["is_leaf"] == 0, nodes["left"], nodes["right"])
        return TreePredictor(
            np.ascontiguousarray(nodes),
            np.ascontiguousarray(self.binned_bitsets),
            np.ascontiguousarray(self.raw_bitsets),
        )


class StoredNeighbours(Stored):
    """A KDTree or BallTree: its data, from which the tree is built again."""

    def __init__(self, tree: Any) -> None:
        state = tree.__getstate__()
        metric = state[11]
        self.kind = type(tree).__name__
        self.data, self.leaf_size, self.sample_weight = state[0], int(state[4]), state[12]
        self.metric = type(metric).__name__.removesuffix("64").removesuffix("32")
        self.metric = self.metric.removesuffix("Distance").lower()
        if self.metric not in METRICS:
            raise NotImplementedError(
                f"its {self.kind} uses the distance '{self.metric}', which cannot be stored; these "
                f"can: {', '.join(METRICS)}. Fix: fit it with algorithm='brute'"
            )
        self.parameters: dict[str, Any] = {}
        if self.metric == "minkowski":
            self.parameters["p"] = float(metric.__getstate__()[0])
            weights = metric.__getstate__()[1]
            if len(weights) == self.data.shape[1] > 1:
                self.parameters["w"] = weights
        if self.metric == "seuclidean":
            self.parameters["V"] = metric.__getstate__()[1]

    def restore(self) -> Any:
        kinds = {"KDTree": KDTree, "BallTree": BallTree}
        _require(self.kind in kinds, "an unknown kind of tree")
        _require(self.metric in METRICS, "an unknown distance")
        _require(isinstance(self.parameters, dict), "a distance has wrong parameters")
        _require(isinstance(self.data, np.ndarray) and self.data.ndim == 2, "a tree has wrong data")
        size = _whole(self.leaf_size, "a tree has a wrong leaf size", 1)
        try:
            metric = DistanceMetric.get_metric(self.metric, **self.parameters)
            return kinds[self.kind](
                self.data, leaf_size=size, metric=metric, sample_weight=self.sample_weight
            )
        except (TypeError, ValueError) as error:
            raise damaged(str(error)) from error


class StoredSpline(Stored):
    """A `scipy.interpolate.BSpline`."""

    def __init__(self, spline: Any) -> None:
        self.t, self.c, self.k = spline.t, spline.c, int(spline.k)
        self.extrapolate, self.axis = spline.extrapolate, int(spline.axis)

    def restore(self) -> Any:
        try:
            return BSpline(self.t, self.c, self.k, self.extrapolate, self.axis)
        except (TypeError, ValueError) as error:
            raise damaged(str(error)) from error


class StoredSparse(Stored):
    """A sparse matrix or array of SciPy, as rows, columns and values."""

    def __init__(self, matrix: Any) -> None:
        triples = matrix.tocoo()
        self.data, self.row, self.column = triples.data, triples.row, triples.col
        self.shape = tuple(int(size) for size in triples.shape)
        self.format = matrix.format if matrix.format in FORMATS else "csr"
        self.is_array = isinstance(matrix, scipy.sparse.sparray)

    def restore(self) -> Any:
        kind = scipy.sparse.coo_array if self.is_array else scipy.sparse.coo_matrix
        _require(self.format in FORMATS, f"it has a sparse matrix of the format {self.format!r}")
        self.size()
        try:
            made = kind((self.data, (self.row, self.column)), shape=self.shape)
        except (TypeError, ValueError) as error:
            raise damaged(str(error)) from error
        return made.asformat(self.format)

    def size(self) -> int:
        """Returns how many rows and columns it has. Even empty ones take memory."""
        is_matrix = isinstance(self.shape, tuple) and len(self.shape) == 2
        _require(is_matrix, "a sparse matrix has a wrong shape")
        return sum(_whole(size, "a sparse matrix has a wrong shape") for size in self.shape)


class StoredBirch(Stored):
    """A `sklearn.cluster.Birch` without the tree built by fitting, whose leaves form a chain."""

    def __init__(self, birch: Any) -> None:
        chained = ("root_", "dummy_leaf_")
        self.state = {name: value for name, value in vars(birch).items() if name not in chained}

    def restore(self) -> Any:
        _require(isinstance(self.state, dict), "a Birch has a wrong state")
        birch = Birch()
        vars(birch).update(self.state)
        return birch


#: How to recognise an object, and the holder that replaces it.
HOLDERS: list[tuple[Callable[[Any], bool], type[Any]]] = [
    (lambda value: type(value) is Tree, StoredTree),
    (lambda value: type(value) is TreePredictor, StoredPredictor),
    (lambda value: isinstance(value, (KDTree, BallTree)), StoredNeighbours),
    (lambda value: type(value) is BSpline, StoredSpline),
    (scipy.sparse.issparse, StoredSparse),
    (lambda value: type(value) is Birch, StoredBirch),
]


# Files refer to them by the name of the package.
for _stored in Stored.__subclasses__():
    _stored.__module__ = "opgraft.sklearn._stored"
