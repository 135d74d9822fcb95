"""`opgraft doctor`: who runs each operator of a model, what is missing, and how to mend it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from opgraft import _diagnosis, _survey
from opgraft._diagnosis import BAD, MISSING, OK, Diagnosis, Finding, Trial, Version
from opgraft._errors import Error, ModelError
from opgraft._examination import Examination, Request, examine
from opgraft._modules import names
from opgraft._permissions import allowing, permissions_of
from opgraft._prepare import installed_runtime

_STATUS = {OK: 0, MISSING: 1, BAD: 2}


def doctor(options: argparse.Namespace) -> int:
    """The command; the exit status is 0, 1 where something is missing, 2 for a bad model."""
    sys.path.append(os.getcwd())
    try:
        runtime = options.runtime or installed_runtime()
    except Error as error:
        return _complain(error, options, "")
    try:
        diagnosis = diagnose(
            options.model,
            runtime,
            allow=options.allow,
            imports=options.imports,
            libraries=options.library,
            packs=options.packs,
            prefer=options.prefer,
        )
    except Error as error:
        return _complain(error, options, runtime)
    if options.json:
        print(json.dumps(_diagnosis.as_json(diagnosis), indent=2))
    else:
        print(render(diagnosis))
    if diagnosis.error:
        print(f"opgraft: ModelError: {diagnosis.error}", file=sys.stderr)
    return _STATUS[diagnosis.status]


def _complain(error: Error, options: argparse.Namespace, runtime: str) -> int:
    print(f"opgraft: {type(error).__name__}: {error}", file=sys.stderr)
    if options.json and isinstance(error, ModelError):
        trial = Trial(False, None, "")
        bad = Diagnosis(options.model, runtime, BAD, str(error), [], [], [], [], trial)
        print(json.dumps(_diagnosis.as_json(bad), indent=2))
    return _STATUS[BAD]


def diagnose(
    model: str,
    runtime: str,
    *,
    allow: Sequence[str] = (),
    imports: Sequence[str] = (),
    libraries: Sequence[str] = (),
    packs: Sequence[str] = (),
    prefer: Sequence[str] = (),
) -> Diagnosis:
    """Looks at a file for ONNX Runtime `runtime`, and tries it where that is the one installed.

    A ModelError where the bytes are no model; one that is bad in another way is reported.
    """
    from opgraft import _pyop

    entries, environment = ",".join(names(allow, "allow")), os.environ.get("OPGRAFT_ALLOW", "")

    def allows(name: str) -> bool:
        return _pyop.allows(name, entries, environment)

    allows("any")  # an error where the list is none
    survey = _survey.take(model, runtime)
    is_installed = _is_installed(runtime)
    wanted = {name for one in survey.operators for name in permissions_of(one, survey) if name}
    modules = sorted(one for one in wanted if "::" not in one)
    allowed = [one for one in modules if allows(one) and one != "__main__"]
    promised = sorted(set(survey.modules.values()) & set(modules))  # by the model's metadata
    found = examine(
        Request(
            model=os.path.abspath(model),
            runtime=runtime,
            allow=list(allow),
            imports=list(imports),
            libraries=[os.path.abspath(one) for one in libraries],
            packs=list(packs),
            prefer=list(prefer),
            modules=allowed,
            classes=[
                (one.module, one.class_name, one.compute)
                for one in survey.operators
                if one.is_class and one.module in allowed
            ],
            operators=[
                (one.domain, one.op_type, _version(one, survey))
                for one in survey.operators
                if not one.is_pyop and not one.is_function
            ],
            may_prepare=set(promised) <= set(allowed),
            may_try=set(modules) <= set(allowed) and all(map(allows, wanted)),
            is_installed=is_installed,
        )
    )
    judge = _diagnosis.Judge(survey, found, runtime=runtime, allows=allows, libraries=libraries)
    findings = [one for one in map(judge.judge, judge.operators()) if one is not None]
    return _conclude(model, runtime, survey, found, judge, findings, is_installed)


def _conclude(
    model: str,
    runtime: str,
    survey: _survey.Survey,
    found: Examination,
    judge: _diagnosis.Judge,
    findings: list[Finding],
    is_installed: bool,
) -> Diagnosis:
    problems = [
        f"--import {name}: "
        + (
            "there is no such module on Python's path"
            if raised == "not found"
            else f"it raised {raised}"
        )
        for name, raised in found.imports.items()
        if raised
    ]
    problems += [f"--pack {pack}: {refused}" for pack, refused in found.packs.items() if refused]
    if found.end:
        problems.append(found.end)
    error = None
    if found.is_loaded:
        findings = _as_loaded(findings)
    is_missing = bool(problems) or any(one.problem for one in findings)
    if found.refusal is not None and not found.is_too_new:
        kind, text = found.refusal
        if kind == "ModelError":
            error = text
        elif not is_missing or text.startswith("prefer: "):  # which no operator is to blame for
            problems.append(text)
    elif found.refusal is not None and not any(one.problem for one in findings):
        problems.append(found.refusal[1])
    if found.failure is not None and not is_missing and error is None:
        kind, text = found.failure
        if not judge.blame(kind, text, findings):
            if kind == "ModelError" and "not a registered" not in text:
                error = text
            else:
                problems.append(text)
    is_missing = bool(problems) or any(one.problem for one in findings)
    return Diagnosis(
        model=model,
        runtime=runtime,
        status=BAD if error else MISSING if is_missing else OK,
        error=error,
        versions=[]
        if survey.is_ort_format
        else _diagnosis.versions(survey, {*found.declared, *found.run_by_packs}, found),
        operators=findings,
        problems=problems,
        hints=judge.hints(),
        trial=_trial(found, is_installed),
    )


def _as_loaded(findings: list[Finding]) -> list[Finding]:
    """A session was made of it: whatever it looked like, nothing is missing."""
    for one in findings:
        one.problem = one.remedy = one.stub = None
        one.permissions = []
    return [one for one in findings if one.run_by != "ONNX Runtime"]


def _trial(found: Examination, is_installed: bool) -> Trial:
    if found.is_loaded:
        return Trial(True, True, "ONNX Runtime makes a session of it")
    if found.failure is not None:
        # What to do about an operator that nobody knows stands below, with the operator.
        return Trial(True, False, found.failure[1].partition(" Nobody here knows the operator ")[0])
    if not is_installed:
        return Trial(False, None, "not tried: this ONNX Runtime is not the one installed")
    return Trial(False, None, "not tried, since something is missing")


def _version(operator: _survey.Operator, survey: _survey.Survey) -> int:
    """That of the opset in the prepared model."""
    for entry in survey.imports:
        if entry.domain == operator.domain and entry.limit:
            return min(operator.version or entry.version, entry.limit)
    return operator.version or 1


def _is_installed(runtime: str) -> bool:
    try:
        return installed_runtime() == runtime
    except Error:
        return False


def render(diagnosis: Diagnosis) -> str:
    """The report for people."""
    lines = [f"{diagnosis.model}, for ONNX Runtime {diagnosis.runtime}: {_headline(diagnosis)}", ""]
    for version in diagnosis.versions:
        lines.append(_version_line(version))
    lines.append(f"session: {diagnosis.trial.text.partition(chr(10))[0]}")
    if diagnosis.operators:
        lines += ["", *_table(diagnosis.operators)]
    for problem in diagnosis.problems:
        lines += ["", problem]
    for finding in diagnosis.operators:
        if finding.problem:
            lines += ["", *_details(finding)]
    permissions = _permissions(diagnosis)
    if len(permissions) > 1:
        lines += ["", f"all that must be allowed: {allowing(permissions)}"]
    for hint in diagnosis.hints:
        lines += ["", hint]
    return "\n".join(lines)


def _permissions(diagnosis: Diagnosis) -> list[str]:
    """The names that the host must allow, each once."""
    return sorted({name for one in diagnosis.operators for name in one.permissions})


def _headline(diagnosis: Diagnosis) -> str:
    if diagnosis.status == OK:
        return "all is there"
    if diagnosis.status == BAD:
        return "the model is bad"
    others = [one for one in diagnosis.operators if one.problem and not one.permissions]
    count = len(_permissions(diagnosis)) + len(others) + len(diagnosis.problems)
    return f"{count} {'thing is' if count == 1 else 'things are'} missing"


def _version_line(version: Version) -> str:
    what = "IR version" if version.domain is None else f"opset {version.domain or 'ai.onnx'}"
    line = f"{what} {version.model}: "
    if version.action == "kept":
        return line + "taken as it is"
    if version.action == "lowered":
        return line + f"lowered to {version.limit} while preparing; it means the same"
    changed = ", ".join(version.in_the_way)
    if version.action == "converted":
        return (
            line + f"converted to {version.limit} by onnx.version_converter, because of {changed}"
        )
    return line + f"too new, at most {version.limit} is taken; in the way: {changed}"


def _table(findings: Sequence[Finding]) -> list[str]:
    rows = [("operator", "nodes", "run by", "module", "state")]
    for one in findings:
        state = "ok" if one.problem is None else one.problem.splitlines()[0]
        state = state if len(state) <= 60 else state[:57] + "..."
        rows.append((one.operator, str(one.count), one.run_by, one.module or "-", state))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]


def _details(finding: Finding) -> list[str]:
    shown = [
        f"'{node['name']}'" + (f" ({node['place']})" if node["place"] else "")
        for node in finding.nodes
    ]
    more = f" and {finding.count - len(shown)} more" if finding.count > len(shown) else ""
    problem = "\n  ".join((finding.problem or "").splitlines())
    lines = [
        f"{finding.operator}: {problem}",
        f"  {'node' if finding.count == 1 else 'nodes'} {', '.join(shown)}{more}",
    ]
    if finding.remedy:
        lines.append(f"  -> {finding.remedy}")
    if finding.stub is not None:
        lines += [f"  {finding.stub.file}:", ""]
        lines += [f"    {line}" if line else "" for line in finding.stub.text.splitlines()]
    return lines
