"""Compares the results of a converted model with those of the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import scipy.sparse
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

import opgraft
from opgraft._run._frames import is_frame
from opgraft.sklearn._convert._methods import has
from opgraft.sklearn._convert._recording import fresh
from opgraft.sklearn._stored._walk import walk

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # the absolute bound is a fraction of the largest value
#: Bounds for values that other steps use: nearly all digits of the type.
STRICT = {"float32": (1e-5, 1e-6), "float64": (1e-10, 1e-12)}
#: How much rounding to float32, or computing in float64, may change an input.
ROUNDING = {"float32": 2.0**-22, "float64": 2.0**-50}


def open_session(model: Any) -> Any:
    """Opens a session for a model made by this process, whose Python nodes need no allowance."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised; they need not be logged as well
    return opgraft.InferenceSession(model, options)


def result_of(estimator: Any, method: str, X: Any) -> Any:
    """Returns the result of a method as an array."""
    name, _, place = method.partition(".")
    result = getattr(estimator, name)(fresh(X))
    if place:
        result = result[int(place)]
    if isinstance(result, list):
        result = _joined(result)
    return result.toarray() if scipy.sparse.issparse(result) else np.asarray(result)


def as_array(value: Any, classes: Any = None) -> Any:
    """Returns an output of a session as an array, also for a sequence of maps or tensors."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        keys = list(value[0]) if classes is None else [_plain(one) for one in classes]
        return np.array([[row[key] for key in keys] for row in value])
    return _joined(value) if isinstance(value, list) else np.asarray(value)


def _joined(results: list[Any]) -> Any:
    """Joins results for several targets, which may have different numbers of classes."""
    return np.concatenate([np.asarray(one) for one in results], axis=1)


def _plain(label: Any) -> Any:
    if isinstance(label, str):
        return str(label)
    return int(label)


def difference(
    estimator: Any,
    methods: Sequence[str],
    X: Any,
    outputs: Sequence[Any],
    real: str = "float32",
    *,
    is_strict: bool = False,
) -> str:
    """Describes how the outputs differ from the results of the methods for X; empty if they do not.
    `real` is the type of real numbers that the model takes."""
    bounds = STRICT[real] if is_strict else (RELATIVE, ABSOLUTE)
    for method, output in zip(methods, outputs, strict=False):
        wanted = result_of(estimator, method, X)
        got = as_array(output, getattr(estimator, "classes_", None))
        found = _compare(wanted, got, bounds)
        if found is None:
            continue
        text, where = found
        if where is not None:
            where &= ~_shaky(estimator, method, X, wanted, ROUNDING[real]) | _is_lost(wanted, got)
            if method == "predict" and where.any():
                where &= ~_tied(estimator, X, wanted, got, where)
            if not where.any():
                continue
        return f"{method}: {text}"
    return ""


def _compare(
    wanted: Any, got: Any, bounds: tuple[float, float] = (RELATIVE, ABSOLUTE)
) -> tuple[str, Any] | None:
    """Describes what differs, and where. None if nothing does."""
    if wanted.shape != got.shape:
        # skl2onnx returns some vectors as a column or row, which its users expect.
        if [one for one in wanted.shape if one != 1] != [one for one in got.shape if one != 1]:
            return f"expected the shape {wanted.shape}, got {got.shape}", None
        got = got.reshape(wanted.shape)
    if wanted.dtype.kind in "OUST" or got.dtype.kind in "OUST":
        differs = wanted.astype(str) != got.astype(str)
    elif wanted.dtype.kind in "biu":
        differs = wanted.astype(np.float64) != got.astype(np.float64)
    else:
        differs = _far(wanted, got.astype(np.float64), *bounds)
    if not differs.any():
        return None
    first = tuple(int(one) for one in np.argwhere(differs)[0])
    return (
        f"{int(differs.sum())} of {differs.size} values differ, such as {got[first]} in place of "
        f"{wanted[first]}",
        differs,
    )


def _far(wanted: Any, got: Any, relative: float, absolute: float) -> Any:
    wanted = wanted.astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = float(finite.max()) if finite.size else 1.0
    return ~np.isclose(got, wanted, rtol=relative, atol=absolute * scale, equal_nan=True)


def _is_lost(wanted: Any, got: Any) -> Any:
    """Where the model returns NaN and the estimator a number; rounding cannot explain that."""
    if wanted.dtype.kind not in "fiu" or got.dtype.kind != "f":
        return np.zeros(wanted.shape, dtype=bool)
    return np.isnan(got.reshape(wanted.shape)) & np.isfinite(wanted)


def _shaky(estimator: Any, method: str, X: Any, wanted: Any, rounding: float) -> Any:
    """Where the estimator itself returns another result if its input changes by about the
    rounding error."""
    shaky = np.zeros(wanted.shape, dtype=bool)
    keeps_whole = any(isinstance(place.value, _OF_CATEGORIES) for place in walk(estimator))
    for factor in (1 + rounding, 1 - rounding):
        moved = _moved(X, factor, keeps_whole)
        if moved is None:
            break
        try:
            found = _compare(wanted, result_of(estimator, method, moved))
        except Exception:
            break  # the estimator refuses unknown values, such as a new category
        if found is not None and found[1] is not None:
            shaky |= found[1]
    return shaky


#: For these a whole number is a category, and a number close to it is another category or unknown.
_OF_CATEGORIES = (OneHotEncoder, OrdinalEncoder, TargetEncoder, CategoricalNB)


def _moved(X: Any, factor: float, keeps_whole: bool) -> Any:
    """Returns X with its real numbers multiplied by the factor, except columns of whole numbers if
    `keeps_whole`. None if X has no real numbers."""
    if not is_frame(X):
        X = np.asarray(X)
        if X.dtype.kind != "f":
            return None
        still = (X % 1 == 0).all(axis=0) if keeps_whole and X.ndim == 2 else False
        return np.where(still, X, X.astype(np.float64) * factor)
    columns = [
        name
        for name, dtype in X.dtypes.items()
        if getattr(dtype, "kind", "") == "f" and not (keeps_whole and (X[name] % 1 == 0).all())
    ]
    if not columns:
        return None
    return X.assign(**{name: X[name] * factor for name in columns if isinstance(name, str)})


def _tied(estimator: Any, X: Any, wanted: Any, got: Any, where: Any) -> Any:
    """Where labels differ but the estimator gives both the same score and the same probability, as
    far as it has these. Either label may then come out, so the model is not wrong; a warning says
    so. If only the probabilities are equal, the score decides."""
    tied = np.zeros(wanted.shape, dtype=bool)
    classes = getattr(estimator, "classes_", None)
    methods = [one for one in ("decision_function", "predict_proba") if has(estimator, one)]
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or wanted.ndim != 1 or not methods:
        return tied
    names = [str(one) for one in classes]
    pairs = {
        int(row): [str(_as_label(one.reshape(-1)[row], classes)) for one in (wanted, got)]
        for row in np.flatnonzero(where)
    }
    tied[[row for row, pair in pairs.items() if all(one in names for one in pair)]] = True
    for method in methods:
        scores = result_of(estimator, method, X).astype(np.float64)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        if scores.shape != (len(wanted), len(classes)):
            return np.zeros(wanted.shape, dtype=bool)
        finite = np.abs(scores[np.isfinite(scores)])
        slack = ABSOLUTE * (float(finite.max()) if finite.size else 1.0)
        for row in np.flatnonzero(tied):
            first, second = (scores[row, names.index(one)] for one in pairs[int(row)])
            tied[row] = bool(abs(first - second) <= slack + RELATIVE * abs(first))
    if tied.any():
        first_row = int(np.flatnonzero(tied)[0])
        warnings.warn(
            f"{int(tied.sum())} of {tied.size} labels differ from {type(estimator).__name__}'s, "
            f"each because of a tie: in row {first_row} the model gives "
            f"{got.reshape(-1)[first_row]!s} and scikit-learn {wanted[first_row]!s}, and "
            f"{' and '.join(methods)} {'is' if len(methods) == 1 else 'are'} the same for both",
            UserWarning,
            stacklevel=2,
        )
    return tied


def _as_label(value: Any, classes: Any) -> Any:
    """Converts a label of the model, which may be an integer where the estimator has a float."""
    return value if classes.dtype.kind in "OUST" else classes.dtype.type(value)
