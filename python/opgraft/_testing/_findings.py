"""Runs a case of an operator in each way and collects the problems, as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

from opgraft._declare._signature import ELEMENT_TYPES
from opgraft._testing import _case
from opgraft._testing._case import FIXED, SYMBOLIC, UNKNOWN, Case, Session, Way
from opgraft._testing._devices import CPU
from opgraft._testing._expected import (
    Shape,
    compare,
    contains,
    evaluate,
    meaning,
    shape_text,
    type_name,
)


class Findings:
    """The problems, each with the ways of running in which it occurs."""

    def __init__(self, case: Case, ways: int) -> None:
        self._who, self._ways = case.full_name, ways
        self._found: dict[str, list[str]] = {}

    def add(self, way: str, problem: str) -> None:
        self._found.setdefault(problem, []).append(way)

    def texts(self) -> list[str]:
        where = f"\n  in ONNX Runtime {onnxruntime.__version__}, "
        return [
            f"{self._who}: {problem}{where}"
            + (
                f"in all {self._ways} ways of running"
                if len(ways) >= self._ways
                else "only in these ways of running:" + "".join(f"\n    {way}" for way in ways)
            )
            for problem, ways in self._found.items()
        ]


def check(case: Case) -> list[str]:
    ways = case.ways()
    findings = Findings(case, len(ways))
    came: dict[str, Any] | None = None
    for way in ways:
        try:
            came = _run_way(case, way, findings)
        except Exception as error:
            findings.add(way.name, f"it failed: {_text(error)}")
    if came is not None:
        _check_rule(case, came, findings)
    _check_reference(case, findings)
    return findings.texts()


def check_failure(case: Case, text: str) -> list[str]:
    ways = case.ways()
    findings = Findings(case, len(ways))
    for way in ways:
        try:
            Session(case, way).run()
            findings.add(way.name, f'expected a failure with "{text}", but it did not fail')
        except Exception as error:
            if text not in _text(error):
                problem = f'expected a failure with "{text}", but the error is: {_text(error)}'
                findings.add(way.name, problem)
    return findings.texts()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _run_way(case: Case, way: Way, findings: Findings) -> dict[str, Any]:
    session = Session(case, way)
    first: dict[str, Any] | None = None
    for time in ("", "in a second run, "):
        got, changed = session.run()
        if first is not None and _compare_outputs(case, first, got) == []:
            break
        for name in changed:
            findings.add(way.name, f"{time}it changed its input '{name}'")
        for problem in _compare_outputs(case, None, got):
            findings.add(way.name, time + problem)
        for name in case.output_names if way.asks_shapes else []:
            told, real = tuple(got[_case.shape_name(name)]), np.shape(got[name])
            if told != real:
                findings.add(
                    way.name,
                    f"output '{name}': the operator Shape after it returns {shape_text(told)}, but "
                    f"its shape is {shape_text(real)}: the runtime inferred it wrongly",
                )
        first = got
    assert first is not None
    for name in case.output_names:
        said = session.inferred(name)
        _check_said(
            way.name, "the runtime inferred", name, said, session.plan.symbols, first, findings
        )
    return first


def _compare_outputs(case: Case, expected: dict[str, Any] | None, got: dict[str, Any]) -> list[str]:
    """Compares with the expected outputs, or, if given, exactly with those of the first run."""
    problems = []
    for one in case.outputs:
        if one.array is None:
            continue
        if expected is None:
            problem = compare(one.array, got[one.name], one.tolerance)
        else:
            problem = compare(expected[one.name], got[one.name], (0, 0))
        if problem is not None:
            problems.append(f"output '{one.name}'{problem}")
    return problems


def _check_said(
    way: str,
    who: str,
    output: str,
    said: tuple[str, Shape],
    symbols: dict[str, int],
    came: dict[str, Any],
    findings: Findings,
) -> None:
    """Checks that what was inferred for an output agrees with its value."""
    said_type, said_shape = said
    array = came[output]
    if said_type and said_type != type_name(array):
        findings.add(way, f"output '{output}': {who} {said_type}, but it is {type_name(array)}")
    if not contains(said_shape, array.shape, symbols):
        findings.add(
            way,
            f"output '{output}': {who} the shape {shape_text(said_shape)}"
            f"{meaning(said_shape, symbols)}, but it is {shape_text(array.shape)}",
        )


def _check_rule(case: Case, came: dict[str, Any], findings: Findings) -> None:
    if not _case.is_known_to_onnx(case):
        return
    for dimensions in (FIXED, SYMBOLIC, UNKNOWN):
        way = f"onnx.shape_inference, {dimensions}"
        try:
            said, symbols = _case.ask_onnx(case, dimensions)
        except Exception as error:
            findings.add(way, f"its shape rule fails: {_text(error)}")
            continue
        for name in case.output_names:
            if name in said:
                _check_said(way, "its shape rule says", name, said[name], symbols, came, findings)


def _check_reference(case: Case, findings: Findings) -> None:
    """Compares with the package onnx, which computes on the CPU, with NumPy's types only."""
    if CPU not in case.devices:
        return
    if case.library or any(one.element_type > 13 for one in (*case.inputs, *case.outputs)):
        return
    try:
        got = _case.run_reference(case)
    except Exception as error:
        findings.add("onnx.reference", f"it failed: {_text(error)}")
        return
    for problem in [] if got is None else _compare_outputs(case, None, got):
        findings.add("onnx.reference", problem)


