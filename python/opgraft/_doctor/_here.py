"""Judges the operators of a model by what this process has: no other process, no session."""

from __future__ import annotations

from collections.abc import Callable

from opgraft._doctor import _survey
from opgraft._doctor._diagnosis import Judge
from opgraft._doctor._doctor_report import Finding
from opgraft._doctor._examination import Examination, ask_runtime


def findings_here(model: bytes, runtime: str, allows: Callable[[str], bool]) -> list[Finding]:
    """Returns what runs each operator in this process, for the bytes of a model.

    Modules that are imported and packs that are loaded count; nothing else is imported or loaded.
    """
    from opgraft import _pyop
    from opgraft._declare import _declare, _packs

    values = _pyop.survey(model, "the model", runtime)
    survey = _survey.from_values(values)
    domains, lacking = ask_runtime(
        [
            (one.domain, one.op_type, one.version or _imported(survey, one.domain))
            for one in survey.operators
            if not one.is_pyop and not one.is_function
        ]
    )
    in_packs = {one.full_name: one.pack for one in _packs.operators()}
    own = _pyop.RUNTIME_DOMAINS if domains is None else domains
    found = Examination(
        declared={one.full_name: one.schema.module for one in _declare.operators()},
        native={one.runtime_name: one.full_name for one in _packs.operators()},
        run_by_packs={
            name: pack for name, pack in in_packs.items() if name.partition("::")[0] not in own
        },
        domains=domains,
        lacking=lacking,
        prepared=values,
    )
    judge = Judge(
        survey, found, runtime=runtime, allows=allows, allows_type=lambda _: True, libraries=()
    )
    return [one for one in map(judge.judge, judge.operators()) if one is not None]


def _imported(survey: _survey.Survey, domain: str) -> int:
    return next((one.version for one in survey.imports if one.domain == domain), 1)
