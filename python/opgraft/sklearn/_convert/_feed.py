"""Turns rows into inputs of a model: finds their types, and makes the tensors for a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from skl2onnx.common.data_types import Int64TensorType, StringTensorType, TensorType
from sklearn.compose import ColumnTransformer

from opgraft._base._errors import Error
from opgraft._run._frames import DATES, OTHER, TEXT, as_texts, column_array, is_frame
from opgraft.sklearn import _private
from opgraft.sklearn._convert._methods import takes_list


def initial_types_of(model: Any, X: Any, initial_types: Any) -> list[tuple[str, Any]]:
    """Returns the types that skl2onnx guesses, and also types for lists of texts or labels, where
    each row is one value."""
    if initial_types is not None:
        return list(initial_types)
    if X is None:
        raise Error("pass some rows, to_onnx(model, X), or the types of the inputs, initial_types=")
    if not hasattr(X, "columns") and takes_list(model) and np.ndim(X) == 1:
        if np.asarray(X).dtype.kind in "OUST":
            is_text = hasattr(_first(model), "get_stop_words")
            return [("X", StringTensorType([None, 1] if is_text else [None]))]
        return [("X", Int64TensorType([None]))]
    if is_frame(X):
        return _types_of_frame(model, X)
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        if X.dtype == object or X.dtype.kind in "UST":
            return [("X", StringTensorType([None, *X.shape[1:]]))]
    return list(_private.find("algebra.type_helper", "guess_initial_types")(X, None))


def _types_of_frame(model: Any, X: Any) -> list[tuple[str, Any]]:
    """Returns the type of each column, from all its values: the first one may be missing."""
    names = [str(name) for name in X.columns]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Error(f"the DataFrame has more than one column '{min(twice)}'; names must be unique")
    guess = _private.find("common.data_types", "_guess_numpy_type")
    types = []
    for place, name in enumerate(names):
        kind, _ = column_array(X.iloc[:, place])
        if kind == TEXT:
            of_type = StringTensorType([None, 1])
        elif kind == DATES:
            of_type = Int64TensorType([None, 1])
        elif kind == OTHER:
            if _uses(model, X.columns[place], place):
                raise Error(
                    f"column '{name}' has values of several types, or of a type that ONNX does not "
                    f"have ({_kinds_in(X.iloc[:, place])}). Fix: convert them to numbers or "
                    f"strings, such as with frame[{name!r}].astype(str), before you fit the "
                    "pipeline"
                )
            of_type = StringTensorType([None, 1])  # never used
        else:
            of_type = guess(np.dtype(kind), [None, 1])
        types.append((name, of_type))
    return types


def _kinds_in(series: Any) -> str:
    return ", ".join(sorted({type(one).__name__ for one in series[~series.isna()]}))


def _uses(model: Any, name: Any, place: int) -> bool:
    """Whether the model uses a column. A column transformer that comes first may drop it."""
    first = _first(model)
    if not isinstance(first, ColumnTransformer):
        return True
    return any(
        name in (columns := np.atleast_1d(given).tolist()) or place in columns
        for _, step, given in first.transformers_
        if not (isinstance(step, str) and step == "drop")
    )


def metadata_for(model: Any, X: Any, types: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns what else a session must know to take a DataFrame: which columns a matrix has, in
    which order, and which inputs are times."""
    found: dict[str, Any] = {}
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    name, of_type = types[0]
    is_matrix = len(types) == 1 and isinstance(of_type, TensorType) and _rank(of_type) == 2
    if is_matrix and name not in names and of_type.shape[1] == len(names):
        found["columns"] = {name: names}
    if is_frame(X):
        dates = [
            str(column)
            for place, column in enumerate(X.columns)
            if column_array(X.iloc[:, place])[0] == DATES
        ]
        found |= {"dates": dates} if dates else {}
    return found


def _first(model: Any) -> Any:
    while True:
        if hasattr(model, "steps"):
            model = model.steps[0][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


def feed(X: Any, types: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    """Returns the tensors for a session; None if an input is not a tensor."""
    if not all(isinstance(of_type, TensorType) for _, of_type in types):
        return None
    if is_frame(X):
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
        raise Error(f"X has {X.shape[1]} columns, but the inputs have {start}")
    return fed


def fits(X: Any, types: Sequence[tuple[str, Any]]) -> bool:
    """Whether generated rows can be inputs of these types."""
    try:
        fed = feed(X, types)
    except Exception:
        return False
    texts = {name for name, of_type in types if isinstance(of_type, StringTensorType)}
    return fed is not None and all(
        (fed[name].dtype.kind in "OUT") == (name in texts) for name in fed
    )


def _feed_frame(X: Any, types: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(types) == 1 and types[0][0] not in map(str, X.columns):
        name, of_type = types[0]
        columns = [_cast_column(X.iloc[:, place], of_type) for place in range(X.shape[1])]
        return {name: np.ascontiguousarray(np.stack(columns, axis=1))}
    places = {str(name): place for place, name in enumerate(X.columns)}
    missing = [name for name, _ in types if name not in places]
    if missing:
        raise Error(f"X has no column '{missing[0]}', which initial_types names")
    return {
        name: _cast_column(X.iloc[:, places[name]], of_type).reshape(-1, 1)
        for name, of_type in types
    }


def _cast_column(series: Any, of_type: Any) -> Any:
    kind, values = column_array(series) if hasattr(series, "isna") else ("", series.to_numpy())
    return as_texts(values) if kind in (TEXT, OTHER) else _cast(values, of_type)


def _rank(of_type: Any) -> int:
    return len(of_type.shape)


def _cast(array: Any, of_type: Any) -> Any:
    dtype = _private.numpy_type(of_type)
    if dtype is object:
        return np.asarray(array).astype(str).astype(object)
    return np.ascontiguousarray(array, dtype=dtype)
