"""Rows unlike those that a model is made with, which it is tried with besides.

A conversion may be right for the rows that it is given and wrong for what none of them has: missing
values, zeros, categories that nobody has seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from opgraft._run._frames import TEXT, column_array, is_frame
from opgraft.sklearn._convert._recording import fresh

#: A category, or a word, that no data has.
UNKNOWN = "opgraft-unknown"
#: So many columns at most are changed one at a time, and so many rows are looked at.
_COLUMNS, _ROWS = 8, 1000


def rare_rows(estimator: Any, methods: Sequence[str], X: Any) -> Any:
    """Those of the rows that the estimator takes; None where there are none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows, kinds = _make(X)
        if not kinds or _takes(estimator, methods, rows):
            return rows
        taken = []
        # Most that refuse some refuse all that are missing, or all that are unknown.
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
    """The rows, and what is rare in each."""
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
    """A value of a column: by one that is missing, its type would not be known."""
    known = series[~series.isna()]
    return (known if len(known) else series).iloc[0]


def _as_column(values: list[Any], dtype: Any) -> Any:
    import pandas

    return pandas.Series(values, dtype=dtype)


def _rows(first: Any, columns: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Rows in which all columns are rare in one way, and rows in which one column is."""
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


#: In the order of their rows.
_KINDS = "missing zero least mean median between unknown empty".split()
_ONE_BY_ONE = "missing unknown between".split()


def _values(column: Any) -> dict[str, Any]:
    """Values that the column may have, by what they are."""
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
        # Types of pandas' own: texts alone, of which any may come. Categories are those that are.
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
