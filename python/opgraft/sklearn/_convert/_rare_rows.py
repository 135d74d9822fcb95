"""Generates rows with rare values, to verify a model with more than the given rows.

A conversion may be right for the given rows and wrong for values that none of them has: missing
values, zeros, unknown categories.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from opgraft._run._frames import TEXT, column_array, is_frame
from opgraft.sklearn._convert._recording import fresh

#: A category or word that no data has.
UNKNOWN = "opgraft-unknown"
#: The most columns that are changed one at a time, and the most rows that are looked at.
_COLUMNS, _ROWS = 8, 1000


def rare_rows(estimator: Any, methods: Sequence[str], X: Any) -> Any:
    """Returns rows with rare values that the estimator accepts; None if there are none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows, kinds = _make(X)
        if not kinds or _takes(estimator, methods, rows):
            return rows
        taken = []
        # Most estimators that refuse some rows refuse all missing, or all unknown values.
        for group in ("missing", "unknown", ""):
            places = [place for place, kind in enumerate(kinds) if _group(kind) == group]
            if places and not _takes(estimator, methods, _pick(rows, places)):
                places = [
                    place for place in places if _takes(estimator, methods, _pick(rows, [place]))
                ]
            taken += places
    return _pick(rows, sorted(taken)) if taken else None


def _group(kind: str) -> str:
    return kind if kind in ("missing", "unknown") else ""


def _takes(estimator: Any, methods: Sequence[str], rows: Any) -> bool:
    try:
        for method in methods:
            getattr(estimator, method.partition(".")[0])(fresh(rows))
    except Exception:
        return False
    return True


def _pick(rows: Any, places: list[int]) -> Any:
    return rows.iloc[places] if is_frame(rows) else rows[places]


def _make(X: Any) -> tuple[Any, list[str]]:
    """Returns the rows, and what is rare in each."""
    if scipy.sparse.issparse(X) or not len(X):
        return None, []
    if is_frame(X):
        return _make_frame(X)
    X = np.asarray(X)
    if X.ndim == 1 and _is_text(X):
        texts = np.array([UNKNOWN, ""], dtype=object if X.dtype == object else None)
        return texts, ["unknown", "empty"]
    if X.ndim != 2 or not X.shape[1]:
        return None, []
    some = X[:_ROWS]
    columns = [_values(some[:, place]) for place in range(X.shape[1])]
    made = list(_rows(some[0], columns))
    if not made:
        return None, []
    rows = np.array([row for _, row in made], dtype=object if _is_text(X) else X.dtype)
    return rows, [kind for kind, _ in made]


def _make_frame(X: Any) -> tuple[Any, list[str]]:
    some = X.iloc[:_ROWS]
    columns = [_values_of_column(some.iloc[:, place]) for place in range(X.shape[1])]
    first = [_first(some.iloc[:, place]) for place in range(X.shape[1])]
    made = list(_rows(first, columns))
    if not made:
        return None, []
    rows = some.iloc[[0] * len(made)].reset_index(drop=True)
    for place in range(X.shape[1]):
        kept = some.iloc[:, place].dtype
        rows.isetitem(place, _as_column([row[place] for _, row in made], kept))
    return rows, [kind for kind, _ in made]


def _first(series: Any) -> Any:
    """Returns a value of a column. A missing one would not show its type."""
    known = series[~series.isna()]
    return (known if len(known) else series).iloc[0]


def _as_column(values: list[Any], dtype: Any) -> Any:
    import pandas

    return pandas.Series(values, dtype=dtype)


def _rows(first: Any, columns: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yields rows in which all columns have the same kind of rare value, then rows in which only
    one column has a rare value."""
    kinds = [kind for kind in _KINDS if any(kind in values for values in columns)]
    for kind in kinds:
        yield kind, [values.get(kind, one) for one, values in zip(first, columns, strict=True)]
    changed = np.unique(np.linspace(0, len(columns) - 1, _COLUMNS).astype(int))
    for place in changed if len(columns) > 1 else []:
        for kind in _ONE_BY_ONE:
            if kind in columns[place]:
                row = list(first)
                row[place] = columns[place][kind]
                yield kind, row


#: Kinds of rare values, in the order of their rows.
_KINDS = "missing zero least mean median between unknown empty".split()
_ONE_BY_ONE = "missing unknown between".split()


def _values(column: Any) -> dict[str, Any]:
    """Returns rare values for a column, by kind."""
    if _is_text(column):
        return {"unknown": UNKNOWN, "empty": ""}
    if column.dtype.kind in "iu":
        limits = np.iinfo(column.dtype)
        found = {"zero": 0, "least": column.min()}
        return found | ({"unknown": column.max() + 1} if column.max() < limits.max else {})
    if column.dtype.kind != "f":
        return {}
    known = np.unique(column[np.isfinite(column)])
    found = {"missing": np.nan, "zero": 0.0}
    if known.size:
        found |= {"least": known[0], "mean": known.mean(), "median": np.median(known)}
    if known.size > 1:
        found["between"] = (known[0] + known[1]) / 2
    return found


def _values_of_column(series: Any) -> dict[str, Any]:
    if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "fiuO":
        # For pandas' own types, only texts can have new values. Categories are fixed.
        is_text = str(series.dtype) in ("str", "string")
        return {"unknown": UNKNOWN, "empty": ""} if is_text else {}
    if series.dtype.kind == "O":
        is_text = column_array(series)[0] == TEXT
        return {"unknown": UNKNOWN, "empty": ""} if is_text else {}
    return _values(series.to_numpy())


def _is_text(array: Any) -> bool:
    if array.dtype == object:
        return all(isinstance(one, str) for one in array[:_ROWS].ravel())
    return array.dtype.kind in "UT"
