"""Runs an exported program, compares it with the model in torch, and finds who is to blame."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft.torch import _compare, _graph
from opgraft.torch._apart import Decomposition
from opgraft.torch._bodies import Branch
from opgraft.torch._compare import Comparison
from opgraft.torch._dispatch import Translated
from opgraft.torch._examples import Example, Model, examples
from opgraft.torch._localise import Guilt, find_guilty, run_in_torch
from opgraft.torch._nearby import Finding, settled
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
        self._excuses: dict[int, str] = {}
        self._extremes: dict[str, list[str]] = {}
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
        self._branches, self._excuses = {}, {}
        for place, example in enumerate(self.examples):
            finding = self._finding(program, example, blind=is_random)
            is_plain = not is_random and not has_bodies
            if not finding.problem and finding.is_decided and is_plain:
                self._excuses[place] = finding.excuse
                continue
            # What is random agrees in no two runs; each operator alone can be compared.
            leaves, undecided = finding.example.leaves, list[str]()
            guilt = find_guilty(
                translated, leaves, program.open_session, progress, self._branches, undecided
            )
            if guilt is None and finding.fails:
                opset = program.model.opset_imports[""]
                guilt = find_guilty(translated, leaves, program.open_session, opset=opset)
            if guilt is None and finding.problem and not finding.fails:
                finding = self._finding(program, example, blind=False, roundings=_ROUNDINGS)
            problem = finding.problem
            if guilt is None and not finding.is_decided:
                if undecided or not self._is_surely_right(translated, example):
                    problem = finding.undecided()
                finding.excuse += "; operator by operator all agree"
            if guilt is not None or problem:
                problem = problem and f"with {finding.example.what}, {problem}"
                return Verdict(problem, finding.fails, guilt, example=finding.example)
            self._excuses[place] = finding.excuse
        probed = probe(translated, program)
        self.not_numbers |= probed.not_numbers
        self._extremes = probed.extremes
        self._not_tried = probed.not_tried
        if probed.guilt is not None or self.decomposition is None:
            return Verdict(guilt=probed.guilt)
        misdecomposed = probe_decompositions(
            self.captured, self.decomposition, self._not_tried, self._extremes
        )
        return Verdict(misdecomposed=misdecomposed)

    def difference(self, program: Program, *, blind: bool = False) -> str:
        """What is wrong with a program that nobody can look into, in words. `blind`: by types and
        shapes alone."""
        self._excuses = {}
        for place, example in enumerate(self.examples):
            finding = self._finding(program, example, blind=blind, roundings=_ROUNDINGS)
            problem = finding.problem or ("" if finding.is_decided else finding.undecided())
            if problem:
                return f"with {finding.example.what}, {problem}"
            self._excuses[place] = finding.excuse
        return ""

    def verified(self, names: Mapping[str, str], how: str) -> list[str]:
        """What was compared and agreed, in words, and which elements of it say nothing."""
        told = []
        for place, example in enumerate(self.examples):
            excuse = self._excuses.get(place)
            but = f", but for this: {excuse}" if excuse else ""
            told.append(example.describe(names) + how + but)
        return told

    def excuses(self) -> list[str]:
        """Of each example in which elements say nothing, which."""
        return [
            f"with {self.examples[place].what}, {excuse}"
            for place, excuse in self._excuses.items()
            if excuse
        ]

    def branch_notes(self) -> list[str]:
        """Which branches the examples do not take, and how far these were compared."""
        return [note for one in self._branches.values() if (note := one.note())]

    def extremes(self) -> list[str]:
        """Which operators differ from torch for extreme numbers, and how."""
        return [f"{name} {what}" for name, all in self._extremes.items() for what in all]

    def probe_notes(self) -> list[str]:
        """Which operators were compared at the numbers of the examples alone, and why."""
        return [
            f"{name} was not tried at numbers that the example has not: {why}"
            for name, why in self._not_tried.items()
        ]

    def is_right(self, program: torch.export.ExportedProgram, example: Example) -> bool:
        """Whether a program of torch.export gives what the model gives."""
        got = run_in_torch(program, example.leaves)
        found = _compare.compare(example.wanted, got, lambda: self._disturbed(example))
        return not found.problem and found.is_decided

    def _is_surely_right(self, translated: Translated, example: Example) -> bool:
        """Whether the graph and what it is taken apart into give what the model gives, rounding
        or not: then operators that are right make a whole that is."""
        return not any(
            _compare.difference(example.wanted, run_in_torch(program, example.leaves))
            for program in (self.captured, translated.decomposed)
        )

    def _finding(
        self, program: Program, example: Example, *, blind: bool, roundings: int = 0
    ) -> Finding:
        def compare(one: Example) -> tuple[Comparison, bool]:
            got, failure = one.run_by(program)
            if failure:
                return Comparison(failure), True
            unlike = _compare.unlikeness(one.wanted, got)
            if unlike or blind:
                return Comparison(unlike), bool(unlike)
            disturbed = functools.partial(self._disturbed, one)
            return _compare.compare(one.wanted, got, disturbed, roundings=roundings), False

        finding = settled(example, compare, self._results_where_it_holds)
        if finding.excuse and not self.is_right(self.captured, example):
            # Torch itself runs the graph with the same kernels: no rounding makes it jump.
            problem = f"{finding.excuse}; but torch's own run of its graph differs likewise"
            return Finding(problem, False, example)
        return finding

    def _results_where_it_holds(self, leaves: list[Any], tree: Any) -> list[Any]:
        """What the model gives; raises for arguments that the graph is not for."""
        if self.is_guarded:
            run_in_torch(self.captured, leaves)
        return self._reference.results(leaves, tree)

    def _disturbed(self, example: Example) -> list[Any]:
        leaves = [_compare.disturb(leaf) for leaf in example.leaves]
        return self._reference.results(leaves, example.tree)
