"""Converts plain Python values to arrays, and parts of a model to objects of onnx.

Called by the bridge, in Python programs and in C++ programs. The text of a ValueError becomes part
of an operator's error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_DEEPEST = 32  # the number of dimensions that every NumPy version supports


def as_array(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Converts a number, a str, or (nested) lists of them to an array, if nothing is lost by that.

    An integer may be given for a float, but not a float or a bool for an integer. A float is
    rounded to the type, as usual. For strings, `dtype` is object.
    """
    shape, elements = _flatten(value)
    if dtype.kind == "O":
        array = _strings(elements)
    elif dtype.kind == "b":
        array = np.array([_of(element, bool, "bool", dtype) for element in elements], dtype)
    elif _is_integer(dtype):
        array = _integers(elements, dtype)
    else:
        array = _floats(elements, dtype)
    return array.reshape(shape)


def parse(kind: str, serialized: bytes) -> Any:
    """Parses a message into the class of onnx, such as "GraphProto"."""
    import onnx

    return getattr(onnx, kind).FromString(serialized)


def _flatten(value: Any) -> tuple[list[int], list[Any]]:
    first, depth = value, 0
    while isinstance(first, (list, tuple)) and first:
        first, depth = first[0], depth + 1
        if depth > _DEEPEST:  # such as a list that holds itself
            raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    shape: list[int] = []
    level = [value]
    while level and isinstance(level[0], (list, tuple)):
        length = len(level[0])
        if any(not isinstance(part, (list, tuple)) or len(part) != length for part in level):
            raise ValueError("its parts are of different lengths")
        shape.append(length)
        level = [element for part in level for element in part]
    if any(isinstance(element, (list, tuple)) for element in level):
        raise ValueError("its parts are of different lengths")
    return shape, level


def _of(element: Any, kinds: Any, expected: str, dtype: np.dtype[Any]) -> Any:
    """Returns the element if it is of these kinds; a NumPy scalar must be of exactly this type."""
    if isinstance(element, np.generic):
        if element.dtype == dtype:
            return element.item()
    elif isinstance(element, kinds) and (kinds is bool or not isinstance(element, bool)):
        return element
    raise ValueError(f"it holds {_text(element)}, expected {expected}")


def _text(element: Any) -> str:
    name = type(element).__name__
    try:
        text = repr(element)
    except Exception:  # an int may have too many digits
        return f"a value of type {name}"
    return f"{text} ({name})" if len(text) <= 60 else f"{text[:60]}... ({name})"


def _strings(elements: list[Any]) -> np.ndarray:
    array = np.empty(len(elements), object)
    for i, element in enumerate(elements):
        if not isinstance(element, str):
            raise ValueError(f"it holds {_text(element)}, expected str")
        array[i] = element
    return array


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or (dtype.kind == "V" and dtype.name.lstrip("u").startswith("int"))


def _integers(elements: list[Any], dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind in "iu":
        limits: Any = np.iinfo(dtype)
    else:
        import ml_dtypes

        limits = ml_dtypes.iinfo(dtype)
    integers = [int(_of(element, int, "integers", dtype)) for element in elements]
    for integer in integers:
        if not int(limits.min) <= integer <= int(limits.max):
            raise ValueError(f"{_text(integer)} does not fit {dtype.name}")
    return np.array(integers, dtype)


def _floats(elements: list[Any], dtype: np.dtype[Any]) -> np.ndarray:
    wide = np.empty(len(elements), np.float64)
    for i, element in enumerate(elements):
        number = _of(element, (float, int), "floats", dtype)
        try:
            wide[i] = float(number)
        except OverflowError:
            raise ValueError(f"{_text(element)} does not fit {dtype.name}") from None
    with np.errstate(all="ignore"):
        narrow = wide.astype(dtype)
        again = narrow.astype(np.float64)
    lost = ~np.isnan(wide) & (np.isnan(again) | (np.isinf(wide) != np.isinf(again)))
    if lost.any():
        raise ValueError(f"{_text(elements[int(lost.argmax())])} does not fit {dtype.name}")
    return narrow
