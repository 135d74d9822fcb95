"""`opgraft.torch.export`: like torch.onnx.export, but a missing operator does not stop it."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from opgraft._base._errors import Error, UnavailableError
from opgraft.torch import _private
from opgraft.torch._capture import _arguments, _guards, _open_sizes, _state, _state_search
from opgraft.torch._capture._capture import (
    Called,
    Captured,
    Leak,
    capture,
    quiet_loggers,
    title,
)
from opgraft.torch._capture._examples import Example, fixed_values
from opgraft.torch._capture._kept import keeping
from opgraft.torch._capture._progress import Progress
from opgraft.torch._capture._request import Request
from opgraft.torch._capture._traced_examples import name_of
from opgraft.torch._capture._watch import Watch
from opgraft.torch._export._advice import with_fix
from opgraft.torch._export._plain_export import PlainExport
from opgraft.torch._export._ways import (
    Way,
    by_others,
    check_repeats,
    check_runs,
    itself_fails,
    with_advice,
)
from opgraft.torch._graphs import _fast_path
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._graph import (
    calls,
    is_in_training,
    is_random,
    is_uninitialised,
    operator_name,
)
from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._graphs._warning import warn
from opgraft.torch._legacy._symbolic import set_versions
from opgraft.torch._legacy._symbolic import translations as symbolic_translations
from opgraft.torch._program import _requirements
from opgraft.torch._program._dispatch import Dispatcher, Translated
from opgraft.torch._program._program import Program, fixed_notes, tell_excuses, tell_unverified
from opgraft.torch._program._report import Report, all_nodes, of_another_opset, rows_of
from opgraft.torch._rungs._translation import own_translations, writing
from opgraft.torch._traced._traced import names_of
from opgraft.torch._traced._traced_export import TracedExport
from opgraft.torch._verify import _beyond
from opgraft.torch._verify._verify import Verdict, Verifier


def export(
    model: torch.nn.Module | torch.export.ExportedProgram | Callable[..., Any],
    args: tuple[Any, ...] | torch.Tensor = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    external_data: bool = True,
    optimize: bool = True,
    fallback: str | Collection[str] = "auto",
    verify: bool = True,
    specialise: bool = False,
    progress: bool | None = None,
    time_limit: float | None = None,
    **others: Any,
) -> Program:
    """Exports a model to ONNX; an operator that ONNX lacks does not stop the export.

    The arguments are those of `torch.onnx.export`; `model` may also be a plain function. An
    operator without a translation becomes, in order of preference, an operator of the user's that
    can replace it ("operator"), a function of standard ONNX operators ("function"), an operator of
    a pack ("pack"), an ATen node, which libtorch runs ("aten"), or a Python node ("python").
    `fallback` names the kinds that may be used: "auto" is all of them, "none" is none. `verify`
    runs the program and compares it with the model, also at a second size where `dynamic_shapes`
    leaves sizes open; an operator that gives a wrong result falls back as well. `program.report`
    says what each operator became. A model that decides by data what it computes
    (`if x.sum() > 0`) is refused, with its lines and what to write instead; `specialise` allows a
    graph that is right only for data like the example's. A model that torch.export cannot capture
    is traced; `dynamo=False` traces it at once. `progress` draws a bar on stderr; by default only
    on a terminal. `time_limit` is in seconds; when it is reached, an error says what the export
    was doing.

    >>> program = opgraft.torch.export(torch.nn.ReLU(), (torch.ones(2),), "model.onnx")
    >>> [(row.operator, row.became) for row in program.report.rows]
    [('aten::relu', 'Relu')]
    """
    _arguments.refuse(others)
    kinds = _arguments.kinds(fallback)
    given = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    exportable = getattr(torch.onnx, "ExportableModule", ())
    if isinstance(model, exportable) and not given and not kwargs:  # it brings its own arguments
        given, kwargs = model.example_arguments()
        input_names = model.input_names() if input_names is None else input_names
        output_names = model.output_names() if output_names is None else output_names
        dynamic_shapes = model.dynamic_shapes() if dynamic_shapes is None else dynamic_shapes
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        if not callable(model):
            raise TypeError(f"expected a torch.nn.Module, not {type(model).__name__}")
        model = Called(model, len(given), kwargs or {})
    _arguments.check(f, opset_version, input_names, output_names, custom_translation_table)
    split = _arguments.split(getattr(model, "forward", None), given, dict(kwargs or {}))
    request = Request(
        model,
        *_arguments.distinct(model, *split),
        dynamic_shapes=dynamic_shapes,
        opset=opset_version or _private.default_opset(),
        names=(input_names, output_names),
        table=custom_translation_table or {},
        optimize=optimize,
        kinds=kinds,
        specialise=specialise,
    )
    bar = Progress(title(model), is_shown=progress, limit=_arguments.time_limit(time_limit))
    watch = Watch(bar)
    with (
        bar,
        _private.exporting(),
        quiet_loggers(),  # one export at a time, or one would save the other's levels as the user's
        keeping_random_state(),
        _private.keeping_compiler_options(),
        _with_data(),
        watch.watching(time_limit),
        keeping(model, has_parameters=True),
    ):
        program = _Export(request).run(
            bar, watch, verify=verify, by_tracing=others.get("dynamo") is False
        )
    set_versions(program.model, custom_opsets or {})
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _with_data() -> contextlib.AbstractContextManager[Any]:
    """Makes new tensors have data, even where the default device is `meta`."""
    is_without = torch.get_default_device().type == "meta"
    return torch.device("cpu") if is_without else contextlib.nullcontext()


_TRAINING = (
    "the model is exported in training mode: dropout is active, and batch norm uses the statistics "
    "of the batch. To export it for inference: model.eval()"
)


class _Export:
    """One export."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._step = "capture"  # or "translate" or "verify": the step that failed
        self._is_final = False  # an operator is wrong; a run of the whole program may not show it
        self._is_leaking = False  # torch crashes when it decomposes what it captured
        self._beyond = _beyond.Beyond()  # the open sizes that the program is right for

    def run(
        self, bar: Progress, watch: Watch, *, verify: bool, by_tracing: bool = False
    ) -> Program:
        """Like `_run`, but errors say what to do."""
        try:
            return self._run(bar, watch, verify=verify, by_tracing=by_tracing)
        except Error as error:
            raise with_fix(error) from error.__cause__
        except (RuntimeError, LookupError, AssertionError, AttributeError) as error:
            name = title(self._request.model)
            raise with_fix(Error(f"{name} cannot be exported: {titled_line(error)}")) from error

    def _run(self, bar: Progress, watch: Watch, *, verify: bool, by_tracing: bool) -> Program:
        """Uses torch.export, or else torch's own exporters. With `specialise`, takes the first that
        is right for other data too, or else the first that is right for the example."""
        if isinstance(self._request.model, torch.nn.Module):
            forward = self._request.model.forward
            _arguments.check_call(
                title(self._request.model),
                forward,
                self._request.args,
                self._request.kwargs,
                self._request.dynamic_shapes,
            )
        state = self._state()
        if verify and state.failure is not None:
            raise itself_fails(title(self._request.model), state.failure)
        if not self._request.specialise:
            state.refuse(title(self._request.model))
        asked = replace(self._request, state=state)
        self._request = replace(asked, specialise=False)
        try:
            program = self._by_any_way(bar, watch, verify=verify, by_tracing=by_tracing)
        except Error as error:
            if not asked.specialise:
                raise with_advice(error, asked.model) from error.__cause__
            self._request = asked
            program = self._by_any_way(bar, watch, verify=verify, by_tracing=by_tracing)
        asked.state.tell(program)
        return program

    def _state(self) -> _state.State:
        model, args, kwargs = self._request.model, self._request.args, self._request.kwargs
        is_module = isinstance(model, torch.nn.Module)
        names = names_of(model, args, kwargs) if is_module else ()
        return _state_search.find(model, args, kwargs, names)

    def _by_any_way(
        self, bar: Progress, watch: Watch, *, verify: bool, by_tracing: bool
    ) -> Program:
        try:
            if by_tracing:
                return self._traced(bar, verify=verify)
            return self._captured(bar, watch, verify=verify)
        except Error as error:
            if not self._may_go_on(error):
                raise
            model = self._request.module
            call = title(model), model, self._request.args, self._request.kwargs
            check_runs(*call)
            try:
                if by_tracing:
                    raise
                return by_others(error, self._ways(bar, error, verify=verify))
            except Error as last:
                if not _guards.is_refusal(last):
                    check_repeats(*call)
                raise

    def _ways(self, bar: Progress, error: Error, *, verify: bool) -> list[Way]:
        """Returns torch's own ways, the most promising first."""
        plain = Way(
            "torch.onnx.export",
            "exported by torch.onnx.export alone",
            lambda: self._plain(bar, verify=verify),
        )
        traced = Way("Torch's tracing exporter", "traced", lambda: self._traced(bar, verify=verify))
        if self._is_leaking or isinstance(error.__cause__, Leak):
            return [traced]
        if self._step == "verify":
            return [plain, traced]
        # torch.onnx.export captures as we just did, so it comes last. It cannot help if the graph
        # holds only for some data, or if an operator is not translated: it has no translation for
        # that either, or one that is known to be wrong.
        is_hopeless = self._step == "translate" or _guards.is_refusal(error)
        return [traced] if is_hopeless else [traced, plain]

    def _may_go_on(self, error: Error) -> bool:
        """Whether torch's other ways may do better. They do not if a single operator is wrong:
        they write the same, and are verified only as a whole. Nor if the user has to change the
        request."""
        model = self._request.model
        if self._is_final or _state.is_refusal(error) or with_advice(error, model) is not error:
            return False
        if not isinstance(model, torch.nn.Module) or isinstance(error, _private.Moved):
            return False
        weights = [*model.parameters(), *model.buffers()]
        if _private.has_fakes((self._request.args, self._request.kwargs, weights)):
            return False
        is_of_sizes = self._request.dynamic_shapes is not None and _private.is_refused_size(
            error.__cause__
        )
        return not is_of_sizes

    def _plain(self, bar: Progress, *, verify: bool) -> Program:
        table = _translations(self._request.table, self._request.opset)
        return PlainExport(self._request, table).run(bar, verify=verify)

    def _traced(self, bar: Progress, *, verify: bool) -> Program:
        if not isinstance(self._request.model, torch.nn.Module):
            raise Error("dynamo=False: an ExportedProgram is captured already")

        return self._traced_export().run(bar, verify=verify)

    def _traced_export(self) -> TracedExport:
        def registry(opset: int) -> Any:
            return self._registry(opset, {**own_translations(), **self._request.table})

        return TracedExport(self._request, registry)

    def _kept_open(self, captured: Captured, bar: Progress) -> Program | None:
        """Returns the program of a trace, if the trace keeps open the sizes that torch.export
        fixes."""
        if not isinstance(self._request.model, torch.nn.Module):
            return None
        export = self._traced_export()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                program = export.run(bar, verify=True)
            except Error:
                return None
        if not {name_of(one.size) for one in captured.fixed} <= export.kept_open:
            return None
        for one in told:
            warn(one.message, one.category)
        sizes = "; ".join(map(str, captured.fixed))
        program.report.notes.append(f"traced, since torch.export's way fixes open sizes: {sizes}")
        return program

    def _registry(self, opset: int, table: Mapping[Any, Callable[..., Any]]) -> Any:
        """Returns torch's translations to an opset, with those of the table taking precedence."""
        registry = _private.new_registry(opset)
        for target, translation in table.items():
            _private.add_translation(registry, target, translation)
        return registry

    def _captured(self, bar: Progress, watch: Watch, *, verify: bool) -> Program:
        self._step, self._is_final, self._is_leaking = "capture", False, False
        bar.step("capture")
        _, self._is_named = _private.nameless_dimensions(self._request.dynamic_shapes)
        captured = capture(
            self._request.model,
            self._request.args,
            self._request.kwargs,
            self._request.dynamic_shapes,
            specialise=self._request.specialise,
        )
        self._is_leaking = captured.is_leaking
        captured.guards = self._request.with_state(captured.guards, title(self._request.model))
        self._step = "translate"
        _arguments.check_outputs(captured.program)
        for note in watch.notes():
            warn(note)
        if captured.fixed:
            traced = self._kept_open(captured, bar) if verify else None
            if traced is not None:
                return traced
            warn(_open_sizes.warning(captured.fixed))
        if refused := _guards.refused(captured.guards):
            warn(_guards.warning(refused))
        if getattr(self._request.model, "training", False) and is_in_training(captured.program):
            warn(_TRAINING)
        bar.step("translate")
        table = _translations(self._request.table, self._request.opset)
        registry = self._registry(max(self._request.opset, _private.lowest_opset()), table)
        dispatcher = Dispatcher(captured.program, registry, self._request.kinds)
        translated = dispatcher.translate()
        bar.step("optimise")
        program = self._finish(captured, translated, is_last=not verify)
        assert captured.sizes is not None
        self._beyond = _beyond.untried(captured.sizes)
        if verify:
            bar.step("verify")
            self._step = "verify"
            program = self._verified(captured, dispatcher, translated, program, bar)
        _beyond.tell(program, self._beyond)
        if warned := _beyond.warned(self._beyond):
            warn(_beyond.warning(warned))
        program.report.notes += watch.notes()
        return program

    def _finish(
        self,
        captured: Captured,
        translated: Translated,
        *,
        is_last: bool = False,
        is_plain: bool = False,
    ) -> Program:
        """Returns the program as the user gets it. Unless `is_last`, works on a copy, since the
        translation is still needed to find wrong operators."""
        report = self._report(captured, translated)
        model = translated.onnx.model
        if not is_last:
            model = model.clone()
        model.opset_imports.setdefault("", self._request.opset)
        with writing(self._request.table):
            model = _private.convert_version(model, self._request.opset)
        if model.opset_imports[""] != self._request.opset:
            report.notes.append(of_another_opset(model.opset_imports[""], self._request.opset))
        if captured.guards:
            lines = [one.short for one in captured.guards]
            model.metadata_props[_guards.HOLDS_WHERE] = "\n".join(lines)
        _arguments.check_counts(self._request.names, model.graph)
        program = Program(model, translated.decomposed, report)
        weights = list(captured.program.state_dict.values())
        if self._request.optimize and not is_plain and not _private.has_fakes(weights):
            program.optimize()
        for fixed in captured.fixed:
            fixed.write(program.model.graph.inputs)
        shapes = self._request.dynamic_shapes if self._is_named else None
        _private.rename(program, *self._request.names, shapes)
        return program

    def _report(self, captured: Captured, translated: Translated) -> Report:
        report = Report(
            rows_of(translated),
            captured=captured.way,
            specialised=[
                *fixed_notes(fixed_values(captured.program)),
                *captured.specialised,
                *map(str, captured.guards),
            ],
        )
        report.is_random = any(is_random(node) for node in translated.choices)
        grafts = [one.graft for one in translated.choices.values() if one.graft is not None]
        _requirements.fill(report, list(all_nodes(translated.onnx.model)), grafts)
        return report

    def _verified(
        self,
        captured: Captured,
        dispatcher: Dispatcher,
        translated: Translated,
        program: Program,
        bar: Progress,
    ) -> Program:
        """Returns the program, with other rungs for the operators that gave wrong results."""
        args, kwargs = self._request.args, self._request.kwargs
        if isinstance(self._request.model, torch.export.ExportedProgram) and not (args or kwargs):
            if self._request.model.example_inputs is None:
                program.report.notes.append("not verified: no arguments were given")
                return program
            args, kwargs = self._request.model.example_inputs
        if _private.has_fakes((args, kwargs, list(captured.program.state_dict.values()))):
            program.report.notes.append("not verified: tensors of the model have no data")
            return program
        verifier = Verifier(
            self._request.model,
            captured.program,
            args,
            kwargs,
            decomposition=dispatcher.decomposition,
            sizes=captured.sizes,
            is_guarded=bool(captured.guards),
        )
        while self._is_fixed(
            verdict := verifier.verify(program, translated, bar.share),
            verifier,
            captured.program,
            translated.decomposed,
            dispatcher,
        ):
            try:
                translated = dispatcher.translate()
            except UnavailableError as error:  # the replacement is no better
                if verdict.guilt is None:
                    raise
                if verdict.edge is None:
                    raise _unfixed(verdict.guilt.choice.node, verdict.guilt.reason) from error
                _give_up(verdict, verdict.edge, verifier, dispatcher)
                translated = dispatcher.translate()
            program = self._finish(captured, translated)
        is_right = True
        if verdict.problem:
            # Each operator alone is right. The optimiser may have made the program wrong.
            plain = self._finish(captured, translated, is_plain=True)
            again = verifier.verify(plain, translated, bar.share)
            if not again.problem:
                program = plain
                program.report.notes.append(f"not optimised: when optimised, {verdict.problem}")
            elif verdict.fails:
                raise Error(f"the exported program cannot be used: {verdict.problem}")
            elif not _reads_memory(translated):
                raise Error(
                    f"the exported program differs from the model: {verdict.problem}; but each "
                    "operator alone is right, so rounding errors may have added up. To export it "
                    "anyway: verify=False"
                )
            else:  # the model's own result is undefined
                note = f"{verdict.problem}; but each operator alone is right: {_MEMORY}"
                program.report.notes.append(note)
                is_right = False
                warn(f"the exported program differs from the model: {note}")
        program.report.is_random &= verifier.is_random
        how = ", operator by operator, since some are random" if program.report.is_random else ""
        if is_right:
            how += _guards.where(captured.guards)
            program.report.verified = verifier.verified(how)
            tell_unverified(program, verifier.notes)
            is_specialised = bool(_guards.refused(captured.guards))
            self._beyond = _beyond.tried(verifier, program, is_specialised=is_specialised)
            tell_excuses(program, verifier.excuses())
        program.report.not_numbers = [
            f"{operator}: {what}" for operator, what in verifier.not_numbers.items()
        ] + _fast_path.differences(captured.program)
        program.report.differs = verifier.extremes()
        program.tell_differences(program.report.differs)
        program.report.notes += [*dispatcher.notes, *verifier.notes]
        program.report.notes += [*verifier.branch_notes(), *verifier.probe_notes()]
        return program

    def _is_fixed(
        self,
        verdict: Verdict,
        verifier: Verifier,
        captured: torch.export.ExportedProgram,
        decomposed: torch.export.ExportedProgram,
        dispatcher: Dispatcher,
    ) -> bool:
        """Whether the cause was found and the program changed, so that it is worth verifying again.
        For an edge size, if no change helps, drops that size."""
        if verdict.edge is None:
            return self._is_blamed(verdict, verifier, captured, decomposed, dispatcher)
        with contextlib.suppress(Error):
            if self._is_blamed(verdict, verifier, captured, decomposed, dispatcher):
                return True
        _give_up(verdict, verdict.edge, verifier, dispatcher)
        return True

    def _is_blamed(
        self,
        verdict: Verdict,
        verifier: Verifier,
        captured: torch.export.ExportedProgram,
        decomposed: torch.export.ExportedProgram,
        dispatcher: Dispatcher,
    ) -> bool:
        # At other sizes a trace may be right, and it is verified there too.
        is_given = verdict.example is None or not verdict.example.sizes
        is_found = verdict.guilt is not None or verdict.misdecomposed is not None
        self._is_final = is_found and is_given
        if verdict.guilt is not None:
            guilty, reason = verdict.guilt.choice, verdict.guilt.reason
            if not dispatcher.bar(guilty, reason):
                raise _unfixed(guilty.node, reason)
            for other in verdict.guilt.others:
                dispatcher.bar(other, reason)
            return True
        if verdict.misdecomposed is not None:
            target, reason = verdict.misdecomposed
            if not dispatcher.keep_whole(target, reason):
                raise Error(
                    f"operator {operator_name(target)}: decomposed by torch, {reason}; no "
                    "allowed fallback can replace the whole operator. To export it anyway: "
                    "verify=False"
                )
            return True
        example = verdict.example
        if not verdict.problem or example is None:
            return False
        # ONNX does what torch's graph does. Either torch's graph differs from the model...
        if not verifier.is_right(captured, example):
            raise Error(
                f"the graph that torch.export captured differs from the model: {verdict.problem}. "
                "To export it anyway: verify=False"
            )
        # ... or torch decomposed it wrongly, or rounding errors add up.
        return not verifier.is_right(decomposed, example) and dispatcher.keep_misdecomposed(
            lambda program: verifier.is_right(program, example)
        )


def _give_up(verdict: Verdict, edge: Example, verifier: Verifier, dispatcher: Dispatcher) -> None:
    """Drops sizes for which no rung is right; keeps the choices that are right for other sizes."""
    guilt = verdict.guilt
    for choice in (guilt.choice, *guilt.others) if guilt is not None else ():
        dispatcher.unbar(choice)
    verifier.give_up(edge)


_MEMORY = "the result may depend on uninitialised memory"


def _reads_memory(translated: Translated) -> bool:
    return any(is_uninitialised(node.target) for _, node in calls(translated.decomposed))


def _unfixed(node: torch.fx.Node, reason: str) -> Error:
    return Error(
        f"operator {operator_name(node.target)} (node '{node.name}'): {reason}; no allowed "
        "fallback does better. To export it anyway: verify=False"
    )


def _translations(
    table: Mapping[Any, Callable[..., Any]], opset: int
) -> dict[Any, Callable[..., Any]]:
    """Returns all of the user's translations. In increasing precedence: their own operators,
    registered symbolic functions, the table passed to the export."""
    return {**own_translations(), **symbolic_translations(opset), **table}


export.__module__ = "opgraft.torch"  # where users find it
