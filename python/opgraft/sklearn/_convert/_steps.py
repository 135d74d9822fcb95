"""Lists the steps of an estimator as a conversion left them: native or Python, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sklearn.preprocessing import FunctionTransformer

from opgraft._doctor._steps import NATIVE, PYTHON, Step
from opgraft.sklearn._convert import _boosters, _ensembles
from opgraft.sklearn._convert._nodes import is_scikit_learns
from opgraft.sklearn._convert._recording import steps_of

_OWN = "a converter of yours: skl2onnx.update_registered_converter"


def list_steps(model: Any, why: Callable[[Any], str | None]) -> list[Step]:
    """Returns the steps that are converted one by one; `why` says why one is in Python, or None."""
    names = _names(model)
    listed: list[Step] = []

    def visit(step: Any) -> None:
        reason = why(step)
        inner = [] if reason is not None else _direct(step, names)
        if inner and _ensembles.is_composite(step):
            for one in inner:
                visit(one)
            return
        kind = NATIVE if reason is None else PYTHON
        listed.append(
            Step(
                names.get(id(step), type(step).__name__),
                f"{type(step).__module__}.{type(step).__name__}",
                kind,
                reason or "",
                "" if reason is None else _advice(step, reason),
            )
        )

    visit(model)
    return listed


def _direct(step: Any, names: dict[int, str]) -> list[Any]:
    """The steps right inside a step, in their order; not those that it was given to clone."""
    inside = [one for one in steps_of(step) if one is not step and id(one) in names]
    deeper = {id(two) for one in inside for two in steps_of(one) if two is not one}
    return [one for one in inside if id(one) not in deeper]


def _names(model: Any) -> dict[int, str]:
    """The names of steps by their ids, as in scikit-learn's parameters."""
    names = {id(model): ""}
    for holder in reversed(steps_of(model)):  # outer ones first
        if id(holder) not in names:
            continue
        prefix = names[id(holder)]
        for name, step in _named(holder):
            names.setdefault(id(step), f"{prefix}__{name}" if prefix else name)
    return names


def _named(holder: Any) -> Iterator[tuple[str, Any]]:
    given = vars(holder)
    for field in ("steps", "transformers_", "transformer_list"):
        if isinstance(given.get(field), list):
            yield from ((str(one[0]), one[1]) for one in given[field])
    if isinstance(given.get("named_estimators_"), dict):
        yield from ((str(name), step) for name, step in given["named_estimators_"].items())
    for field in ("final_estimator_", "best_estimator_", "estimator_"):
        if field in given:
            yield field, given[field]
    if isinstance(given.get("estimators_"), list):
        yield from ((f"estimators_{i}", one) for i, one in enumerate(given["estimators_"]))
    elif "estimator" in given and not {"best_estimator_", "estimator_"} & given.keys():
        yield "estimator", given["estimator"]


def _advice(step: Any, reason: str) -> str:
    if _boosters.remedy(type(step)):
        return _boosters.INSTALL
    if isinstance(step, FunctionTransformer):
        return "scikit-learn's own steps instead of a function"
    if "it loses digits" in reason:
        return "data of float64, or " + _OWN
    if "does not convert" in reason and "skl2onnx" in reason:
        return "other methods, or " + _OWN
    if "has no converter" in reason and is_scikit_learns(step):
        return "a newer skl2onnx that has one, or " + _OWN
    if "has no converter" in reason:
        return _OWN
    return "a newer skl2onnx that is right, or " + _OWN
