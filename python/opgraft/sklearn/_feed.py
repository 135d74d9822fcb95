"""Rows as the inputs of a model: their types, and the tensors for a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from skl2onnx.common.data_types import Int64TensorType, StringTensorType, TensorType

from opgraft._errors import Error
from opgraft.sklearn import _private
from opgraft.sklearn._methods import takes_list


def initial_types_of(model: Any, X: Any, initial_types: Any) -> list[tuple[str, Any]]:
    """As skl2onnx guesses them, and for texts and labels too, one of which is a row."""
    if initial_types is not None:
        return list(initial_types)
    if X is None:
        raise Error("give some rows, to_onnx(model, X), or the types of the inputs, initial_types=")
    if not hasattr(X, "columns") and takes_list(model) and np.ndim(X) == 1:
        if np.asarray(X).dtype.kind in "OUST":
            is_text = hasattr(_first(model), "get_stop_words")
            return [("X", StringTensorType([None, 1] if is_text else [None]))]
        return [("X", Int64TensorType([None]))]
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        if X.dtype == object or X.dtype.kind in "UST":
            return [("X", StringTensorType([None, *X.shape[1:]]))]
    return list(_private.find("algebra.type_helper", "guess_initial_types")(X, None))


def _first(model: Any) -> Any:
    while hasattr(model, "steps"):
        model = model.steps[0][1]
    return model


def feed(X: Any, types: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    """The tensors; None where an input is no tensor."""
    if not all(isinstance(of_type, TensorType) for _, of_type in types):
        return None
    if hasattr(X, "columns"):
        return _feed_frame(X, types)
    X = np.asarray(X)
    if len(types) == 1:
        name, of_type = types[0]
        array = _cast(X, of_type)
        return {name: array.reshape(-1, 1) if array.ndim == 1 and _rank(of_type) == 2 else array}
    fed, start = {}, 0
    for name, of_type in types:
        width = of_type.shape[1] if _rank(of_type) == 2 else 1
        fed[name] = _cast(X[:, start : start + width], of_type)
        start += width
    if start != X.shape[1]:
        raise Error(f"X has {X.shape[1]} columns, but the inputs {start}")
    return fed


def _feed_frame(X: Any, types: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(types) == 1 and types[0][0] not in X.columns:
        name, of_type = types[0]
        return {name: _cast(X.to_numpy(), of_type)}
    return {
        name: _cast(X[_column(X, name)].to_numpy(), of_type).reshape(-1, 1)
        for name, of_type in types
    }


def _column(X: Any, name: str) -> Any:
    return next((one for one in X.columns if str(one) == name), name)


def _rank(of_type: Any) -> int:
    return len(of_type.shape)


def _cast(array: Any, of_type: Any) -> Any:
    dtype = _private.numpy_type(of_type)
    if dtype is object:
        return np.asarray(array).astype(str).astype(object)
    return np.ascontiguousarray(array, dtype=dtype)
