"""Walks over all objects that a fitted estimator holds, with the places where it holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

_ENDS = (str, bytes, int, float, complex, type, MethodType, BuiltinFunctionType)


class Place(NamedTuple):
    """An object and its place in the object that holds it."""

    owner: Any
    value: Any
    replace: Callable[[Any], None] | None  #: puts another object there; None if impossible


def walk(root: Any) -> Iterator[Place]:
    """Yields each object that can be reached from `root` once, parts before their owners.

    Numbers, strings and types are left out. The walk does not look inside functions.
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
    kept.append(value)  # so that no other object gets its id
    for inner in list(parts(value)):
        yield from _walk(inner, seen, kept)
    yield place


def parts(value: Any) -> Iterator[Place]:
    """Yields the places of the objects that a value holds directly."""
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
