"""Whether a converted model gives what the estimator gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import scipy.sparse

import opgraft
from opgraft.sklearn._recording import fresh

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # the latter of the largest value
_ROUNDING = 2.0**-22  # of float32, in which most of a converted model computes


def open_session(model: Any) -> Any:
    """A session of a model that was just made here, so that its Python nodes need no allowance."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, which is enough
    return opgraft.InferenceSession(model, options)


def result_of(estimator: Any, method: str, X: Any) -> Any:
    """What a method gives, as an array."""
    name, _, place = method.partition(".")
    result = getattr(estimator, name)(fresh(X))
    if place:
        result = result[int(place)]
    if isinstance(result, list):
        result = _joined(result)
    return result.toarray() if scipy.sparse.issparse(result) else np.asarray(result)


def as_array(value: Any, classes: Any = None) -> Any:
    """An output of a session as an array: a sequence of maps, or of tensors, too."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        keys = list(value[0]) if classes is None else [_plain(one) for one in classes]
        return np.array([[row[key] for key in keys] for row in value])
    return _joined(value) if isinstance(value, list) else np.asarray(value)


def _joined(results: list[Any]) -> Any:
    """Results for several targets, which may have different numbers of classes, as one array."""
    return np.concatenate([np.asarray(one) for one in results], axis=1)


def _plain(label: Any) -> Any:
    if isinstance(label, str):
        return str(label)
    return int(label)


def difference(estimator: Any, methods: Sequence[str], X: Any, outputs: Sequence[Any]) -> str:
    """How the outputs differ from what the methods give for X; empty where they do not."""
    for method, output in zip(methods, outputs, strict=False):
        wanted = result_of(estimator, method, X)
        got = as_array(output, getattr(estimator, "classes_", None))
        found = _compare(wanted, got)
        if found is None:
            continue
        text, where = found
        if where is not None:
            where &= ~_shaky(estimator, method, X, wanted)
            if not where.any():
                continue
        return f"{method}: {text}"
    return ""


def _compare(wanted: Any, got: Any) -> tuple[str, Any] | None:
    """What differs, and where."""
    if wanted.shape != got.shape:
        # A column for a vector, or a row: skl2onnx's manners, which users have come to know.
        if [one for one in wanted.shape if one != 1] != [one for one in got.shape if one != 1]:
            return f"expected the shape {wanted.shape}, got {got.shape}", None
        got = got.reshape(wanted.shape)
    if wanted.dtype.kind in "OUST" or got.dtype.kind in "OUST":
        differs = wanted.astype(str) != got.astype(str)
    elif wanted.dtype.kind in "biu":
        differs = wanted.astype(np.float64) != got.astype(np.float64)
    else:
        differs = _far(wanted, got.astype(np.float64))
    if not differs.any():
        return None
    first = tuple(int(one) for one in np.argwhere(differs)[0])
    return (
        f"{int(differs.sum())} of {differs.size} values differ, such as {got[first]} in place of "
        f"{wanted[first]}",
        differs,
    )


def _far(wanted: Any, got: Any) -> Any:
    wanted = wanted.astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = float(finite.max()) if finite.size else 1.0
    return ~np.isclose(got, wanted, rtol=RELATIVE, atol=ABSOLUTE * scale, equal_nan=True)


def _shaky(estimator: Any, method: str, X: Any, wanted: Any) -> Any:
    """Where the estimator itself changes its mind when its input moves by about its rounding."""
    moved = np.zeros(wanted.shape, dtype=bool)
    if hasattr(X, "columns") or getattr(np.asarray(X), "dtype", np.dtype(object)).kind != "f":
        return moved
    for factor in (1 + _ROUNDING, 1 - _ROUNDING):
        found = _compare(wanted, result_of(estimator, method, np.asarray(X, np.float64) * factor))
        if found is not None and found[1] is not None:
            moved |= found[1]
    return moved
