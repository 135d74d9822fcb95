"""`opgraft doctor`: what runs each operator of a model, what is missing, and how to fix it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from opgraft._base._errors import Error, ModelError
from opgraft._base._modules import names
from opgraft._doctor import _diagnosis, _doctor_page, _survey
from opgraft._doctor._doctor_report import (
    BAD,
    MISSING,
    OK,
    Diagnosis,
    Finding,
    Trial,
    Version,
    as_json,
    versions,
)
from opgraft._doctor._examination import NOT_FOUND, Examination, Request, examine
from opgraft._doctor._permissions import allowing, held_for, permissions_of
from opgraft._doctor._shipment import Needs, parts_of, shipment_blocks
from opgraft._doctor._steps import reasons, steps_in, steps_table
from opgraft._run._prepare import installed_runtime, is_installed
from opgraft._terminal._document import (
    DOUBTFUL,
    GOOD,
    QUIET,
    STRONG,
    WRONG,
    Block,
    Code,
    Line,
    Table,
    harmless_line,
    plain,
)
from opgraft._terminal._screen import complain, is_terminal, show
from opgraft._terminal._versions import installed

_MEANING = (
    "Allowed code runs with all your permissions, on arguments that the model chooses: allow it "
    "only if you trust this file as you trust a program."
)
_REFUSED = "tried, and refused: the reason is "
#: Texts in a ModelError about the graph, not about an operator.
_BROKEN = ("which nothing defines", "but later or in another graph")
#: Texts in a ModelError about something missing, although the model may be valid.
_MISSING_PARTS = ("not a registered", "there is no such file")
_MOST_NODES = 5  #: that are named for one problem
_LONGEST_STATE = 60
_STATUS = {OK: 0, MISSING: 1, BAD: 2}


def doctor(options: argparse.Namespace) -> int:
    """Runs the command. The exit status is 0, 1 if something is missing, or 2 for a bad model."""
    if (options.profile and not options.html) or (options.input and not options.profile):
        raise Error("--profile needs --html FILE, and --input needs --profile")
    if options.html:
        _doctor_page.check_target(options)
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
            is_verbose=options.verbose,
        )
    except Error as error:
        return _complain(error, options, runtime)
    if options.json:
        print(json.dumps(as_json(diagnosis), indent=2))
    else:
        show(blocks(diagnosis))
    if options.html:
        _doctor_page.write(diagnosis, options)
    # On a terminal the report itself shows the error; a program finds it on stderr.
    if diagnosis.error and (options.json or not is_terminal(sys.stdout)):
        complain(diagnosis.error, "ModelError")
    return _STATUS[diagnosis.status]


def _complain(error: Error, options: argparse.Namespace, runtime: str) -> int:
    complain(str(error), type(error).__name__)
    if options.json and isinstance(error, ModelError):
        trial = Trial(False, None, "")
        bad = Diagnosis(options.model, runtime, BAD, str(error), [], [], [], [], trial)
        print(json.dumps(as_json(bad), indent=2))
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
    is_verbose: bool = False,
    with_libtorch: bool = False,
) -> Diagnosis:
    """Examines a file for ONNX Runtime `runtime`; opens a session if that version is installed.

    Raises a ModelError if the bytes are not a model; other faults of a model are reported.
    """
    from opgraft import _pyop

    entries, environment = ",".join(names(allow, "allow")), os.environ.get("OPGRAFT_ALLOW", "")

    def allows(name: str) -> bool:
        return _pyop.allows(name, entries, environment)

    def allows_type(name: str) -> bool:
        return _pyop.allows_type(name, entries, environment)

    allows("any")  # raises if the list is invalid
    survey = _survey.take(model, runtime)
    is_here = is_installed(runtime)
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
            is_installed=is_here,
            is_unknown=survey.ir_version > survey.ir_known
            or any(one.version > one.known > 0 for one in survey.imports),
            has_held=any(map(held_for, modules)),
            has_aten=any(one.is_in_libtorch for one in survey.operators),
            is_verbose=is_verbose,
        )
    )
    judge = _diagnosis.Judge(
        survey, found, runtime=runtime, allows=allows, allows_type=allows_type, libraries=libraries
    )
    findings = [one for one in map(judge.judge, judge.operators()) if one is not None]
    diagnosis = _conclude(model, runtime, survey, found, judge, findings, is_here)
    diagnosis.inputs = found.inputs
    if not survey.is_ort_format:
        diagnosis.steps = steps_in(model)
    if diagnosis.status == OK:
        held = {name for one in found.held.values() for name in one}
        used = {one.module for one in findings if one.module}
        needs = Needs(
            model,
            runtime,
            allow=list(allow),
            modules=sorted({*used, *imports, *held}),
            packs=[*packs, *found.run_by_packs.values()],
            libraries=libraries,
            has_aten=any(one.is_in_libtorch for one in survey.operators),
            with_libtorch=with_libtorch,
        )
        diagnosis.ship = parts_of(needs)
    return diagnosis


def _conclude(
    model: str,
    runtime: str,
    survey: _survey.Survey,
    found: Examination,
    judge: _diagnosis.Judge,
    findings: list[Finding],
    is_installed: bool,
) -> Diagnosis:
    # If an operator lacks the module too, it is reported there only.
    not_found = {one.module for one in findings if one.problem and one.file == ""}
    problems = [
        f"--import {name}: "
        + (
            "there is no such module on Python's path"
            if raised == NOT_FOUND
            else f"it raised {raised}"
        )
        for name, raised in found.imports.items()
        if raised and (raised != NOT_FOUND or name not in not_found)
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
        elif not is_missing or text.startswith("prefer: "):  # not about an operator
            problems.append(text)
    elif found.refusal is not None and not any(one.problem for one in findings):
        problems.append(found.refusal[1])
    is_told = found.failure is not None and not is_missing and error is None
    if found.failure is not None and is_told:
        kind, text = found.failure
        is_broken = kind == "ModelError" and any(one in text for one in _BROKEN)
        if is_broken or not judge.blame(kind, text, findings):
            if kind == "ModelError" and not any(one in text for one in _MISSING_PARTS):
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
        else versions(survey, {*found.declared, *found.run_by_packs, *found.rescued}, found),
        operators=findings,
        problems=problems,
        hints=judge.hints(),
        trial=_trial(
            found,
            is_installed,
            "" if not is_told else "error" if error else "problems" if problems else "operators",
        ),
        holds_where=list(survey.holds_where),
        differs=list(survey.differs),
        state=list(survey.state),
        installed=installed(),
        rescues=found.rescues,
    )


def _as_loaded(findings: list[Finding]) -> list[Finding]:
    """Clears all problems: if a session could be made, nothing is missing."""
    for one in findings:
        one.problem = one.remedy = one.stub = None
        one.permissions = []
    return [one for one in findings if one.run_by != "ONNX Runtime"]


def _trial(found: Examination, is_installed: bool, told: str) -> Trial:
    """`told` is the field of the report that has the reason of a refusal, or ""."""
    if found.is_loaded:
        return Trial(True, True, "ONNX Runtime opens the model")
    if found.failure is not None:
        if told:
            return Trial(True, False, f"{_REFUSED}under '{told}'", f"{_REFUSED}below")
        return Trial(True, False, found.failure[1])
    if not is_installed:
        return Trial(False, None, "not tried: this ONNX Runtime is not the installed one")
    return Trial(False, None, "not tried, because something is missing")


def _version(operator: _survey.Operator, survey: _survey.Survey) -> int:
    """Returns the version of the operator's opset in the prepared model."""
    for entry in survey.imports:
        if entry.domain == operator.domain and entry.limit:
            return min(operator.version or entry.version, entry.limit)
    return operator.version or 1


