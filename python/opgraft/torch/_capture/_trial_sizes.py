"""Open sizes that a captured program is tried with, and what it assumes about them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _guards, _lines
from opgraft.torch._capture._examples import (
    MANY,
    input_names,
    size_bounds,
    traced_inputs,
    with_length,
)
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line, line_at
from opgraft.torch._capture._open_sizes import Size

#: Sizes by name.
Numbers = dict[str, int]

#: How far from the example's size, and how often, to look for a size that breaks a condition.
_FARTHEST, _MOST_LOOKS = 40, 400
#: At most this many sizes are tried as 1 one by one.
_MOST_ALONE = 4


@dataclass(frozen=True)
class Condition:
    """A condition on open sizes that holds for the example."""

    guard: Guard
    expression: Any
    #: Whether the model's own code has the condition, not an operator that it calls.
    is_of_model: bool


class TrialSizes:
    """The open sizes of a program. A size has the name that the user gave it, or one such as
    "x.shape[0]". Sizes of the same name are always equal."""

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        asked: Sequence[tuple[Size, Any]] = (),
        conditions: Iterable[_private.Condition] = (),
    ) -> None:
        #: The sizes in the example.
        self.own: Numbers = {}
        self._least: Numbers = {}
        self._most: Numbers = {}
        self._names: dict[Any, str] = {}  # by torch's symbols
        self._axes: list[tuple[int, int | None, Any]] = []
        self._bounds: list[Condition] = []
        known = {(size.position, size.axis): (size, dim) for size, dim in asked}
        inputs = zip(input_names(program), traced_inputs(program), strict=True)
        for position, (title, value) in enumerate(inputs):
            sizes: Iterable[tuple[int | None, Any]] = [(None, value)]
            if isinstance(value, torch.Tensor):
                sizes = enumerate(value.shape)
            for axis, number in sizes:
                if isinstance(number, torch.SymInt):
                    self._add(program, position, axis, number, title, known.get((position, axis)))
        self.conditions = self._merged(conditions)

    def _add(
        self,
        program: torch.export.ExportedProgram,
        position: int,
        axis: int | None,
        number: torch.SymInt,
        title: str,
        asked: tuple[Size, Any] | None,
    ) -> None:
        expression = _private.expression(number)
        if expression.is_Symbol:  # otherwise the user said how it depends on other sizes
            expression = _private.as_read(number)
        self._axes.append((position, axis, expression))
        hint = _private.hint(number)
        if not expression.is_Symbol or hint is None:
            return
        size, dim = asked or (None, None)
        name = (size.name if size else "") or (title if axis is None else f"{title}.shape[{axis}]")
        self._names[expression] = name
        self.own.setdefault(name, hint)
        least, most = getattr(dim, "min", None), getattr(dim, "max", None)
        own = (least if isinstance(least, int) else 0), (most if isinstance(most, int) else MANY)
        self._least[name] = max(own[0], self._least.get(name, 0))
        self._most[name] = min(own[1], self._most.get(name, MANY))
        self._note_bounds(number, program, name, own)

    def _note_bounds(
        self,
        number: torch.SymInt,
        program: torch.export.ExportedProgram,
        name: str,
        own: tuple[int, int],
    ) -> None:
        """Notes bounds that the user did not give. torch always treats 0 and 1 as special."""
        symbol = _private.as_read(number)
        least, most = size_bounds(number, program)
        if least > max(own[0], 2):
            guard = Guard(Line(), f"{name} is at least {least}")
            self._bounds.append(Condition(guard, symbol >= least, is_of_model=False))
        if most < own[1]:
            guard = Guard(Line(), f"{name} is at most {most}")
            self._bounds.append(Condition(guard, symbol <= most, is_of_model=False))

    def _merged(self, conditions: Iterable[_private.Condition]) -> list[Condition]:
        """Returns each condition once, those of the model first."""
        found: dict[Any, Condition] = {}
        ordered = sorted(conditions, key=lambda one: not one.is_of_model)
        for one in ordered:
            symbols = {symbol for symbol, _ in one.sources}
            if symbols and symbols <= set(self._names):
                found.setdefault(one.expression, self._condition(one))
        return [*found.values(), *self._bounds]

    def _condition(self, one: _private.Condition) -> Condition:
        lines = [line_at(*frame) for frame in one.stack]
        line = lines[-1] if lines else Line()
        guard = Guard(line, one.in_words(self._names))
        is_of_model = one.is_of_model and bool(line.code)  # not what torch has generated
        if is_of_model and _lines.is_assertion(line):
            guard = _guards.unless_caught(Guard(line, guard.condition, is_asserted=True), lines)
        return Condition(guard, one.expression, is_of_model)

    def holds(self, condition: Condition, numbers: Numbers) -> bool:
        """Whether a condition holds for these sizes; True if that is undecided."""
        integer = _private.integer
        values = {one: integer(numbers[name]) for one, name in self._names.items()}
        try:
            return bool(condition.expression.xreplace(values) != False)  # noqa: E712 (sympy's own)
        except Exception:  # such as a division by a size of 0
            return False

    def failing(self, numbers: Numbers) -> list[Condition]:
        return [one for one in self.conditions if not self.holds(one, numbers)]

    def others(self) -> Iterator[Numbers]:
        """Other sizes for which all conditions hold, none of them 1. First larger ones, since many
        errors show only there; then smaller ones, since a part of valid data is valid."""
        changes = ((2, 1), (2, 2), (2, 0), (3, 0), (1, -1), (1, 1), (1, -2), (1, 2))
        least = {name: max(own, min(2, self.own[name])) for name, own in self._least.items()}
        for times, plus in changes:
            numbers = self._changed(times, plus, least)
            if numbers != self.own and not self.failing(numbers):
                yield numbers
        for name in self.own if len(self.own) > 1 else ():
            for times, plus in changes:
                numbers = {**self.own, name: self._changed(times, plus, least)[name]}
                if numbers != self.own and not self.failing(numbers):
                    yield numbers

    def _changed(self, times: int, plus: int, least: Numbers) -> Numbers:
        return {
            name: max(min(max(times * own + plus, 1), self._most[name]), least[name])
            for name, own in self.own.items()
        }

    def ones(self) -> Iterator[Numbers]:
        """All sizes 1, then one at a time, where allowed: torch assumes that no open size is 1."""
        may_be = [name for name, own in self.own.items() if own != 1 and self._least[name] <= 1]
        if may_be:
            yield {**self.own, **dict.fromkeys(may_be, 1)}
        for name in may_be[:_MOST_ALONE] if len(self.own) > 1 else ():
            yield {**self.own, name: 1}

    def where_fails(self, condition: Condition, others: Iterable[Condition] = ()) -> Numbers | None:
        """Sizes near the example's for which a condition fails, preferably such that `others` hold;
        None if there are none."""
        names = [self._names[one] for one in condition.expression.free_symbols]
        names = sorted(set(names) & set(self.own))
        found = None
        avoided = [one for one in others if one is not condition]
        for numbers in itertools.islice(self._near(names), _MOST_LOOKS):
            if self.holds(condition, numbers):
                continue
            if not condition.is_of_model and not all(numbers.values()):
                continue  # for empty tensors, conditions of operators do not matter
            if all(self.holds(one, numbers) for one in avoided):
                return numbers
            found = found or numbers
        return found

    def _near(self, names: Sequence[str]) -> Iterator[Numbers]:
        """The example's sizes with other values for these names: one at a time, all together, and
        in all combinations."""
        steps = {name: list(self._steps(name)) for name in names}
        for numbers in itertools.zip_longest(*steps.values()):
            for name, number in zip(names, numbers, strict=True):
                if number is not None:
                    yield {**self.own, name: number}
        if len(names) > 1:
            for numbers in zip(*steps.values(), strict=False):
                yield {**self.own, **dict(zip(names, numbers, strict=True))}
            few = [one[:12] for one in steps.values()]
            for numbers in itertools.product(*few):
                yield {**self.own, **dict(zip(names, numbers, strict=True))}

    def _steps(self, name: str) -> Iterator[int]:
        own = self.own[name]
        bounds = {
            int(one) for condition in self.conditions for one in _numbers_in(condition.expression)
        }
        near = [own + sign * step for step in range(1, _FARTHEST) for sign in (-1, 1)]
        farther = [one + step for one in sorted(bounds) for step in (0, 1, -1)]
        for number in dict.fromkeys([*near, *farther, 2 * own, 3 * own]):
            if max(self._least[name], 0) <= number <= self._most[name]:
                yield number

    def resized(self, leaves: Sequence[Any], numbers: Numbers) -> list[Any]:
        """Arguments of these sizes, made from the given ones."""
        found = list(leaves)
        for position, axis, expression in self._axes:
            number = self._number(expression, numbers)
            leaf = found[position]
            found[position] = number if axis is None else with_length(leaf, axis, number)
        return found

    def _number(self, expression: Any, numbers: Mapping[str, int]) -> int:
        values = {one: _private.integer(numbers[name]) for one, name in self._names.items()}
        return int(expression.xreplace(values))


def _numbers_in(expression: Any) -> list[int]:
    """The whole numbers in an expression that a size may be compared with."""
    found = [one for one in expression.atoms() if getattr(one, "is_Integer", False)]
    return [int(one) for one in found if 1 < int(one) < MANY]
