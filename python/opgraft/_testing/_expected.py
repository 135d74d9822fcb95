"""Compares results with what was expected: elements within tolerances, and inferred shapes.

Uses the same words as C++ (src/testing/comparison.cc), and the same table of tolerances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opgraft import _pyop

Shape = tuple[int | str | None, ...] | None
Tolerance = tuple[float, float]

#: The absolute and relative tolerance by the type's name. Other types must match exactly.
TOLERANCES: Mapping[str, Tolerance] = {
    one.name: (one.tolerance, one.tolerance) for one in _pyop.ELEMENT_TYPES if one.tolerance
}


def compare(expected: np.ndarray, got: Any, tolerance: Tolerance | None) -> str | None:
    """Returns None if `got` is what was expected; otherwise the first difference."""
    if not isinstance(got, np.ndarray):
        return f": expected a tensor, got {type(got).__name__}"
    if type_name(got) != type_name(expected):
        return f": expected {type_name(expected)}, got {type_name(got)}"
    if got.shape != expected.shape:
        return f": expected the shape {shape_text(expected.shape)}, got {shape_text(got.shape)}"
    absolute, relative = tolerance or TOLERANCES.get(expected.dtype.name, (0, 0))
    if is_float(expected):
        wanted, came = expected.astype(np.float64), got.astype(np.float64)
        with np.errstate(invalid="ignore"):
            away = np.abs(came - wanted)
            near = away <= absolute + relative * np.abs(wanted)
        finite = np.isfinite(wanted) & np.isfinite(came)
        same = np.where(finite, near, (wanted == came) | (np.isnan(wanted) & np.isnan(came)))
    else:
        away, finite = None, None
        same = np.asarray(expected == got)
    if same.all():
        return None
    index = tuple(int(place) for place in np.argwhere(~same)[0])
    text = f"{list(index)}: expected {expected[index]!s}, got {got[index]!s}"
    if expected.dtype.kind == "O":
        text = f"{list(index)}: expected {expected[index]!r}, got {got[index]!r}"
    if away is not None and finite is not None and finite[index]:
        text += (
            f", which is {away[index]:.3g} away "
            f"(tolerance {absolute:.3g} + {relative:.3g} * |expected|)"
        )
    if expected.size > 1:
        text += f"; {np.count_nonzero(~same)} of {expected.size} elements differ"
    return text


def is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float"))


def type_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUST" else str(array.dtype.name)


def shape_text(shape: Shape | Sequence[int]) -> str:
    if shape is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if one is None else str(one) for one in shape) + "]"


def evaluate(expression: str, symbols: Mapping[str, int]) -> int | None:
    """Returns the size of a symbol, or of an expression of symbols and numbers such as "2*n".

    Returns None if it is invalid or has an unknown symbol.
    """
    size: int | None = _pyop.evaluate_size(expression, dict(symbols))
    return size


def contains(said: Shape, shape: Sequence[int], symbols: Mapping[str, int]) -> bool:
    """Whether the inferred shape `said` agrees with the actual shape."""
    if said is None:
        return True
    if len(said) != len(shape):
        return False
    sizes = [evaluate(one, symbols) if isinstance(one, str) else one for one in said]
    return all(size in (None, real) for size, real in zip(sizes, shape, strict=True))


def meaning(said: Shape, symbols: Mapping[str, int]) -> str:
    """Returns the values of a shape's symbols, such as ", where n is 2 and m is 3"."""
    known = [
        f"{one} is {evaluate(one, symbols)}"
        for one in said or ()
        if isinstance(one, str) and evaluate(one, symbols) is not None
    ]
    return ", where " + " and ".join(known) if known else ""