def render(diagnosis: Diagnosis) -> str:
    """Formats the report for people, as plain text."""
    return plain(blocks(diagnosis))


_STYLES = {OK: GOOD, MISSING: DOUBTFUL, BAD: WRONG}


def blocks(diagnosis: Diagnosis) -> list[Block]:
    """Returns the report for people."""
    what = f"{diagnosis.model}, for ONNX Runtime {diagnosis.runtime}: {headline(diagnosis)}"
    gap = Line("")
    shown: list[Block] = [Line(harmless_line(what), style=_STYLES[diagnosis.status]), gap]
    if diagnosis.installed:
        others = {"opgraft": "Opgraft", "python": "Python", "numpy": "NumPy"}
        named = [f"{others.get(one, one)} {text}" for one, text in diagnosis.installed.items()]
        shown.append(Line(f"with {', '.join(named)}", style=QUIET))
    shown += [Line(version_line(version)) for version in diagnosis.versions]
    session = diagnosis.trial.shown or diagnosis.trial.text
    shown.append(Line(f"session: {session.partition(chr(10))[0]}"))
    if diagnosis.error:
        shown += [gap, Line(f"ModelError: {diagnosis.error}", style=WRONG, label="ModelError:")]
    if diagnosis.holds_where:
        is_by_data = any("holds where" in one for one in diagnosis.holds_where)
        said = ("specialised: ", "data") if is_by_data else ("", "sizes")
        head = f"{said[0]}exported with an example, and only correct for such {said[1]}:"
        shown += [gap, Line(head, style=STRONG), *_listed(diagnosis.holds_where)]
    if diagnosis.differs:
        head = "differences from the original model, found by its export:"
        shown += [gap, Line(head, style=STRONG), *_listed(diagnosis.differs)]
    if diagnosis.state:
        head = "state that the original model changes, but this model does not keep:"
        shown += [gap, Line(head, style=STRONG), *_listed(diagnosis.state)]
    if diagnosis.operators:
        shown += [gap, _table(diagnosis)]
    if diagnosis.rescues:
        head = (
            "nodes that ONNX Runtime cannot run as they are, and what Opgraft puts in their place:"
        )
        shown += [gap, Line(head, style=STRONG), *_listed(_rescued(diagnosis.rescues))]
    if diagnosis.steps:
        shown += [gap, steps_table(diagnosis.steps)]
        shown += [Line(harmless_line(one)) for one in reasons(diagnosis.steps)]
    for problem in diagnosis.problems:
        shown += [gap, Line(problem, style=DOUBTFUL)]
    for findings in _alike(diagnosis.operators):
        shown += [gap, *_details(findings)]
    asking = [one for one in diagnosis.operators if one.permissions and not one.is_doubtful]
    permissions = sorted({name for one in asking for name in one.permissions})
    if len(permissions) > 1 and len(asking) > 1:
        shown += [gap, Line(f"in one line: {allowing(permissions)}", label="in one line:")]
    if permissions:
        shown += [gap, Line(_MEANING)]
    if diagnosis.ship:
        shown += [gap, *shipment_blocks(diagnosis.ship)]
        shown.append(Line("opgraft bundle MODEL FOLDER gathers these files", style=QUIET))
    for hint in diagnosis.hints:
        shown += [gap, Line(hint)]
    return shown


