"""Exports a model by tracing, verifies the result, and reports it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opgraft._base._errors import Error, ModelError
from opgraft.torch import _private
from opgraft.torch._capture import _arguments, _guards
from opgraft.torch._capture import _traced_examples as _examples
from opgraft.torch._capture._capture import title
from opgraft.torch._capture._examples import Example
from opgraft.torch._capture._guards import Guard, Line
from opgraft.torch._capture._open_sizes import OpenSizes
from opgraft.torch._capture._progress import Progress
from opgraft.torch._capture._request import Request
from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._graphs._warning import warn
from opgraft.torch._program import _requirements
from opgraft.torch._program._dispatch import STANDARD
from opgraft.torch._program._program import (
    Program,
    TracedProgram,
    fixed_notes,
    tell_excuses,
    tell_unverified,
)
from opgraft.torch._program._report import UNTRIED, Report, all_nodes, of_another_opset
from opgraft.torch._traced._traced import Trace, Tracer
from opgraft.torch._verify import _beyond, _rounding, _ties, _weights
from opgraft.torch._verify._nearby import settled
from opgraft.torch._verify._rounding import Comparison

#: The tolerance for a whole program, in roundings of the largest element; but no more than rounding
#: of arguments and weights changes the results.
_ROUNDINGS = 100


class TracedExport:
    """One export. Raises an Error if it finds no program that is right."""

    def __init__(self, request: Request, registry: Callable[[int], Any]) -> None:
        self._request = request
        self._model = request.module
        self._sizes = OpenSizes(self._model, request.args, request.kwargs, request.dynamic_shapes)
        self._tracer = Tracer(request, self._sizes, registry)
        self._notes: list[str] = []
        self._is_guarded = False  # whether the graph is valid only for data like the example's
        #: By the identity of an example, the elements that could not be compared.
        self._excuses: dict[int, str] = {}
        #: The open sizes that the program is right for, if not all.
        self._beyond: list[Guard] = []
        #: The names of the sizes for which the program was right with another number too.
        self.kept_open: set[str] = set()

    def run(self, bar: Progress, *, verify: bool) -> Program:
        bar.step("capture")
        trace = self._tracer.trace({})
        guards = _guards.merged(trace.guards)
        self._allow(guards)
        guards = self._request.with_state(guards, title(self._model))
        bar.step("optimise")
        program = self._finish(trace)
        if not verify:
            # Other sizes have not been checked.
            guards = _guards.merged([*guards, *(trace.size_guards if self._sizes.asked else ())])
            self._allow(guards)
        else:
            bar.step("verify")
            program, guards = self._verified(trace, program, guards)
            self._notes.append(UNTRIED)
        if refused := _guards.refused(guards):
            warn(_guards.warning(refused))
        report = program.report
        report.specialised = [*fixed_notes(self._tracer.fixed), *map(str, guards)]
        report.notes += self._notes
        by_sizes = trace.size_guards if self._sizes.asked else ()
        asked = [one for one in _guards.refused(_guards.merged(by_sizes)) if one not in guards]
        if asked:
            report.notes.append(
                "these lines ask for sizes; the graph does what they do with the example, which "
                f"may be wrong for sizes that were not tried: {_guards.places(asked)}"
            )
        if lines := [*(one.short for one in guards), *map(_guards.by_sizes, asked)]:
            program.model.metadata_props[_guards.HOLDS_WHERE] = "\n".join(lines)
        program.tell_holding(self._beyond)
        if self._beyond:
            warn(_beyond.warning(self._beyond))
        return program

    def _allow(self, guards: Sequence[Guard], seen: str = "") -> None:
        """Refuses guards, unless the user asked for them. `seen` says where the program was
        wrong."""
        refused = _guards.refused(guards)
        if self._request.specialise or not refused:
            return
        if not seen:
            raise _guards.refusal(title(self._model), refused)
        shown = "".join(f"\n  {one}" for one in refused)
        raise ModelError(
            f"a trace of {title(self._model)} is right for the example, but {seen}.{shown}\n"
            "Fix: change these lines, or remove the sizes that differ from dynamic_shapes. "
            "To export what the example does anyway: specialise=True"
        )

    def _finish(self, trace: Trace, *, is_plain: bool = False) -> Program:
        report = Report(trace.rows(), captured="traced")
        model = trace.model.clone()
        if model.opset_imports[""] != self._request.opset:
            model = _private.convert_version(model, self._request.opset)
        if model.opset_imports[""] != self._request.opset:
            report.notes.append(of_another_opset(model.opset_imports[""], self._request.opset))
        _arguments.check_counts(self._request.names, model.graph)
        grafts = [one.graft for one in trace.became if one.graft is not None]
        _requirements.fill(report, list(all_nodes(model)), grafts)
        tracer = self._tracer
        program: Program = TracedProgram(model, report, tracer.fixed, tracer.tree)
        if self._request.optimize and not is_plain:
            program.optimize()
            if not _is_whole(program.model):
                program = self._finish(trace, is_plain=True)
                program.report.notes.append("not optimised: the optimiser loses values")
                return program
        _private.rename(program, *self._request.names, None)
        return program

    def _verified(
        self, trace: Trace, program: Program, guards: list[Guard]
    ) -> tuple[Program, list[Guard]]:
        """The program that agrees with the model, and its guards."""
        example = _examples.given(self._model, self._tracer.leaves, self._tracer.tree)
        self._is_guarded = bool(_guards.refused(guards))
        own = self._own_sizes()
        program.report.is_random = is_random = self._is_random(trace, example)
        problem, how = self._problem(program, example, blind=is_random)
        if problem:
            plain = self._finish(trace, is_plain=True)
            again, how = self._problem(plain, example, blind=is_random)
            if not again:
                program = plain
                program.report.notes.append(f"not optimised: optimised, {problem}")
            elif how == _ties.UNDECIDED:  # no operator is to blame
                raise Error(
                    f"the traced program cannot be compared with the model: {again}, and this "
                    f"cannot be decided: {how.partition(': ')[2]}. Fix: give an example, or "
                    "weights, whose scores differ. To export it anyway: verify=False"
                )
            else:
                trace, program, how = self._healed(trace, example, problem, blind=is_random)
            program.report.is_random = is_random
        seen = [(example, how)]
        for is_size, others in (
            (True, _examples.other_sizes(self._model, example, self._sizes)),
            (False, _examples.other_data(self._model, example)),
        ):
            if is_size and not self._sizes.asked:
                continue
            if not is_size and _guards.refused(guards):
                self._notes.append("other data was not compared: the graph is not valid there")
                continue
            lacking = len(self._notes)
            tried = self._try(program, others, blind=is_random)
            if isinstance(tried, str):
                guards = _guards.merged([*guards, *self._blamed(trace, is_size=is_size)])
                self._allow(guards, tried)
                self._notes.append(f"it differs from the model elsewhere: {tried}")
                continue
            if is_size:
                self.kept_open |= {
                    name
                    for one, _ in tried
                    for name, number in one.sizes.items()
                    if number != own[name]
                }
            if is_size and len(self._notes) > lacking:  # some sizes could not be compared
                guards = _guards.merged([*guards, *trace.size_guards])
                self._allow(guards)
            seen += tried
        if not _guards.refused(guards):
            seen += self._ones(program, example, blind=is_random)
        _open_outputs(program, [one for one, _ in seen])
        how_random = ", by types and shapes alone, since it is random" if is_random else ""
        told = []
        for one, how in seen:
            unseen = _rounding.without_numbers(one.wanted)
            if len(unseen) == len(one.wanted):
                self._notes += [f"with {one.what}, {what}" for what in unseen]
                continue
            but = [f"except: {what}" for what in unseen]
            told.append(", ".join(filter(None, [one.describe(), how, *but])) + how_random)
        tell_excuses(
            program,
            [
                f"with {one.what}, {excuse}"
                for one, _ in seen
                if (excuse := self._excuses.get(id(one)))
            ],
        )
        program.report.verified = [
            (one if told.count(one) == 1 else f"{one} ({told.count(one)} times)")
            + _guards.where(guards)
            for one in dict.fromkeys(told)
        ]
        tell_unverified(program, self._notes)
        return program, guards

    def _ones(
        self, program: Program, example: Example, *, blind: bool
    ) -> list[tuple[Example, str]]:
        """The examples with sizes of 1 that agree, and how they were compared. Those that do not
        agree are reported, not refused: many models treat a size of 1 in a special way."""
        own = self._own_sizes()
        right: list[tuple[Example, str]] = []
        wrong: list[set[str]] = []
        for one in _examples.ones(self._model, example, self._sizes):
            problem, how = self._problem(program, one, blind=blind)
            names = {name for name, number in one.sizes.items() if number != own[name]}
            if problem and how != _ties.UNDECIDED:
                wrong.append(names)
            elif not problem:
                right.append((one, how))
                if not wrong:  # of all sizes
                    break
        for names in sorted(wrong, key=len):
            if not any(one < names for one in wrong):
                what = " or ".join(f"{name} is at least 2" for name in sorted(names))
                self._beyond.append(Guard(Line(), what))
        return right

    def _own_sizes(self) -> dict[str, int]:
        return {_examples.name_of(size): int(size.example or 0) for size, _ in self._sizes.asked}

    def _healed(
        self, trace: Trace, example: Example, problem: str, *, blind: bool
    ) -> tuple[Trace, Program, str]:
        """The program with other rungs for the operators that torch's symbolic functions translate
        wrongly. Bisects the suspects until one is left."""
        wrong = Error(
            f"the traced program is wrong: with {example.what}, {problem}. Fix: leave "
            "dynamo=False out, or change what the model computes there. To export it anyway: "
            "verify=False"
        )

        def without(names: Collection[str]) -> tuple[Trace, Program, str] | None:
            barred = dict.fromkeys(names, f"torch: with {example.what}, {problem}")
            try:
                tried = self._tracer.trace(barred)
            except Error:
                return None
            program = self._finish(tried)
            differs, how = self._problem(program, example, blind=blind)
            return None if differs else (tried, program, how)

        suspects = sorted({one.operator for one in trace.became if one.kind == STANDARD})
        found = without(suspects)
        if found is None:
            raise wrong
        while len(suspects) > 1:
            half = len(suspects) // 2
            for part in (suspects[:half], suspects[half:]):
                if (better := without(part)) is not None:
                    suspects, found = part, better
                    break
            else:
                break  # several operators are wrong
        return found

    def _try(
        self, program: Program, others: Any, *, blind: bool
    ) -> list[tuple[Example, str]] | str:
        """The examples that agree, and how they were compared; or a text that says what
        differs."""
        seen = []
        for one in others:
            if isinstance(one, str):
                self._notes.append(one)
                continue
            problem, how = self._problem(program, one, blind=blind)
            if how == _ties.UNDECIDED:
                self._notes.append(f"{one.describe()} compared {how}")
                continue
            if problem:
                return f"with {one.describe()}, {problem}"
            seen.append((one, how))
        return seen

    def _blamed(self, trace: Trace, *, is_size: bool) -> list[Guard]:
        if is_size and (found := _guards.refused(trace.size_guards)):
            return found
        what = "the sizes are" if is_size else "the data is"
        return [Guard(Line(), f"{what} as in the example")]

    def _is_random(self, trace: Trace, example: Example) -> bool:
        """Whether the model has operators that may be random and two runs of it differ."""
        names = {one.operator.partition(".")[0] for one in trace.became}
        overloads = [one for name in names for one in _private.functional_overloads(name)]
        if not any(torch.Tag.nondeterministic_seeded in one.tags for one in overloads):
            return False
        with keeping_random_state():
            torch.manual_seed(torch.initial_seed() + 1)
            again = _examples.results(self._model, example.leaves, example.tree)
        return bool(_rounding.difference(example.wanted, again))

    def _problem(self, program: Program, example: Example, *, blind: bool) -> tuple[str, str]:
        """What is wrong with a run, and how it was compared, both as text."""
        how = {}

        def compare(one: Example) -> tuple[Comparison, bool]:
            got, failure = one.run_by(program)
            if failure:
                return Comparison(failure), True
            if blind:
                return Comparison(_rounding.unlikeness(one.wanted, got)), False
            disturbed = functools.partial(self._disturbed, one)
            wholly = functools.partial(disturbed, 1, with_weights=True)
            problem, how[one.what] = _ties.difference(
                one.wanted, got, disturbed, roundings=_ROUNDINGS, wholly_disturbed=wholly
            )
            if problem or how[one.what]:
                return Comparison(problem), False
            found = _rounding.compare(
                one.wanted,
                got,
                lambda: disturbed(1),
                roundings=_ROUNDINGS,
                wholly_disturbed=wholly,
            )
            return found, False

        finding = settled(example, compare, self._results_where_it_holds)
        self._excuses[id(example)] = finding.excuse
        if not finding.is_decided:
            return finding.undecided(), ""
        if finding.excuse:
            return "", f"except: {finding.excuse}"
        return finding.problem, how.get(finding.example.what, "")

    def _results_where_it_holds(self, leaves: list[Any], tree: Any) -> list[Any]:
        """The results of the model; raises if the graph is valid only for the example."""
        if self._is_guarded:
            raise Error("the graph is not valid for other data")
        return _examples.results(self._model, leaves, tree)

    def _disturbed(
        self, example: Example, times: float, *, with_weights: bool = False
    ) -> list[Any]:
        leaves = [_rounding.disturb(leaf, times) for leaf in example.leaves]
        weights = (*self._model.parameters(), *self._model.buffers()) if with_weights else ()
        with _weights.disturbed(weights):
            return _examples.results(self._model, leaves, example.tree)


def _is_whole(model: ir.Model) -> bool:
    """Whether every input of every node exists. Torch's optimiser loses some values."""
    return all(
        value is None
        or value.producer() is not None
        or value.is_graph_input()
        or value.is_initializer()
        for node in all_nodes(model)
        for value in node.inputs
    )


def _open_outputs(program: Program, examples: Sequence[Example]) -> None:
    """Removes output sizes that are right only for the example. Torch writes some of these."""
    for index, output in enumerate(program.model.graph.outputs):
        if output.shape is None:
            continue
        for example in examples:
            shape = example.wanted[index].shape
            if len(shape) != len(output.shape):
                output.shape = None
                break
            for axis, size in enumerate(shape):
                known = output.shape[axis]
                if isinstance(known, int) and known != size:
                    output.shape[axis] = None