def check_shapes(case: Case) -> list[str]:
    problems = []
    known = {one: 1 for value in case.inputs for one in value.shape or () if isinstance(one, str)}
    has_rule = _case.is_known_to_onnx(case)
    if has_rule:
        try:
            said, _ = _case.ask_onnx(case, FIXED)
        except Exception as error:
            return [f"{case.full_name}: its shape rule fails: {_text(error)}"]
        problems += [
            f"{text}\n  from onnx.shape_inference"
            for text in _differences(case, said, known, False)
        ]
    if not case.devices:
        return problems
    way = Way("shapes alone", on_gpu=CPU not in case.devices)
    try:
        session = Session(case, way)
    except Exception as error:
        return [*problems, f"{case.full_name}: ONNX Runtime refuses the model: {_text(error)}"]
    inferred = {name: session.inferred(name) for name in case.output_names}
    problems += [
        f"{text}\n  inferred by ONNX Runtime" for text in _differences(case, inferred, known, True)
    ]
    return problems


def _differences(
    case: Case, said: dict[str, tuple[str, Shape]], known: dict[str, int], is_runtime: bool
) -> list[str]:
    """Returns the differences from the expected shapes. A runtime makes up names for unknown sizes,
    and may know less than the rule."""
    may_tell_less = is_runtime and (_case.is_known_to_onnx(case) or case.library is not None)

    def is_open(size: int | str | None) -> bool:
        return size is None or (isinstance(size, str) and evaluate(size, known) is None)

    problems = []
    names = {number: name for name, number in ELEMENT_TYPES.items()}
    for one in case.outputs:
        if not one.name:
            continue
        told_type, told = said.get(one.name, ("", None))
        who = f"{case.full_name}: output '{one.name}': expected"
        if told_type and told_type != names[one.element_type]:
            problems.append(f"{who} {names[one.element_type]}, got {told_type}")
        if told is None and (may_tell_less or one.shape is None):
            continue
        if told is None and is_runtime and one.shape == ():
            continue  # no dimensions: a scalar, or a shape that is unknown
        if (
            told is None
            or one.shape is None
            or len(told) != len(one.shape)
            or any(
                a != b and not (is_open(a) and (may_tell_less or is_open(b)))
                for a, b in zip(told, one.shape, strict=True)
            )
        ):
            problems.append(f"{who} the shape {shape_text(one.shape)}, got {shape_text(told)}")
    return problems


def check_rule_fails(case: Case, text: str) -> list[str]:
    wanted = f'{case.full_name}: expected its shape rule to fail with "{text}", but '
    if not _case.is_known_to_onnx(case):
        return [wanted + "onnx does not have the operator, so there is no rule to check"]
    try:
        _case.ask_onnx(case, FIXED)
    except Exception as error:
        if text in _text(error):
            return []
        return [wanted + f"the error is: {_text(error)}"]
    return [wanted + "it did not fail"]
