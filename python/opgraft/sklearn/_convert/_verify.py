"""Whether a converted model gives what the estimator gives."""

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

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # the latter of the largest value
#: For what other steps get: nearly all digits that the type has.
STRICT = {"float32": (1e-5, 1e-6), "float64": (1e-10, 1e-12)}
#: By how much an input moves at most that is rounded to float32, or computed with in float64.
ROUNDING = {"float32": 2.0**-22, "float64": 2.0**-50}


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


def difference(
    estimator: Any,
    methods: Sequence[str],
    X: Any,
    outputs: Sequence[Any],
    real: str = "float32",
    *,
    is_strict: bool = False,
) -> str:
    """How the outputs differ from what the methods give for X; empty where they do not. `real` is
    the type of real numbers that the model takes."""
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
    """Where the model gives no number and the estimator one, which no rounding explains."""
    if wanted.dtype.kind not in "fiu" or got.dtype.kind != "f":
        return np.zeros(wanted.shape, dtype=bool)
    return np.isnan(got.reshape(wanted.shape)) & np.isfinite(wanted)


def _shaky(estimator: Any, method: str, X: Any, wanted: Any, rounding: float) -> Any:
    """Where the estimator itself changes its mind when its input moves by about its rounding."""
    shaky = np.zeros(wanted.shape, dtype=bool)
    keeps_whole = any(isinstance(place.value, _OF_CATEGORIES) for place in walk(estimator))
    for factor in (1 + rounding, 1 - rounding):
        moved = _moved(X, factor, keeps_whole)
        if moved is None:
            break
        try:
            found = _compare(wanted, result_of(estimator, method, moved))
        except Exception:
            break  # one that refuses what it does not know, such as a category
        if found is not None and found[1] is not None:
            shaky |= found[1]
    return shaky


#: For these a whole number is a category, and what lies beside it is another, or none.
_OF_CATEGORIES = (OneHotEncoder, OrdinalEncoder, TargetEncoder, CategoricalNB)


def _moved(X: Any, factor: float, keeps_whole: bool) -> Any:
    """X with its real numbers moved, but for columns of whole ones where `keeps_whole`; None where
    it has none."""
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
    """Where a label is another, and the estimator gives both labels the same score and the same
    probability, as far as it has these: which of them comes out is chance. It is told, and not held
    against the model. Where only the probability is the same, the score decides."""
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
            f"each at a tie: in row {first_row} the model gives "
            f"{got.reshape(-1)[first_row]!s} and scikit-learn {wanted[first_row]!s}, and "
            f"{' and '.join(methods)} {'is' if len(methods) == 1 else 'are'} the same for both",
            UserWarning,
            stacklevel=2,
        )
    return tied


def _as_label(value: Any, classes: Any) -> Any:
    """A label of a model, which may be a whole number where the estimator's is a real one."""
    return value if classes.dtype.kind in "OUST" else classes.dtype.type(value)
