"""Converts pandas DataFrames to the inputs of a model: columns to arrays, arrays to inputs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opgraft._base._errors import Error

#: The metadata key for facts about a model's inputs that ONNX's types do not express.
METADATA = "opgraft.frame"
#: Kinds of columns besides numbers.
TEXT, DATES, OTHER = "text", "dates", "other"

_NUMPY = {"float": "float32", "double": "float64"}
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}


def is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _is_series(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series)


def has_frames(feed: Any) -> bool:
    """Whether a feed is a DataFrame, or has a DataFrame or a Series among its values."""
    if is_frame(feed):
        return True
    return isinstance(feed, Mapping) and any(is_frame(v) or _is_series(v) for v in feed.values())


# Columns


def column_array(series: Any) -> tuple[str, Any]:
    """Returns the kind of a column and its values. Numbers: the name of a NumPy type, with NaN for
    missing values. Texts: "text", as objects, with missing values unchanged. Points and spans of
    time: "dates", in nanoseconds. Objects that ONNX cannot represent: "other"."""
    pandas = sys.modules["pandas"]
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        series = _uncoded(series)
        dtype = series.dtype
    types = pandas.api.types
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return DATES, _nanoseconds(series)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return dtype.name, series.to_numpy()
    if isinstance(dtype, pandas.StringDtype):
        return TEXT, series.to_numpy(dtype=object)
    if types.is_numeric_dtype(dtype):  # pandas' and Arrow's types of numbers, and bools
        return _numbers(series, getattr(dtype, "numpy_dtype", np.dtype(np.float64)))
    found = types.infer_dtype(series, skipna=True)
    if found in ("string", "empty"):
        return TEXT, series.to_numpy(dtype=object)
    if found in _NUMBERS:
        kind = {"integer": np.int64, "boolean": np.bool_}.get(found, np.float64)
        return _numbers(series, np.dtype(kind))
    return OTHER, series.to_numpy(dtype=object)


def _uncoded(series: Any) -> Any:
    """Converts a column of categories to a column of their values."""
    dtype = series.dtype.categories.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iub" and series.isna().any():
        dtype = np.dtype(np.float64)
    return series.astype(object).astype(dtype)


def _numbers(series: Any, dtype: np.dtype[Any]) -> tuple[str, Any]:
    if dtype.kind not in "fiub":  # Arrow's decimals
        dtype = np.dtype(np.float64)
    if dtype.kind in "iub" and series.isna().any():
        dtype = np.dtype(np.float64)
    if dtype.kind == "f":
        values = series.to_numpy(dtype=object).copy()
        values[series.isna().to_numpy(dtype=bool)] = np.nan
        return dtype.name, values.astype(dtype)
    return dtype.name, series.to_numpy(dtype=object).astype(dtype)


def _nanoseconds(series: Any) -> Any:
    pandas = sys.modules["pandas"]
    is_point = pandas.api.types.is_datetime64_any_dtype(series.dtype)
    try:
        if is_point and series.dt.tz is not None:
            series = series.dt.tz_convert(None)
        # Converted by pandas, which checks for overflow; NumPy does not.
        exact = series.astype("datetime64[ns]" if is_point else "timedelta64[ns]")
    except ValueError as error:
        raise Error(
            f"column '{series.name}' has times that do not fit into nanoseconds: {error}"
        ) from error
    return exact.to_numpy().astype(np.int64)


def as_texts(values: Any) -> Any:
    """Converts objects to texts; missing ones to "nan", "None" or "<NA>", as ONNX Runtime does."""
    texts = np.empty(len(values), object)
    for index, value in enumerate(values):
        texts[index] = value if type(value) is str else str(value)
    return texts


def cast_column(series: Any, type_name: str, is_date: bool = False) -> Any:
    """Converts a column to an array for an input of this type, such as "double" or "string"."""
    kind, values = column_array(series)
    column = f"column '{series.name}'"
    if type_name == "string":
        if kind in (TEXT, OTHER):
            strange = ~series.isna().to_numpy(dtype=bool)
            strange &= np.fromiter((not isinstance(one, str) for one in values), bool, len(values))
            if not strange.any():
                return as_texts(values)
            kind = f"{type(values[strange][0]).__name__} among its values"
        raise Error(
            f"{column} has {kind}, but the model expects texts there. Fix: "
            f"frame[{series.name!r}].astype(str), if the model was made with such texts"
        )
    if (kind == DATES) != is_date or kind in (TEXT, OTHER):
        wanted = "points or spans of time" if is_date else f"numbers ({type_name})"
        raise Error(f"{column} has {kind}, but the model expects {wanted} there")
    dtype = np.dtype(_NUMPY.get(type_name, type_name))
    if values.dtype == dtype:
        return values
    if dtype.kind in "iub" and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Error(
            f"{column} has missing values, but the model expects {dtype.name} there, which cannot "
            "represent them. Fix: give opgraft.sklearn.to_onnx rows with missing values in this "
            "column too"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(dtype)
    # Floating-point numbers are rounded to the model's type; other values must convert exactly.
    if dtype.kind != "f" and not (cast == values).all():
        raise Error(f"{column} has {values.dtype.name} values that do not fit {dtype.name}")
    return cast


# Inputs


def as_feed(feed: Any, inputs: Sequence[Any], metadata: Mapping[str, str]) -> dict[str, Any]:
    """Makes the arrays for a session's inputs from a DataFrame, or from a feed that has some."""
    known = json.loads(metadata.get(METADATA, "{}"))
    by_name = {one.name: one for one in inputs}
    if is_frame(feed):
        is_matrix = len(inputs) == 1 and _is_wide(inputs[0], feed)
        feed = {inputs[0].name: feed} if is_matrix else {"X": feed}
    fed: dict[str, Any] = {}
    for name, value in feed.items():
        if name in by_name and is_frame(value):
            fed[name] = _matrix(value, by_name[name], known.get("columns", {}).get(name))
        elif name in by_name and _is_series(value):
            rank = len(by_name[name].shape)
            array = cast_column(value, _type_name(by_name[name]), name in known.get("dates", ()))
            fed[name] = array.reshape(-1, 1) if rank == 2 else array
        elif name == "X" and is_frame(value):
            others = [one for one in by_name if one not in feed]
            columns = _by_name(value, others, "the model has an input for each of")
            for column, place in columns.items():
                is_date = column in known.get("dates", ())
                array = cast_column(value.iloc[:, place], _type_name(by_name[column]), is_date)
                fed[column] = array.reshape(-1, 1) if len(by_name[column].shape) == 2 else array
        else:
            fed[name] = value  # if there is no such input, the runtime reports it
    return fed


