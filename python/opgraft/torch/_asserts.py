"""Guards of captured programs: what a draft took for granted, and what the graph itself asserts."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from opgraft.torch import _guards, _private
from opgraft.torch._fixed import fixed_symbols
from opgraft.torch._graph import calls, operator_name
from opgraft.torch._guards import Guard, Line

_OF_TORCH = os.path.dirname(torch.__file__) + os.sep
_LAYERS = os.path.join(_OF_TORCH, "nn", "")


def guards_of(program: torch.export.ExportedProgram) -> list[Guard]:
    """Whatever of the data a program takes for granted, whoever captured it."""
    fixed = fixed_symbols(program)
    drafted = [
        one
        for one in _private.specialisations(program)
        if one.is_on_data and not _is_fixed(one.expression, fixed)
    ]
    # A draft writes what it took for granted into the graph as well.
    known = {symbol for one in drafted for symbol in _symbols(one.expression)} | fixed
    guards = [_drafted(one) for one in drafted]
    lines = {one.line for one in guards}
    asserted = [one for one in _asserted(program, known) if one.line not in lines]
    return _guards.merged([*guards, *asserted])


def _is_fixed(expression: str, fixed: set[str]) -> bool:
    """Whether no argument has a say in an expression."""
    symbols = _symbols(expression)
    return bool(symbols) and symbols <= fixed


def user_line(stack: Sequence[tuple[str, int, str]]) -> Line:
    """The innermost line of a stack that is not torch's own."""
    own = [one for one in stack if not one[0].startswith(_OF_TORCH)]
    found = own[-1:] or stack[-1:]
    return Line(*found[0]) if found else Line()


def _drafted(one: _private.Specialisation) -> Guard:
    taken = {"True": True, "False": False}.get(one.result) if one.occurrences == 1 else None
    detail = f"{one.expression} is {one.result}" if one.result else one.expression
    line = user_line(one.stack)
    guard = _guards.at(line, taken, f"in torch's words, {detail}")
    # A function of torch's that the line calls may refuse the data, as the model itself may.
    layers = [frame for frame in one.full_stack if frame[0].startswith(_LAYERS)]
    inner = _guards.at(Line(*layers[-1])) if layers else guard
    if not guard.is_asserted and inner.is_asserted:
        guard = replace(inner, line=line)
    lines = [Line(*frame) for frame in one.stack if not frame[0].startswith(_OF_TORCH)]
    is_caught = guard.is_asserted and any(map(_guards.is_caught, lines))
    return replace(guard, is_asserted=guard.is_asserted and not is_caught)


def _symbols(expression: str) -> set[str]:
    """Those that torch has for numbers that depend on data: u0, zuf1."""
    return set(re.findall(r"\bz?u\w*\d+\b", expression))


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)[^\n]*\n\s*(?P<code>[^\n]*)')


def _line_of(node: torch.fx.Node) -> Line:
    found = _FRAME.finditer(str(node.meta.get("stack_trace") or ""))
    return user_line([(one["file"], int(one["line"]), one["code"].strip()) for one in found])


@dataclass
class _Range:
    """What a graph asserts of one number."""

    line: Line
    is_size: bool  # of a tensor, which cannot be negative, and may be limited by others
    least: float = -math.inf
    most: float = math.inf

    def condition(self) -> str:
        what = "the size of the result" if self.is_size else "the number"
        if self.least == self.most:
            return f"{what} is {self.least:g}"
        bounds = [f"at least {self.least:g}"] if self.least > 0 else []
        if self.most < math.inf and not self.is_size:
            bounds.append(f"at most {self.most:g}")
        return f"{what} is {' and '.join(bounds)}" if bounds else ""


def _asserted(program: torch.export.ExportedProgram, known: set[str]) -> Iterator[Guard]:
    """What the model asserts, or an operator that it calls, of other symbols than these; ONNX does
    not look at it."""
    ranges: dict[torch.fx.Node, _Range] = {}
    for _, node in calls(program):
        name = operator_name(node.target).partition(".")[0]
        if name == "aten::_assert_async":
            yield _guards.at(_line_of(node))
        if name != "aten::_assert_scalar" or not isinstance(node.args[0], torch.fx.Node):
            continue
        said = re.search(r"expression (.+?) on node", str(node.args[1]))
        if said and (_symbols(said[1]) & known or not _symbols(said[1])):
            continue  # of sizes of the arguments, or known already
        number, bounds = _bounds(node.args[0])
        if number is None:
            condition = f"{said[1] if said else node.args[0]}, in torch's words"
            yield Guard(_line_of(node), condition, is_asserted=True)
            continue
        is_size = operator_name(number.target).startswith("aten::sym_")
        found = ranges.setdefault(number, _Range(_line_of(number), is_size))
        found.least, found.most = max(found.least, bounds[0]), min(found.most, bounds[1])
    for one in ranges.values():
        if condition := one.condition():
            yield Guard(one.line, condition, is_asserted=True)


_BOUNDS: dict[Any, Any] = {
    operator.ge: lambda bound: (bound, math.inf),
    operator.le: lambda bound: (-math.inf, bound),
    operator.gt: lambda bound: (math.floor(bound) + 1, math.inf),
    operator.lt: lambda bound: (-math.inf, math.ceil(bound) - 1),
    operator.eq: lambda bound: (bound, bound),
}


def _bounds(test: torch.fx.Node) -> tuple[torch.fx.Node | None, tuple[float, float]]:
    """The number that a test is about and its bounds, where it is that simple."""
    if test.target in _BOUNDS and len(test.args) == 2:
        number, bound = test.args
        if isinstance(number, torch.fx.Node) and isinstance(bound, (int, float)):
            is_one = isinstance(number.target, _private.OpOverload)  # not a sum of several
            if is_one and isinstance(number.meta.get("val"), torch.SymInt):
                return number, _BOUNDS[test.target](bound)
    return None, (-math.inf, math.inf)
