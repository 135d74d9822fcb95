"""The operator behind Python nodes of converted scikit-learn models: runs a stored estimator.

The host allows it by the name "sklearn". Types that are not reviewed must be allowed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from opgraft._base._errors import ModelError, PolicyError, UnavailableError
from opgraft.sklearn._convert import _columns
from opgraft.sklearn._stored import _skops
from opgraft.sklearn._stored._walk import walk

DOMAIN = "ai.opgraft.sklearn"  #: the domain of the nodes
FORMAT = 1  #: the version of their format
#: The methods that a model may call.
METHODS = tuple(
    "predict predict_proba predict_log_proba decision_function transform score_samples kneighbors "
    "mahalanobis".split()
)
#: Strings that represent missing values, as ONNX Runtime and NumPy write them.
MISSING = frozenset({"nan", "None", "<NA>"})
_LAYOUTS = ("rows", "list", "frame")


def _nothing_is_allowed(names: list[str]) -> None:
    raise PolicyError(f"the stored estimator uses names that are not allowed: {', '.join(names)}")


class Estimator:
    """Calls methods of an estimator stored by skops. docs/sklearn.md describes the attributes."""

    #: Opgraft's bridge passes this argument: a function that raises unless the host allows the
    #: given names.
    policy_argument = "allows"

    def __init__(
        self,
        estimator: Any,
        methods: Sequence[str],
        dtypes: Sequence[str],
        ranks: Sequence[int],
        scikit_learn: str,
        layout: str = "rows",
        columns: Sequence[str] = (),
        casts: str = "",
        copies: int = 0,
        missing: str = "",
        kinds: Sequence[str] = (),
        title: str = "",
        because: str = "",
        format: int = FORMAT,
        allows: Callable[[list[str]], None] = _nothing_is_allowed,
    ) -> None:
        del title, because  # only for people who read the model
        if format != FORMAT:
            raise UnavailableError(
                f"the estimator is stored in format {format}; this Opgraft reads format {FORMAT}. "
                "Fix: install a newer Opgraft"
            )
        if not {*missing.split()} <= MISSING:
            known = ", ".join(sorted(MISSING))
            raise ModelError(f"'missing' is '{missing}'; expected only values from: {known}")
        if layout not in _LAYOUTS or not len(dtypes) == len(methods) == len(ranks) > 0:
            raise ModelError("'methods', 'dtypes', 'ranks' and 'layout' do not agree")
        data = np.ascontiguousarray(estimator)
        if data.dtype != np.uint8:
            raise ModelError(f"the attribute 'estimator' must be uint8, not {data.dtype}")
        parts = [one.partition(".") for one in methods]
        for method, _, place in parts:
            if method not in METHODS or not (place.isdecimal() or not place):
                raise ModelError(
                    f"a model may not call the method '{method}'; it may call: {', '.join(METHODS)}"
                )
        loaded = _skops.load(data.tobytes(), allows, scikit_learn)
        if layout != "frame":
            _forget_names(loaded)
        # The method, the index of the result (None if it returns only one), its type and rank.
        self._calls = [
            (getattr(loaded, method), int(place) if place else None, _dtype(name), rank)
            for (method, _, place), name, rank in zip(parts, dtypes, ranks, strict=True)
        ]
        self._layout, self._columns, self._copies = layout, list(columns), bool(copies)
        self._casts = _dtype(casts) if casts else None
        self._missing = {text: _missing_value(text) for text in missing.split()}
        _columns.check(list(kinds))
        if kinds and len(kinds) != len(self._columns):
            raise ModelError("'kinds' and 'columns' do not agree")
        self._kinds = list(kinds) or [""] * len(self._columns)

    def compute(self, *inputs: Any) -> Any:
        X = self._arrange(inputs)
        if len(self._calls) == 1:
            method, place, dtype, rank = self._calls[0]
            result = method(X)
            return _as_output(result if place is None else result[place], dtype, rank, len(X))
        results: dict[str, Any] = {}
        outputs = []
        for method, place, dtype, rank in self._calls:
            name = method.__name__
            if name not in results:
                if results and self._copies:
                    X = self._arrange(inputs)  # the previous method may have written to it
                results[name] = method(X)
            result = results[name] if place is None else results[name][place]
            outputs.append(_as_output(result, dtype, rank, len(X)))
        return tuple(outputs)

    def _arrange(self, inputs: tuple[Any, ...]) -> Any:
        if self._copies:
            inputs = tuple(one.copy() for one in inputs)
        if self._missing:
            inputs = tuple(one if one.dtype != object else self._with_missing(one)
                           for one in inputs)  # fmt: skip
        if self._layout == "frame":
            return _frame(inputs, self._columns, self._kinds)
        if self._layout == "list":
            return inputs[0].reshape(-1)
        if self._casts is not None:
            inputs = tuple(one.astype(self._casts) if one.dtype.kind == "f" else one
                           for one in inputs)  # fmt: skip
        if len(inputs) == 1:
            return inputs[0]
        if any(one.dtype == object for one in inputs):
            inputs = tuple(one.astype(object) for one in inputs)
        return np.concatenate(inputs, axis=1)

    def _with_missing(self, texts: Any) -> Any:
        values = texts.copy()
        for text, value in self._missing.items():
            values[texts == text] = value
        return values


def _forget_names(estimator: Any) -> None:
    """Removes feature names. The estimator gets arrays, and would otherwise warn at each run."""
    for place in walk(estimator):
        if hasattr(place.value, "fit"):
            vars(place.value).pop("feature_names_in_", None)


def _missing_value(text: str) -> Any:
    return {"nan": np.nan, "None": None}[text] if text != "<NA>" else _pandas().NA


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UnavailableError(
            "the estimator takes a DataFrame, which needs pandas. Fix: pip install pandas"
        ) from None
    return pandas


def _frame(inputs: tuple[Any, ...], columns: list[str], kinds: list[str]) -> Any:
    values = [one[:, place] for one in inputs for place in range(one.shape[1])]
    if len(values) != len(columns):
        raise ModelError(f"expected {len(columns)} columns, got {len(values)}")
    made = [_columns.restore(*one) for one in zip(values, kinds, strict=True)]
    return _pandas().DataFrame(dict(zip(columns, made, strict=True)), copy=True)


def _dtype(name: str) -> Any:
    if name == "str":
        return None
    if name not in ("float32", "float64", "int64", "bool"):
        raise ModelError(
            f"'{name}' is not a type of results; expected float32, float64, int64, bool or str"
        )
    return np.dtype(name)


def _as_output(result: Any, dtype: Any, rank: int, rows: int) -> Any:
    if scipy.sparse.issparse(result):
        result = result.toarray()
    array = result if isinstance(result, np.ndarray) else np.asarray(result)
    if array.ndim == 1 and rank == 2:
        # One value for each row. SparsePCA returns the values of a single row this way, too.
        array = array.reshape((1, -1) if rows == 1 else (-1, 1))
    if dtype is None:
        return array.astype(str)
    return array if array.dtype == dtype else array.astype(dtype)
