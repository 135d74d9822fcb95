"""Runs an exported program, compares it with the model in torch, and finds the guilty operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft._base._log import tell
from opgraft.torch._capture._examples import Example, Model, examples
from opgraft.torch._capture._trial_sizes import TrialSizes
from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._apart import Decomposition
from opgraft.torch._graphs._bodies import Branch
from opgraft.torch._program._dispatch import Translated
from opgraft.torch._program._program import Program
from opgraft.torch._verify import _chance, _rounding, _weights
from opgraft.torch._verify._localise import Guilt, find_guilty, run_in_torch
from opgraft.torch._verify._nearby import Finding, settled
from opgraft.torch._verify._probe import probe, probe_decompositions
from opgraft.torch._verify._rounding import Comparison

#: The tolerance, in roundings of the largest element, for a whole program whose operators are right
#: alone; but no more than rounding of arguments and weights changes the results.
_ROUNDINGS = 100


@dataclass
class Verdict:
    """The result of verifying a program."""

    #: What is wrong; empty if nothing is.
    problem: str = ""
    #: Whether the program does not run, or its results have a wrong type or shape.
    fails: bool = False
    guilt: Guilt | None = None
    #: An operator of the model that torch decomposes wrongly, and what is wrong.
    misdecomposed: tuple[Any, str] | None = None
    #: The arguments that the problem was found with.
    example: Example | None = None
    #: The example, if it is one that a program need not be valid for.
    edge: Example | None = None


@dataclass
class Verifier:
    """The reference that each attempt at a program is compared with."""

    model: Any
    captured: torch.export.ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: How operators of the captured program are decomposed.
    decomposition: Decomposition | None = None
    #: The open sizes, and what is known about them.
    sizes: TrialSizes | None = None
    #: Whether the graph is valid only for some data, which it asserts.
    is_guarded: bool = False
    notes: list[str] = field(default_factory=list)
    #: By operator, the difference from torch for NaN and infinities.
    not_numbers: dict[str, str] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._branches: dict[str, Branch] = {}
        self._excuses: dict[int, str] = {}
        #: By example, why the captured graph could not be compared with the model.
        self._doubts: dict[int, str] = {}
        #: Whether results depend on random numbers.
        self.is_random = False
        self._extremes: dict[str, list[str]] = {}
        self._not_tried: dict[str, str] = {}
        self.reference = Model(self.model, self.captured)
        self.sizes = self.sizes or TrialSizes(self.captured)
        for one in examples(self.reference, self.args, self.kwargs, self.sizes, self._is_held):
            if isinstance(one, str):
                self.notes.append(one)
            elif self.is_guarded and self.examples and not self._holds_for(one):
                self.notes.append(f"{one.what} were not compared: the graph is not valid there")
            else:
                self.examples.append(one)

    def _is_held(self, example: Example) -> bool:
        """Whether the graph is valid for sizes of 1 too. If the program still differs there, an
        operator is guilty."""
        assert self.sizes is not None
        is_asked = any(one.is_of_model for one in self.sizes.failing(example.sizes))
        return not is_asked and self.is_right(self.captured, example)

    def give_up(self, example: Example) -> None:
        """Removes an example with sizes that no program is right for."""
        self.examples.remove(example)

    def _holds_for(self, example: Example) -> bool:
        """Whether the assertions in the captured graph hold for an example."""
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
        may_be_random = any(
            _graph.is_random(node) for _, node in _graph.calls(translated.decomposed)
        )
        # A run of the whole program does not check branches that are not taken.
        has_bodies = len(list(_graph.graphs(translated.decomposed))) > 1
        self._branches, self._excuses, self._doubts = {}, {}, {}
        self.is_random = False
        for place, example in enumerate(self.examples):
            tell("export", "comparing with torch: %s", example.what)
            is_random = may_be_random and self.depends_on_chance(example)
            if is_random:
                self.is_random = True
                problem, doubt = self._captured_by_chance(example)
                if problem:
                    return Verdict(f"with {example.what}, {problem}", example=example)
                self._doubts[place] = doubt
            finding = self._finding(program, example, blind=is_random)
            is_plain = not is_random and not has_bodies
            if not finding.problem and finding.is_decided and is_plain:
                self._excuses[place] = finding.excuse
                continue
            # Random results differ between runs, but each operator can be compared alone.
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
                if problem and may_be_random and not is_random:
                    problem += f". Note that {_chance.SEEDED}"
                edge = example if example.is_edge else None
                found = finding.example
                return Verdict(problem, finding.fails, guilt, example=found, edge=edge)
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

    def difference(self, program: Program, *, may_be_random: bool = False) -> str:
        """Returns what is wrong with a program that has no translated graph to search; empty if
        nothing is. If it is random, only types and shapes are compared."""
        self._excuses = {}
        for example in list(self.examples):
            is_random = may_be_random and self.depends_on_chance(example)
            self.is_random |= is_random
            finding = self._finding(program, example, blind=is_random, roundings=_ROUNDINGS)
            problem = finding.problem or ("" if finding.is_decided else finding.undecided())
            if problem and example.is_edge:
                self.give_up(example)
            elif problem:
                return f"with {finding.example.what}, {problem}"
            else:
                self._excuses[self.examples.index(example)] = finding.excuse
        return ""

    def is_wrong(self, program: Program, example: Example, *, blind: bool) -> bool:
        """Whether a program differs from the model, or fails."""
        finding = self._finding(program, example, blind=blind, roundings=_ROUNDINGS)
        return bool(finding.problem) or not finding.is_decided

    def verified(self, how: str) -> list[str]:
        """Describes the examples that were compared and agreed, with the elements that prove
        nothing. Examples that were not compared are added to the notes."""
        told = []
        for place, example in enumerate(self.examples):
            if doubt := self._doubts.get(place):
                self.notes.append(f"with {example.what}, {doubt}")
                continue
            unseen = _rounding.without_numbers(example.wanted)
            if len(unseen) == len(example.wanted):
                self.notes += [f"with {example.what}, {one}" for one in unseen]
                continue
            excuses = filter(None, [self._excuses.get(place), *unseen])
            but = "".join(f", except: {one}" for one in excuses)
            told.append(example.describe() + how + but)
        return told

    def excuses(self) -> list[str]:
        """Lists the elements that prove nothing, for each example that has some."""
        return [
            f"with {self.examples[place].what}, {excuse}"
            for place, excuse in self._excuses.items()
            if excuse
        ]

    def branch_notes(self) -> list[str]:
        """Lists the branches that the examples do not take, and how far these were compared."""
        return [note for one in self._branches.values() if (note := one.note())]

    def extremes(self) -> list[str]:
        """Lists the operators that differ from torch for extreme numbers, and how."""
        return [f"{name} {what}" for name, all in self._extremes.items() for what in all]

    def probe_notes(self) -> list[str]:
        """Lists the operators that were compared only with the numbers of the examples, and why."""
        return [
            f"{name} was not tried with numbers that are not in the example: {why}"
            for name, why in self._not_tried.items()
        ]

    def depends_on_chance(self, example: Example) -> bool:
        """Whether the model's results depend on the seed."""
        return _chance.is_random(lambda: self.reference.results(example.leaves, example.tree))

    def _captured_by_chance(self, example: Example) -> tuple[str, str]:
        """Returns what is wrong with the captured graph of a random model, and the reason if it
        cannot be compared."""
        return _chance.compare(
            lambda: self.reference.results(example.leaves, example.tree),
            lambda: run_in_torch(self.captured, example.leaves),
        )

    def is_right(self, program: torch.export.ExportedProgram, example: Example) -> bool:
        """Whether a program of torch.export has the same results as the model."""
        try:
            got = run_in_torch(program, example.leaves, is_checked=False)
        except Exception:
            return False
        found = _rounding.compare(example.wanted, got, lambda: self._disturbed(example))
        return not found.problem and found.is_decided

    def _is_surely_right(self, translated: Translated, example: Example) -> bool:
        """Whether the graph and its decomposition have the same results as the model, with no
        excuse for jumps. Then the program is right if its operators are."""
        return not any(
            _rounding.difference(example.wanted, run_in_torch(program, example.leaves))
            for program in (self.captured, translated.decomposed)
        )

    def _finding(
        self, program: Program, example: Example, *, blind: bool, roundings: int = 0
    ) -> Finding:
        def compare(one: Example) -> tuple[Comparison, bool]:
            got, failure = one.run_by(program)
            if failure:
                return Comparison(failure), True
            unlike = _rounding.unlikeness(one.wanted, got)
            if unlike or blind:
                return Comparison(unlike), bool(unlike)
            disturbed = functools.partial(self._disturbed, one)
            found = _rounding.compare(
                one.wanted,
                got,
                disturbed,
                roundings=roundings,
                wholly_disturbed=functools.partial(disturbed, with_weights=True),
            )
            return found, False

        finding = settled(example, compare, self._results_where_it_holds)
        if finding.excuse and not self.is_right(self.captured, example):
            # torch runs the graph with the same kernels, so rounding does not explain a jump.
            problem = f"{finding.excuse}; but torch's own run of its graph differs too"
            return Finding(problem, False, example)
        return finding

    def _results_where_it_holds(self, leaves: list[Any], tree: Any) -> list[Any]:
        """Runs the model; raises for arguments that the graph is not valid for."""
        if self.is_guarded:
            run_in_torch(self.captured, leaves)
        return self.reference.results(leaves, tree)

    def _disturbed(self, example: Example, *, with_weights: bool = False) -> list[Any]:
        leaves = [_rounding.disturb(leaf) for leaf in example.leaves]
        with _weights.disturbed(self._weights() if with_weights else ()):
            return self.reference.results(leaves, example.tree)

    def _weights(self) -> Iterable[torch.Tensor]:
        if isinstance(self.model, torch.nn.Module):
            return [*self.model.parameters(), *self.model.buffers()]
        return list(self.captured.state_dict.values())
