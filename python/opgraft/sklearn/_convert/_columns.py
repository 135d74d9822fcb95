"""Stores the types of a DataFrame's columns in a Python node, so that its step gets them back."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from opgraft._base._errors import ModelError, UnavailableError
from opgraft._run import _frames

#: An object column of True, False and missing values.
_TRUTHS = "truths"
#: The only type names that are passed to pandas, since a model is not trusted.
_NAMES = re.compile(
    r"object|str|string|U?Int(8|16|32|64)|Float(32|64)|boolean"
    r"|(datetime64|timedelta64)\[(s|ms|us|ns)(, [\w/+:-]+)?\]"
    r"|(u?int(8|16|32|64)|float|double|bool|string|large_string|date32\[day\]"
    r"|(timestamp|duration)\[(s|ms|us|ns)(, tz=[\w/+:-]+)?\])\[pyarrow\]"
)


def describe(frame: Any) -> list[str]:
    """Returns the type of each column, or "" if the model's own type of numbers is enough."""
    return [_describe(frame.iloc[:, place]) for place in range(frame.shape[1])]


def needs_frame(frame: Any) -> bool:
    """Whether an array would lose information that the frame has."""
    return _TRUTHS in describe(frame)


def _describe(series: Any) -> str:
    import pandas

    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = dtype.categories.tolist()
        if all(type(one) in (str, int, float, bool) for one in categories):
            return json.dumps({"categories": categories, "ordered": bool(dtype.ordered)})
        return ""
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return ""
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        if _frames.column_array(series)[0] == _frames.TEXT:
            return "object"
        known = series[~series.isna()].tolist()
        return _TRUTHS if known and all(isinstance(one, (bool, np.bool_)) for one in known) else ""
    return str(dtype) if _NAMES.fullmatch(str(dtype)) else ""


def check(kinds: list[str]) -> None:
    """Raises a ModelError for a kind that `describe` does not write."""
    for kind in kinds:
        if kind in ("", _TRUTHS) or _NAMES.fullmatch(kind):
            continue
        try:
            found = json.loads(kind)
            is_right = isinstance(found["categories"], list) and isinstance(found["ordered"], bool)
        except (ValueError, TypeError, KeyError):
            is_right = False
        if not is_right:
            raise ModelError(f"'{kind[:100]}' is not a type of a column")


def restore(values: Any, kind: str) -> Any:
    """Returns a column of this kind from the array that `_frames.column_array` made of one."""
    import pandas

    if not kind:
        return values
    if kind == _TRUTHS:
        return pandas.Series([None if one != one else bool(one) for one in values], dtype=object)
    if kind.startswith("{"):
        found = json.loads(kind)
        return pandas.Categorical(values, found["categories"], ordered=found["ordered"])
    if kind == "str" and int(pandas.__version__.partition(".")[0]) < 3:
        kind = "object"  # older versions would turn missing values into strings
    try:
        dtype = pandas.api.types.pandas_dtype(kind)
    except (TypeError, ImportError, NameError) as error:
        raise UnavailableError(
            f"cannot create a column of the type '{kind}': {error}"
            + (" Fix: pip install pyarrow" if "pyarrow" in kind else "")
        ) from error
    types = pandas.api.types
    if types.is_datetime64_any_dtype(dtype):
        points = pandas.Series(values.view("M8[ns]"))
        tz = getattr(dtype, "tz", None) or getattr(
            getattr(dtype, "pyarrow_dtype", None), "tz", None
        )
        return (points if tz is None else points.dt.tz_localize("UTC")).astype(dtype)
    if types.is_timedelta64_dtype(dtype):
        return pandas.Series(values.view("m8[ns]")).astype(dtype)
    if types.is_numeric_dtype(dtype):
        make = (
            bool if types.is_bool_dtype(dtype) else int if types.is_integer_dtype(dtype) else float
        )
        listed = [None if one != one else make(one) for one in values.tolist()]
        return pandas.array(listed, dtype=dtype)
    return pandas.Series(values, dtype=dtype)
