"""Exports a model by torch.onnx.export as it stands, verifies what came, and reports it.

It has neither the ladder nor what Opgraft does to torch's translations: where that is what fails,
torch alone may do better.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opgraft._errors import Error, UnavailableError
from opgraft.torch import _arguments, _guards, _open_sizes, _private, _requirements
from opgraft.torch._asserts import guards_of
from opgraft.torch._capture import quiet, title
from opgraft.torch._dispatch import STANDARD
from opgraft.torch._error_lines import titled_line
from opgraft.torch._graph import calls, is_random, operator_name
from opgraft.torch._guards import Guard
from opgraft.torch._kept import keeping
from opgraft.torch._open_sizes import OpenSizes
from opgraft.torch._program import Program, tell_excuses
from opgraft.torch._progress import Progress
from opgraft.torch._report import UNTRIED, Report, Row, all_nodes, foreign_of, sorted_rows
from opgraft.torch._request import Request
from opgraft.torch._verify import Verifier

#: What the report calls it.
WAY = "torch.onnx.export"


class PlainExport:
    """One export. An Error where it gives nothing that is right."""

    def __init__(self, request: Request, table: Mapping[Any, Callable[..., Any]]) -> None:
        self._request = request
        self._table = table

    def run(self, bar: Progress, *, verify: bool) -> Program:
        bar.step("capture")
        program, guards = self._exported()
        if verify:
            bar.step("verify")
            self._verify(program, guards)
        if refused := _guards.refused(guards):
            warnings.warn(_guards.warning(refused), stacklevel=6)
        return program

    def _exported(self) -> tuple[Program, list[Guard]]:
        found: Any
        try:
            with (
                quiet(),
                keeping(self._request.module),
                contextlib.redirect_stdout(io.StringIO()),  # torch counts its steps
                _private.fresh_dispatch(),
                _private.undoing_transforms(),  # which torch leaves on where it fails
                torch.no_grad(),
            ):
                warnings.simplefilter("ignore", UserWarning)  # Opgraft has said it
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
            reason = titled_line(
                error.__cause__ or error
            )  # of the step that torch names at the end
            raise UnavailableError(f"torch.onnx.export: {reason}") from error
        assert found is not None
        captured: torch.export.ExportedProgram = found.exported_program
        guards = guards_of(captured)
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
        report = Report(_rows(found), captured=WAY, specialised=[*map(str, guards)])
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
        return program, guards

    def _verify(self, program: Program, guards: Sequence[Guard]) -> None:
        captured = program.exported_program
        assert captured is not None
        verifier = Verifier(
            self._request.module,
            captured,
            self._request.args,
            self._request.kwargs,
            is_guarded=bool(guards),
        )
        is_blind = program.report.is_random
        if problem := verifier.difference(program, blind=is_blind):
            raise Error(f"the program of torch.onnx.export is not right: {problem}")
        how = ", by types and shapes alone, since it is random" if is_blind else ""
        how += _guards.where(guards)
        program.report.verified = verifier.verified({}, how)
        tell_excuses(program, verifier.excuses())
        program.report.notes += [*verifier.notes, UNTRIED]


def _rows(program: Any) -> list[Row]:
    """One for each operator, with the ONNX operators that it became."""
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
