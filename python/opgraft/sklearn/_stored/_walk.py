"""All objects that a fitted estimator holds, and where it holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

_ENDS = (str, bytes, int, float, complex, type, MethodType, BuiltinFunctionType)


class Place(NamedTuple):
    """One thing that another holds."""

    owner: Any
    value: Any
    replace: Callable[[Any], None] | None  #: puts another there; None where that cannot be


def walk(root: Any) -> Iterator[Place]:
    """Each thing that can be reached from `root`, once, what is held before its holder.

    Numbers, texts and types are left out; functions are ends.
    """
    yield from _walk(Place(None, root, None), set(), [])


def _walk(place: Place, seen: set[int], kept: list[Any]) -> Iterator[Place]:
    value = place.value
    if isinstance(value, FunctionType):
        yield place
        return
    if value is None or isinstance(value, (*_ENDS, ModuleType)) or id(value) in seen:
        return
    seen.add(id(value))
    kept.append(value)  # so that no other gets its id
    for inner in list(parts(value)):
        yield from _walk(inner, seen, kept)
    yield place


def parts(value: Any) -> Iterator[Place]:
    """What it holds itself, each place of it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield Place(value, part, _setter(value, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield Place(value, part, _setter(value, index))
    elif isinstance(value, (tuple, set, frozenset)):
        for part in value:
            yield Place(value, part, None)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        for position in np.ndindex(value.shape):
            yield Place(value, value[position], _setter(value, position))
    elif isinstance(value, partial):
        for part in (value.func, value.args, value.keywords):
            yield Place(value, part, None)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        for name, part in attributes.items():
            yield Place(value, part, _setter(attributes, name))


def _setter(holder: Any, key: Any) -> Callable[[Any], None]:
    def replace(value: Any) -> None:
        holder[key] = value

    return replace