def _rescued(rescues: Sequence[dict[str, str]]) -> list[str]:
    """Returns a line for each kind of rescue of each operator."""
    kinds: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for one in rescues:
        kinds.setdefault((one["operator"], one["rung"], one["native_from"]), []).append(one)
    lines = []
    for (operator, rung, native_from), ones in kinds.items():
        name = ones[0]["node"]
        more = f" and {len(ones) - 1} more" if len(ones) > 1 else ""
        costs = [one["cost"] for one in ones]
        cost = costs[0] if len(set(costs)) == 1 else " or ".join(sorted(set(costs)))
        until = f"; not needed with {native_from}" if native_from else ""
        each = " each" if len(ones) > 1 else ""
        lines.append(
            harmless_line(f"{operator} (node '{name}'{more}): {rung}, {cost}{each}{until}")
        )
    return lines


def _listed(texts: Sequence[str]) -> list[Block]:
    return [Line(one, indent=2) for one in texts]


def headline(diagnosis: Diagnosis) -> str:
    if diagnosis.status == OK:
        return "nothing is missing"
    if diagnosis.status == BAD:
        return "the model is bad"
    missing = [one for one in diagnosis.operators if not one.is_refused]
    refused = len(diagnosis.operators) - len(missing)
    others = [one for one in _alike(missing) if not one[0].permissions]
    permissions = {name for one in missing for name in one.permissions}
    count = len(permissions) + len(others) + len(diagnosis.problems)
    parts = [f"{count} {'thing is' if count == 1 else 'things are'} missing"] * (count > 0)
    parts += [f"{refused} {'operator is' if refused == 1 else 'operators are'} refused"] * (
        refused > 0
    )
    headline = ", ".join(parts)
    doubtful = [one.operator for one in diagnosis.operators if one.is_doubtful]
    more = f" and {len(doubtful) - 3} more" if len(doubtful) > 3 else ""
    warning = f". WARNING: it asks for {', '.join(doubtful[:3])}{more}"
    return headline + (warning if doubtful else "")


