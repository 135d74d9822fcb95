"""Guards of captured programs: what a draft assumed, and what the graph itself asserts."""

from __future__ import annotations

import itertools
import math
import operator
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _guards, _lines, _raising
from opgraft.torch._capture._fixed import fixed_symbols
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line, line_at
from opgraft.torch._graphs._graph import calls, operator_name

_LAYERS = os.path.join(_private.OF_TORCH, "nn", "")


def guards_of(
    program: torch.export.ExportedProgram, conditions: Sequence[_private.Condition] | None = None
) -> list[Guard]:
    """All that a program assumes about the data, whoever captured it. `conditions` are those noted
    during the capture, or None if it was captured elsewhere."""
    fixed = fixed_symbols(program)
    drafted = [
        one
        for one in _private.specialisations(program)
        if one.is_on_data and not _is_fixed(one.expression, fixed)
    ]
    guards = [_drafted(one, conditions or ()) for one in drafted]
    # A draft writes its assumptions into the graph as well.
    lines = {(one.line.file, one.line.number) for one in guards}
    known = {symbol for one in drafted for symbol in _symbols(one.expression)} | fixed
    asserted = [*_asserted(program, known, conditions), *_asynchronous(program)]
    others = [one for one in asserted if (one.line.file, one.line.number) not in lines]
    return _guards.merged([*guards, *others, *_raised(program, is_told=conditions is None)])


def _is_fixed(expression: str, fixed: set[str]) -> bool:
    """Whether an expression does not depend on the arguments."""
    symbols = _symbols(expression)
    return bool(symbols) and symbols <= fixed


def user_line(stack: Sequence[tuple[str, int, str]]) -> Line:
    """The innermost line of a stack that is neither torch's nor ours; else torch's own."""
    found = _own(stack)[-1:] or [one for one in stack if not one[0].startswith(_private.OURS)][-1:]
    return Line(*found[0]) if found else Line()


def _own(stack: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    return [one for one in stack if not one[0].startswith(_private.NOT_THE_MODELS)]


def _drafted(one: _private.Specialisation, conditions: Sequence[_private.Condition]) -> Guard:
    taken = {"True": True, "False": False}.get(one.result) if one.occurrences == 1 else None
    detail = f"{one.expression} is {one.result}" if one.result else one.expression
    # The draft's report omits the model's lines where a method of torch decides (`1.0 in x`).
    callers = [Line(*frame) for frame in _own(one.stack)] or _asking(one.expression, conditions)
    line = callers[-1] if callers else user_line(one.stack)
    guard = _guards.at(line, taken, f"in torch's words, {detail}", callers)
    # A torch function that the line calls may reject the data, just as the model may.
    layers = [frame for frame in one.full_stack if frame[0].startswith(_LAYERS)]
    inner = _guards.at(Line(*layers[-1])) if layers else guard
    if not guard.is_asserted and inner.is_asserted:
        guard = _guards.unless_caught(replace(inner, line=line), callers)
    return guard


def _asking(expression: str, conditions: Iterable[_private.Condition]) -> list[Line]:
    """The lines of the model that lead to the first condition on the same numbers."""
    symbols = _symbols(expression)
    found = (one for one in conditions if one.stack and _symbols(str(one.expression)) == symbols)
    return [line_at(*frame) for one in itertools.islice(found, 1) for frame in one.stack]


def _symbols(expression: str) -> set[str]:
    """torch's symbols for numbers that depend on data: u0, zuf1."""
    return set(re.findall(r"\bz?u\w*\d+\b", expression))


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)[^\n]*\n\s*(?P<code>[^\n]*)')


def _frames(node: torch.fx.Node) -> list[tuple[str, int, str]]:
    found = _FRAME.finditer(str(node.meta.get("stack_trace") or ""))
    return [(one["file"], int(one["line"]), one["code"].strip()) for one in found]


def _line_of(node: torch.fx.Node) -> Line:
    return user_line(_frames(node))


