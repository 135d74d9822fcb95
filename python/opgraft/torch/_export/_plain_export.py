"""Exports a model with plain torch.onnx.export, verifies the result, and reports it.

This uses neither the ladder nor Opgraft's changes to torch's translations. If one of those is what
fails, torch alone may succeed.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opgraft._base._errors import Error, UnavailableError
from opgraft.torch import _private
from opgraft.torch._capture import _arguments, _guards, _open_sizes
from opgraft.torch._capture._asserts import guards_of
from opgraft.torch._capture._capture import quiet, title
from opgraft.torch._capture._examples import fixed_values
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._kept import keeping
from opgraft.torch._capture._open_sizes import OpenSizes
from opgraft.torch._capture._progress import Progress
from opgraft.torch._capture._request import Request
from opgraft.torch._capture._trial_sizes import TrialSizes
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._graph import calls, is_random, operator_name
from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._graphs._warning import warn
from opgraft.torch._program import _requirements
from opgraft.torch._program._dispatch import STANDARD
from opgraft.torch._program._program import Program, fixed_notes, tell_excuses, tell_unverified
from opgraft.torch._program._report import UNTRIED, Report, Row, all_nodes, foreign_of, sorted_rows
from opgraft.torch._verify import _beyond
from opgraft.torch._verify._beyond import Beyond
from opgraft.torch._verify._verify import Verifier

#: The name of this way in the report.
WAY = "torch.onnx.export"


class PlainExport:
    """One export. Raises an Error if the result is not right."""

    def __init__(self, request: Request, table: Mapping[Any, Callable[..., Any]]) -> None:
        self._request = request
        self._table = table

    def run(self, bar: Progress, *, verify: bool) -> Program:
        bar.step("capture")
        program, guards, open_sizes = self._exported()
        beyond = _beyond.untried(open_sizes)
        if verify:
            bar.step("verify")
            beyond = self._verify(program, guards, open_sizes)
        _beyond.tell(program, beyond)
        if warned := _beyond.warned(beyond):
            warn(_beyond.warning(warned))
        if refused := _guards.refused(guards):
            warn(_guards.warning(refused))
        return program

    def _exported(self) -> tuple[Program, list[Guard], TrialSizes]:
        found: Any
        try:
            with (
                quiet(),
                keeping(self._request.module),
                keeping_random_state(),
                contextlib.redirect_stdout(io.StringIO()),  # torch prints its steps
                _private.noted_conditions() as conditions,
                _private.fresh_dispatch(),
                _private.undoing_transforms(),  # torch leaves them on when it fails
                _private.reading_torch_once(self._request.opset),
                torch.no_grad(),
            ):
                warnings.simplefilter("ignore", UserWarning)  # Opgraft has warned already
                found = torch.onnx.export(
                    self._request.module,
                    self._request.args,
                    kwargs=dict(self._request.kwargs),
                    dynamic_shapes=self._request.dynamic_shapes,
                    opset_version=self._request.opset,
                    custom_translation_table=dict(self._table) or None,
                    dynamo=True,
                    optimize=False,
                    verbose=False,
                )
        except Exception as error:
            reason = titled_line(error.__cause__ or error)  # the cause names the step that failed
            raise UnavailableError(f"torch.onnx.export: {reason}") from error
        assert found is not None
        captured: torch.export.ExportedProgram = found.exported_program
        guards = guards_of(captured, conditions)
        if not self._request.specialise and (refused := _guards.refused(guards)):
            raise _guards.refusal(title(self._request.module), refused)
        guards = self._request.with_state(guards, title(self._request.module))
        sizes = OpenSizes(
            self._request.module,
            self._request.args,
            self._request.kwargs,
            self._request.dynamic_shapes,
        )
        if fixed := sizes.fixed_in(captured):
            raise Error(_open_sizes.warning(fixed))
        specialised = [*fixed_notes(fixed_values(captured)), *map(str, guards)]
        report = Report(_rows(found), captured=WAY, specialised=specialised)
        report.is_random = any(is_random(node) for _, node in calls(captured))
        _requirements.fill(report, list(all_nodes(found.model)), [])
        if guards:
            lines = [one.short for one in guards]
            found.model.metadata_props[_guards.HOLDS_WHERE] = "\n".join(lines)
        _arguments.check_counts(self._request.names, found.model.graph)
        program = Program(found.model, captured, report)
        if self._request.optimize:
            program.optimize()
        _private.rename(program, *self._request.names, None)
        return program, guards, TrialSizes(captured, sizes.asked, conditions)

    def _verify(self, program: Program, guards: Sequence[Guard], sizes: TrialSizes) -> Beyond:
        captured = program.exported_program
        assert captured is not None
        verifier = Verifier(
            self._request.module,
            captured,
            self._request.args,
            self._request.kwargs,
            sizes=sizes,
            is_guarded=bool(guards),
        )
        problem = verifier.difference(program, may_be_random=program.report.is_random)
        if problem:
            raise Error(f"the program made by torch.onnx.export is wrong: {problem}")
        program.report.is_random = verifier.is_random
        how = ", by types and shapes alone, since it is random" if verifier.is_random else ""
        how += _guards.where(guards)
        program.report.verified = verifier.verified(how)
        tell_unverified(program, verifier.notes)
        tell_excuses(program, verifier.excuses())
        program.report.notes += [*verifier.notes, UNTRIED]
        is_specialised = bool(_guards.refused(guards))
        return _beyond.tried(verifier, program, is_specialised=is_specialised)


def _rows(program: Any) -> list[Row]:
    """Returns one row for each operator, with the ONNX operators that it became."""
    made: dict[Any, list[Any]] = {}
    for node in all_nodes(program.model):
        made.setdefault(node.meta.get("node"), []).append(node)
    rows: dict[tuple[str, str], Row] = {}
    for _, call in calls(program.exported_program):
        nodes = made.get(call, [])
        names = [f"{one.domain}::{one.op_type}" if one.domain else one.op_type for one in nodes]
        became = ", ".join(dict.fromkeys(one for one in names if one != "Constant"))
        row = Row(operator_name(call.target), 0, STANDARD, became)
        foreign = {one for node in nodes for one in foreign_of(node, program.model.functions)}
        row.foreign = tuple(sorted(foreign))
        rows.setdefault((row.operator, became), row).count += 1
    return sorted_rows(rows.values())