def version_line(version: Version) -> str:
    what = "IR version" if version.domain is None else f"opset {version.domain or 'ai.onnx'}"
    line = f"{what} {version.model}: "
    if version.action == "kept":
        return line + "kept"
    if version.action == "lowered":
        return line + f"lowered to {version.limit} by preparing, which does not change the results"
    changed = ", ".join(version.in_the_way)
    if version.is_unknown:
        return line + f"refused: the newest version that this Opgraft knows is {version.known}"
    if version.action == "converted":
        return (
            line + f"converted to {version.limit} by onnx.version_converter, because of {changed}"
        )
    return line + f"too new, at most {version.limit} is supported; because of {changed}"


def _table(diagnosis: Diagnosis) -> Table:
    # Whether an operator that was found can be made, only a session shows.
    fine = "ok" if diagnosis.status == OK else "found"
    rows = [
        (one.operator, str(one.count), one.run_by, one.module or "-", _state(one, fine))
        for one in diagnosis.operators
    ]
    styles = [
        WRONG if one.is_doubtful else DOUBTFUL if one.problem else GOOD
        for one in diagnosis.operators
    ]
    return Table(("operator", "nodes", "run by", "module", "state"), rows, styles)


def _state(finding: Finding, fine: str) -> str:
    """Returns the state in a few words. A longer problem is shown below the table, in full."""
    if finding.problem is None:
        return fine
    if finding.is_refused:
        return "WARNING: refused, see below"
    first = finding.problem.splitlines()[0]
    if len(first) <= _LONGEST_STATE:
        return first
    return "not allowed, see below" if finding.permissions else "see below"


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Returns the findings with a problem; those that all lack libtorch are grouped."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, one in enumerate(findings):
        if one.problem:
            is_shared = one.run_by == "libtorch" and not one.permissions
            groups.setdefault((one.problem, one.remedy) if is_shared else (number,), []).append(one)
    return list(groups.values())


def _details(findings: Sequence[Finding]) -> list[Block]:
    """Describes the problem that one or several findings have."""
    finding = findings[0]
    shown = [
        f"'{node['name']}'" + (f" ({node['place']})" if node["place"] else "")
        for one in findings
        for node in one.problem_nodes or one.nodes
    ][:_MOST_NODES]
    count = sum(len(one.problem_nodes) or one.count for one in findings)
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    problem = "\n  ".join((finding.problem or "").splitlines())
    names = ", ".join(one.operator for one in findings)
    label = f"{names}:"
    nodes = f"{'node' if count == 1 else 'nodes'} {', '.join(shown)}{more}"
    style = WRONG if finding.is_doubtful else STRONG
    lines: list[Block] = [
        Line(f"{label} {problem}", style=style, label=label),
        Line(harmless_line(nodes), indent=2),
    ]
    if finding.remedy:
        lines.append(Line(f"Fix: {finding.remedy}", indent=2, style=GOOD, label="Fix:"))
    if finding.stub is not None:
        lines += [Line(f"{finding.stub.file}:", indent=2), Line("")]
        lines.append(Code("\n".join(finding.stub.text.splitlines()), indent=4))
    return lines
