"""Which conditions on open sizes matter: at sizes where they fail, the program is not right."""

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

#: As many are tried.
_MOST_TRIED = 12


@dataclass
class Beyond:
    """What sizes a program holds for, as far as they are not all."""

    guards: list[Guard] = field(default_factory=list)
    #: Lines of the model that ask for sizes, where others were right as well.
    notes: list[str] = field(default_factory=list)


def untried(sizes: TrialSizes) -> Beyond:
    """Where nothing was run: all that may matter."""
    found = Beyond()
    for one in sizes.conditions:
        numbers = sizes.where_fails(one)
        if numbers is not None and (one.is_of_model or min(numbers.values()) > 1):
            found.guards.append(one.guard)
    return found


def tried(verifier: Verifier, program: Program, *, is_specialised: bool) -> Beyond:
    """By runs of the program and of the model at sizes where a condition fails. `is_specialised`:
    it is for some data alone, and other sizes come with other data."""
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
        """Whether the program is right at such sizes; None where the model takes none such."""
        known = [one for one in self._verifier.examples if one.sizes == numbers]
        if known:
            return True
        found = resized(self._verifier.reference, self._leaves, self._tree, self._sizes, numbers)
        if not isinstance(found, Example):
            return None
        is_random = self._program.report.is_random
        return not self._verifier.is_wrong(self._program, found, blind=is_random)

    def _goes_on(self, numbers: Numbers) -> bool:
        """Whether a program that was captured before asserts it, and ONNX does not."""
        if not isinstance(self._verifier.model, torch.export.ExportedProgram):
            return False
        leaves = self._sizes.resized(self._leaves, numbers)
        _, failure = Example("other sizes", leaves, self._tree, []).run_by(self._program)
        return not failure

    def _try_ones(self) -> None:
        """Sizes of 1, which torch does not reckon with."""
        wrong: list[Numbers] = []
        for place, numbers in enumerate(self._sizes.ones()):
            is_right = self._is_right(numbers)
            if is_right is False:
                wrong.append(numbers)
            elif is_right and place == 0:  # of all sizes
                return
        told: list[set[str]] = []
        for numbers in sorted(wrong, key=self._ones):  # what is wrong of one size alone, is that
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
            return  # which says it already
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
                f"{condition.guard.line}: asks for sizes; the program is right at {sizes} too, "
                "where it would go another way; sizes that were not tried may do otherwise"
            )


def warning(guards: Sequence[Guard]) -> str:
    return (
        "the exported model is for some of the sizes alone that dynamic_shapes leaves open, and "
        f"may be silently wrong for others: {'; '.join(map(str, guards))}. Fix: change these lines "
        "so that they do the same for all sizes; or say what sizes there are by "
        "torch.export.Dim(..., min=..., max=...); or leave them out of dynamic_shapes"
    )


def tell(program: Program, beyond: Beyond) -> None:
    """Writes it into the report and into the file."""
    program.report.notes += beyond.notes
    program.tell_holding(beyond.guards)


def warned(beyond: Beyond) -> list[Any]:
    """Those where the model goes on, so that nobody else says it."""
    return [one for one in beyond.guards if not one.is_asserted]
