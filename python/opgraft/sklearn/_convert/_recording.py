"""Records the input of each step while the whole estimator runs, to test each step alone."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import scipy.sparse

from opgraft.sklearn._convert._methods import has
from opgraft.sklearn._stored._walk import walk
from opgraft.sklearn.operators import METHODS


@dataclass(frozen=True)
class Call:
    """The first call of a step."""

    step: Any
    method: str
    X: Any


def steps_of(estimator: Any) -> list[Any]:
    """Returns all estimators in it that have methods for new data, inner ones first."""
    return [
        place.value
        for place in walk(estimator)
        if hasattr(place.value, "fit") and any(has(place.value, method) for method in METHODS)
    ]


def record(estimator: Any, X: Any, methods: list[str]) -> dict[int, Call]:
    """Runs the methods on X. Returns the first call of each step, by its id, in the order in which
    they finished."""
    calls: dict[int, Call] = {}
    steps = steps_of(estimator)
    with _watched(steps, calls), joblib.parallel_config(backend="sequential"):
        for method in methods:
            getattr(estimator, method.partition(".")[0])(fresh(X))
    return calls


@contextmanager
def _watched(steps: list[Any], calls: dict[int, Call]) -> Iterator[None]:
    put: list[tuple[Any, str]] = []
    try:
        for step in steps:
            for method in METHODS:
                if has(step, method) and method not in vars(step):
                    vars(step)[method] = _watch(step, method, getattr(step, method), calls)
                    put.append((step, method))
        yield
    finally:
        for step, method in put:
            vars(step).pop(method, None)


def _watch(
    step: Any, method: str, function: Callable[..., Any], calls: dict[int, Call]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*arguments: Any, **named: Any) -> Any:
        given = arguments[0] if arguments else named.get("X")
        is_new = given is not None and id(step) not in calls
        seen = fresh(given) if is_new else None
        result = function(*arguments, **named)
        if is_new:
            calls[id(step)] = Call(step, method, seen)
        return result

    return watched


def fresh(X: Any) -> Any:
    """Returns a dense copy, because users' functions may write to their input."""
    return X.toarray() if scipy.sparse.issparse(X) else copy.copy(X)
