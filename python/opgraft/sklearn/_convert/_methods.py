"""Decides which methods of an estimator become outputs, and the type and shape of each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.base import ClassifierMixin, ClusterMixin, OutlierMixin, RegressorMixin, is_classifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectorMixin
from sklearn.preprocessing import LabelBinarizer, LabelEncoder, MultiLabelBinarizer

from opgraft._base._errors import Error
from opgraft.sklearn.operators import METHODS

#: Methods that users can ask for. `kneighbors` returns several results, so it is not one of them.
ASKED = [one for one in METHODS if one != "kneighbors"]

_TYPES = {
    "float32": FloatTensorType,
    "float64": DoubleTensorType,
    "int64": Int64TensorType,
    "bool": BooleanTensorType,
    "str": StringTensorType,
}
#: skl2onnx's names for outputs.
_NAMES = {
    "predict": "label",
    "predict_proba": "probabilities",
    "decision_function": "scores",
    "transform": "variable",
    "kneighbors.1": "index",
    "kneighbors.0": "distance",
}


@dataclass(frozen=True)
class Output:
    """One output of a Python node."""

    method: str  #: "predict", or "kneighbors.1" for one of several results
    dtype: str
    shape: tuple[int | None, ...]
    name: str

    @property
    def type(self) -> Any:
        return _TYPES[self.dtype](list(self.shape))


def has(estimator: Any, method: str) -> bool:
    return callable(getattr(estimator, method.partition(".")[0], None))


def default_methods(estimator: Any) -> list[str]:
    """Returns the methods that skl2onnx converts, or would convert, for this kind of estimator."""

    def first(*names: str) -> list[str]:
        return [name for name in names if has(estimator, name)][:1]

    if isinstance(estimator, SelectorMixin):
        return ["transform"]
    if isinstance(estimator, ClassifierMixin) or is_classifier(estimator):
        return first("predict") + first("predict_proba", "decision_function")
    if isinstance(estimator, ClusterMixin) and has(estimator, "predict"):
        return ["predict", *first("transform")]
    if isinstance(estimator, OutlierMixin):
        return first("predict") + first("decision_function")
    if isinstance(estimator, RegressorMixin):
        return first("predict")
    if has(estimator, "predict_proba"):
        return [*first("predict"), "predict_proba"]
    found = first("predict", "transform", "score_samples", "mahalanobis")
    if not found and has(estimator, "kneighbors"):
        return ["kneighbors.1", "kneighbors.0"]
    if not found:
        raise Error(
            f"{type(estimator).__name__} has no method for new data (predict, transform, "
            "score_samples...), so there is nothing to convert"
        )
    return found


def takes_list(estimator: Any) -> bool:
    """Whether it takes a list with one value for each row, not a matrix."""
    first = estimator
    while hasattr(first, "steps"):
        first = first.steps[0][1]
    listed = (CountVectorizer, HashingVectorizer, LabelEncoder, LabelBinarizer)
    return isinstance(first, listed)


def refuse_lists(estimator: Any) -> None:
    if isinstance(estimator, MultiLabelBinarizer):
        raise Error(
            "MultiLabelBinarizer cannot be converted: it takes a list of sets, which is not an "
            "ONNX tensor"
        )


def floats(inputs: Sequence[Any]) -> str:
    """Returns the type of real numbers in a model with these inputs."""
    is_double = any(isinstance(one.type, DoubleTensorType) for one in inputs)
    return "float64" if is_double else "float32"


def describe(
    estimator: Any, methods: Sequence[str], X: Any, real: str, *, is_inner: bool
) -> list[Output]:
    """Runs the methods on X to find the types and shapes of their outputs. `real` is the type of
    real numbers. Outputs for another step (`is_inner`) are always real numbers or texts."""
    refuse_lists(estimator)
    outputs = []
    for method in methods:
        name, _, place = method.partition(".")
        result = getattr(estimator, name)(copy.copy(X))
        if place:
            results = [(method, result[int(place)])]
        elif isinstance(result, list) and name in ("predict_proba", "predict_log_proba"):
            results = [(f"{name}.{index}", one) for index, one in enumerate(result)]
        else:
            results = [(method, result)]
        for each, value in results:
            dtype = _dtype(value, real, is_inner)
            if name == "predict" and is_classifier(estimator) and _is_whole(value):
                dtype = "int64"  # skl2onnx's models have integer labels
            shape = tuple(None if axis == 0 else int(size) for axis, size in enumerate(value.shape))
            if name == "transform" and len(shape) == 1 and len(X) == 1:
                shape = (None, int(value.size))  # SparsePCA returns a vector for a single row
            if name == "kneighbors" and value.dtype == object:
                raise Error(f"{type(estimator).__name__}.{name} returns rows of different lengths")
            title = _NAMES.get(each if place else name, name)
            if name == "predict" and isinstance(estimator, RegressorMixin):
                title = "variable"
                if len(shape) == 1:
                    shape = (None, 1)  # like skl2onnx's regressors
            outputs.append(Output(each, dtype, shape, title))
    return outputs


def _is_whole(value: Any) -> bool:
    value = np.asarray(value)
    return value.dtype.kind in "biu" or bool(value.dtype.kind == "f" and (value % 1 == 0).all())


def _dtype(value: Any, real: str, is_inner: bool) -> str:
    if not scipy.sparse.issparse(value):
        value = np.asarray(value)
    kind = value.dtype.kind
    if kind == "O":  # either texts, some of which may be missing, or numbers
        kind = "U" if any(isinstance(one, str) for one in np.ravel(value)) else "f"
    if kind in "UST":
        return "str"
    if kind not in "fiub":
        raise Error(f"it returns values of the type {value.dtype}, which ONNX does not have")
    if kind == "f" or is_inner:
        return real
    return "bool" if kind == "b" else "int64"