@dataclass
class _Range:
    """What is asserted about one number."""

    line: Line
    callers: Sequence[Line]
    is_size: bool = False  # of a tensor: it cannot be negative, and other sizes may limit it
    least: float = -math.inf
    most: float = math.inf
    #: Whether the model itself sets the lower bound, not an operator that uses it as a size.
    is_least_asked: bool = False

    def add(self, least: float, most: float, *, is_asked: bool) -> None:
        self.least, self.most = max(self.least, least), min(self.most, most)
        self.is_least_asked |= is_asked and least > -math.inf

    def guard(self) -> Iterator[Guard]:
        what = "the size of the result" if self.is_size else "the number"
        is_told = self.least > 0 or (self.is_least_asked and not self.is_size)
        bounds = [f"at least {self.least:g}"] if is_told else []
        if self.most < math.inf and not self.is_size:
            bounds.append(f"at most {self.most:g}")
        if self.least == self.most:
            bounds = [f"{self.least:g}"]
        if bounds:
            guard = Guard(self.line, f"{what} is {' and '.join(bounds)}", is_asserted=True)
            yield _guards.unless_caught(guard, self.callers)


def _asserted(
    program: torch.export.ExportedProgram,
    known: set[str],
    conditions: Sequence[_private.Condition] | None,
) -> Iterator[Guard]:
    """What the model, or an operator that it calls, asserts about symbols other than `known`; ONNX
    does not check it."""
    ranges: dict[str, _Range] = {}
    told: set[str] = set()
    for one in conditions or ():  # torch omits some of the model's assertions from its graph
        lines = [line_at(*frame) for frame in one.stack]
        if not one.is_of_data or not one.is_of_model or not lines:
            continue
        if _symbols(str(one.expression)) <= known:
            continue
        told |= one.texts
        if one.bound is not None:
            symbol, *bounds = one.bound
            found = ranges.setdefault(symbol, _Range(lines[-1], lines))
            found.add(*bounds, is_asked=True)
        else:
            guard = Guard(lines[-1], f"{one.expression}, in torch's words", is_asserted=True)
            if _lines.is_assertion(lines[-1]):
                guard = _guards.at(lines[-1])
            yield _guards.unless_caught(guard, lines)
    for _, node in calls(program):
        name = operator_name(node.target).partition(".")[0]
        if name != "aten::_assert_scalar" or not isinstance(node.args[0], torch.fx.Node):
            continue
        said = re.search(r"expression (.+?) on node", str(node.args[1]))
        if said and (said[1] in told or _symbols(said[1]) <= known):
            continue  # about sizes of the arguments, or known already
        number, test = _bounds(node.args[0])
        if number is None:
            condition = f"{said[1] if said else node.args[0]}, in torch's words"
            yield Guard(_line_of(node), condition, is_asserted=True)
            continue
        symbol = str(_private.as_read(number.meta["val"]))
        found = ranges.setdefault(symbol, _Range(_line_of(number), ()))
        found.is_size |= operator_name(number.target).startswith("aten::sym_")
        # For a graph that was captured elsewhere, it is unknown who asserts this.
        found.add(*test, is_asked=conditions is None)
    for each in ranges.values():
        yield from each.guard()


def _raised(program: torch.export.ExportedProgram, *, is_told: bool) -> Iterator[Guard]:
    """Guards for data on which operators raise. `is_told`: also where torch records no line."""
    for _, node in calls(program):
        name = operator_name(node.target)
        if _raising.may_raise(name):
            frames = [Line(*frame) for frame in _own(_frames(node))]
            guard = _raising.guard(name, frames[-1] if frames else Line(), frames)
            if guard is not None and (frames or is_told):
                yield guard


def _asynchronous(program: torch.export.ExportedProgram) -> Iterator[Guard]:
    for _, node in calls(program):
        if operator_name(node.target).partition(".")[0] == "aten::_assert_async":
            callers = [Line(*frame) for frame in _own(_frames(node))]
            yield _guards.at(_line_of(node), callers=callers)


_BOUNDS: dict[Any, Any] = {
    operator.ge: lambda bound: (bound, math.inf),
    operator.le: lambda bound: (-math.inf, bound),
    operator.gt: lambda bound: (math.floor(bound) + 1, math.inf),
    operator.lt: lambda bound: (-math.inf, math.ceil(bound) - 1),
    operator.eq: lambda bound: (bound, bound),
}


def _bounds(test: torch.fx.Node) -> tuple[torch.fx.Node | None, tuple[float, float]]:
    """The number that a test is about and its bounds; None if the test is not that simple."""
    if test.target in _BOUNDS and len(test.args) == 2:
        number, bound = test.args
        if isinstance(number, torch.fx.Node) and isinstance(bound, (int, float)):
            is_one = isinstance(number.target, _private.OpOverload)  # not a sum of several
            if is_one and isinstance(number.meta.get("val"), torch.SymInt):
                return number, _BOUNDS[test.target](bound)
    return None, (-math.inf, math.inf)
