"""Runs an exported program, compares it with the model in torch, and finds who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft.torch import _compare, _graph
from opgraft.torch._apart import Decomposition
from opgraft.torch._bodies import Branch
from opgraft.torch._dispatch import Translated
from opgraft.torch._examples import Example, Model, examples
from opgraft.torch._localise import Guilt, find_guilty, run_in_torch
from opgraft.torch._probe import probe, probe_decompositions
from opgraft.torch._program import Program

#: By which the results of a whole program may be off, of the largest element, where each operator
#: alone is right.
_ROUNDINGS = 100


@dataclass
class Verdict:
    """What verification says of a program."""

    #: What went wrong, in words; empty where all is well.
    problem: str = ""
    #: Whether the program does not run, or gives what is not of the right type or shape.
    fails: bool = False
    guilt: Guilt | None = None
    #: An operator of the model that torch takes apart wrongly, and how wrongly.
    misdecomposed: tuple[Any, str] | None = None
    #: With which arguments.
    example: Example | None = None


@dataclass
class Verifier:
    """The reference that every attempt at a program is held against."""

    model: Any
    captured: torch.export.ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: How operators of the captured program are taken apart.
    decomposition: Decomposition | None = None
    #: Whether the graph holds for some data alone, and says so by its assertions.
    is_guarded: bool = False
    notes: list[str] = field(default_factory=list)
    #: By operator, what NaN and infinities become, where torch makes something else of them.
    not_numbers: dict[str, str] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._branches: dict[str, Branch] = {}
        self._not_tried: dict[str, str] = {}
        self._reference = Model(self.model, self.captured)
        for one in examples(self._reference, self.captured, self.args, self.kwargs):
            if isinstance(one, str):
                self.notes.append(one)
            elif self.is_guarded and self.examples and not self._holds_for(one):
                self.notes.append(f"{one.what} were not compared: the graph does not hold there")
            else:
                self.examples.append(one)

    def _holds_for(self, example: Example) -> bool:
        """Whether the assertions in the captured graph hold for arguments."""
        try:
            run_in_torch(self.captured, example.leaves)
        except Exception:
            return False
        return True

    def verify(
        self,
        program: Program,
        translated: Translated,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Verdict:
        is_random = any(_graph.is_random(node) for _, node in _graph.calls(translated.decomposed))
        # What a run of the whole does not show: branches that it does not take.
        has_bodies = len(list(_graph.graphs(translated.decomposed))) > 1
        self._branches = {}
        for example in self.examples:
            problem, fails = self._problem(program, example, blind=is_random)
            if not problem and not is_random and not has_bodies:
                continue
            # What is random agrees in no two runs; each operator alone can be compared.
            guilt = find_guilty(
                translated, example.leaves, program.open_session, progress, self._branches
            )
            if guilt is None and fails:
                opset = program.model.opset_imports[""]
                guilt = find_guilty(translated, example.leaves, program.open_session, opset=opset)
            if guilt is None and problem and not fails:
                problem, fails = self._problem(program, example, blind=False, roundings=_ROUNDINGS)
            if guilt is not None or problem:
                problem = problem and f"with {example.what}, {problem}"
                return Verdict(problem, fails, guilt, example=example)
        probed = probe(translated, program)
        self.not_numbers |= probed.not_numbers
        self._not_tried = probed.not_tried
        if probed.guilt is not None or self.decomposition is None:
            return Verdict(guilt=probed.guilt)
        misdecomposed = probe_decompositions(self.captured, self.decomposition, self._not_tried)
        return Verdict(misdecomposed=misdecomposed)

    def difference(self, program: Program, *, blind: bool = False) -> str:
        """What is wrong with a program that nobody can look into, in words. `blind`: by types and
        shapes alone."""
        for example in self.examples:
            problem, _ = self._problem(program, example, blind=blind, roundings=_ROUNDINGS)
            if problem:
                return f"with {example.what}, {problem}"
        return ""

    def branch_notes(self) -> list[str]:
        """Which branches the examples do not take, and how far these were compared."""
        return [note for one in self._branches.values() if (note := one.note())]

    def probe_notes(self) -> list[str]:
        """Which operators were compared at the numbers of the examples alone, and why."""
        return [
            f"{name} was not tried at numbers that the example has not: {why}"
            for name, why in self._not_tried.items()
        ]

    def is_right(self, program: torch.export.ExportedProgram, example: Example) -> bool:
        """Whether a program of torch.export gives what the model gives."""
        got = run_in_torch(program, example.leaves)
        return not _compare.difference(example.wanted, got, lambda: self._disturbed(example))

    def _problem(
        self, program: Program, example: Example, *, blind: bool, roundings: int = 0
    ) -> tuple[str, bool]:
        """What is wrong with a run, in words, and whether nobody can use what it gives."""
        got, failure = example.run_by(program)
        if failure:
            return failure, True
        unlike = _compare.unlikeness(example.wanted, got)
        if unlike or blind:
            return unlike, bool(unlike)
        difference = _compare.difference(
            example.wanted, got, lambda: self._disturbed(example), roundings=roundings
        )
        return difference, False

    def _disturbed(self, example: Example) -> list[Any]:
        leaves = [_compare.disturb(leaf) for leaf in example.leaves]
        return self._reference.results(leaves, example.tree)
