"""Finds the conditions on open sizes that matter: where they fail, the program is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture._examples import Example, is_small, resized
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line
from opgraft.torch._capture._trial_sizes import Condition, Numbers, TrialSizes
from opgraft.torch._program._program import Program
from opgraft.torch._verify._verify import Verifier

#: The number of conditions that are tried; the others are reported untried.
_MOST_TRIED = 12


@dataclass
class Beyond:
    """The sizes that a program is valid for, if not all."""

    guards: list[Guard] = field(default_factory=list)
    #: Lines of the model that ask for sizes, although the program was right at other sizes too.
    notes: list[str] = field(default_factory=list)


def untried(sizes: TrialSizes) -> Beyond:
    """Returns all conditions that may matter, if nothing was run."""
    found = Beyond()
    for one in sizes.conditions:
        numbers = sizes.where_fails(one)
        if numbers is not None and (one.is_of_model or min(numbers.values()) > 1):
            found.guards.append(one.guard)
    return found


def tried(verifier: Verifier, program: Program, *, is_specialised: bool) -> Beyond:
    """Runs the program and the model at sizes where a condition fails.

    `is_specialised`: the program is valid for some data only. Then nothing is run, because other
    sizes come with other data.
    """
    assert verifier.sizes is not None
    if is_specialised:
        return untried(verifier.sizes)
    return _Trial(verifier, program, verifier.sizes).run()


class _Trial:
    def __init__(self, verifier: Verifier, program: Program, sizes: TrialSizes) -> None:
        self._verifier = verifier
        self._program = program
        self._sizes = sizes
        self._leaves, self._tree = _private.flatten((verifier.args, dict(verifier.kwargs)))
        self._found = Beyond()
        self._told: list[Condition] = []

    def run(self) -> Beyond:
        self._try_ones()
        waiting = [one for one in self._sizes.conditions if one not in self._told]
        for count, one in enumerate(waiting):
            self._try(one, is_tried=count < _MOST_TRIED)
        return self._found

    def _is_right(self, numbers: Numbers) -> bool | None:
        """Whether the program is right at these sizes; None if the model does not take them."""
        known = [one for one in self._verifier.examples if one.sizes == numbers]
        if known:
            return True
        found = resized(self._verifier.reference, self._leaves, self._tree, self._sizes, numbers)
        if not isinstance(found, Example):
            return None
        is_random = self._program.report.is_random
        return not self._verifier.is_wrong(self._program, found, blind=is_random)

    def _goes_on(self, numbers: Numbers) -> bool:
        """Whether the ONNX model runs where an ExportedProgram's assertion fails."""
        if not isinstance(self._verifier.model, torch.export.ExportedProgram):
            return False
        leaves = self._sizes.resized(self._leaves, numbers)
        _, failure = Example("other sizes", leaves, self._tree, []).run_by(self._program)
        return not failure

    def _try_ones(self) -> None:
        """Tries sizes of 1, for which torch records no conditions."""
        wrong: list[Numbers] = []
        for place, numbers in enumerate(self._sizes.ones()):
            is_right = self._is_right(numbers)
            if is_right is False:
                wrong.append(numbers)
            elif is_right and place == 0:  # all sizes are 1
                return
        told: list[set[str]] = []
        for numbers in sorted(wrong, key=self._ones):  # a single size that is wrong comes first
            failing = self._sizes.failing(numbers)
            names = {name for name, one in numbers.items() if one == 1 != self._sizes.own[name]}
            if any(one in self._told for one in failing) or any(one <= names for one in told):
                continue
            if found := [one for one in failing if one.is_of_model] or failing[:1]:
                self._tell(found)
            else:
                what = " or ".join(f"{name} is at least 2" for name in sorted(names))
                self._found.guards.append(Guard(Line(), what))
                told.append(names)

    def _ones(self, numbers: Numbers) -> int:
        return sum(one == 1 != self._sizes.own[name] for name, one in numbers.items())

    def _tell(self, conditions: Sequence[Condition]) -> None:
        self._told += conditions
        self._found.guards += [one.guard for one in conditions]

    def _try(self, condition: Condition, *, is_tried: bool) -> None:
        numbers = self._sizes.where_fails(condition, self._sizes.conditions)
        if numbers is None:
            return
        if any(not self._sizes.holds(one, numbers) for one in self._told):
            return  # already covered by that condition
        leaves = self._sizes.resized(self._leaves, numbers)
        if not is_tried or not is_small(leaves, self._leaves):
            self._tell([condition])
            return
        is_right = self._is_right(numbers)
        if is_right is None:  # the model, or an operator that it calls, refuses such sizes
            if condition.guard.is_asserted or self._goes_on(numbers):
                self._tell([condition])
        elif not is_right:
            self._tell([condition])
        elif condition.is_of_model and max(numbers.values()) > 1:
            sizes = ", ".join(f"{name}={number}" for name, number in numbers.items())
            self._found.notes.append(
                f"{condition.guard.line}: asks for sizes. It decides differently at {sizes}, but "
                "the program is right there too; sizes that were not tried may be wrong"
            )


def warning(guards: Sequence[Guard]) -> str:
    return (
        "the exported model is valid for only some of the sizes that dynamic_shapes leaves open, "
        f"and may be silently wrong for others: {'; '.join(map(str, guards))}. Fix: change these "
        "lines so that they do the same for all sizes; or limit the sizes with "
        "torch.export.Dim(..., min=..., max=...); or leave them out of dynamic_shapes"
    )


def tell(program: Program, beyond: Beyond) -> None:
    """Writes the conditions and notes to the report and to the model."""
    program.report.notes += beyond.notes
    program.tell_holding(beyond.guards)


def warned(beyond: Beyond) -> list[Any]:
    """Returns the conditions that the model does not assert, so that only a warning shows them."""
    return [one for one in beyond.guards if not one.is_asserted]