def _is_wide(argument: Any, frame: Any) -> bool:
    """Whether the input takes all columns, rather than being one of them."""
    return len(argument.shape) == 2 and argument.name not in map(str, frame.columns)


def _matrix(frame: Any, argument: Any, columns: list[str] | None) -> Any:
    if columns is not None:
        found = _by_name(frame, columns, f"the model's input '{argument.name}' has")
        frame = frame.iloc[:, list(found.values())]
    width = argument.shape[1] if len(argument.shape) == 2 else None
    if isinstance(width, int) and width != frame.shape[1]:
        raise Error(
            f"the model's input '{argument.name}' has {width} columns, but the frame has "
            f"{frame.shape[1]}: {', '.join(map(str, frame.columns))}"
        )
    arrays = [
        cast_column(frame.iloc[:, place], _type_name(argument)) for place in range(frame.shape[1])
    ]
    return np.ascontiguousarray(np.stack(arrays, axis=1)) if arrays else frame.to_numpy()


def _by_name(frame: Any, columns: Sequence[str], who: str) -> dict[str, int]:
    """Returns the positions of the columns; raises an Error that names missing and surplus ones."""
    there = [str(one) for one in frame.columns]
    missing = [one for one in columns if one not in there]
    extra = [one for one in there if one not in columns]
    twice = [one for one in columns if there.count(one) > 1]
    if missing or extra or twice:
        parts = [
            f"{what} {', '.join(map(repr, names))}"
            for what, names in (
                ("it lacks", missing),
                ("it also has", extra),
                ("it has more than once", twice),
            )
            if names
        ]
        fix = "" if missing or twice else f". Fix: frame[{list(columns)!r}]"
        raise Error(
            f"the DataFrame does not have the columns that {who} "
            f"({', '.join(columns)}): {'; '.join(parts)}{fix}"
        )
    return {one: there.index(one) for one in columns}


def _type_name(argument: Any) -> str:
    kind = str(argument.type)
    if not kind.startswith("tensor("):
        raise Error(f"input '{argument.name}' is {kind}, which a DataFrame cannot provide")
    return kind.removeprefix("tensor(").removesuffix(")")
