"""The report of `opgraft doctor`: findings, versions, and their JSON form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opgraft._doctor._examination import Examination
from opgraft._doctor._shipment import Part, as_dicts
from opgraft._doctor._steps import Step
from opgraft._doctor._stubs import Stub
from opgraft._doctor._survey import Operator, Survey
from opgraft._doctor._vouching import Doubt

OK, MISSING, BAD = "ok", "missing", "bad"


@dataclass
class Finding:
    """An operator that is not the runtime's own, or that the installed runtime lacks."""

    operator: str
    run_by: str
    count: int
    nodes: list[dict[str, str]]
    module: str | None = None
    #: Whether the host allows the module; None if no module is needed or known.
    allowed: bool | None = None
    #: The module's file, or "" if it is not found; None if no module is needed or known.
    file: str | None = None
    #: The pack that runs it, if any.
    pack: str | None = None
    #: What is missing; None if nothing is.
    problem: str | None = None
    #: The nodes that have the problem, if known; empty means all of `nodes`.
    problem_nodes: list[dict[str, str]] = field(default_factory=list)
    #: How to fix it, in words or as the line to write.
    remedy: str | None = None
    stub: Stub | None = None
    #: The names that the host must allow.
    permissions: list[str] = field(default_factory=list)
    #: Whether the doctor cannot vouch for one of those names, so that it does not give the line.
    is_doubtful: bool = False

    @classmethod
    def of(cls, operator: Operator, run_by: str) -> Finding:
        nodes = [{"name": name, "place": place} for name, place in operator.nodes]
        return cls(operator.title, run_by, operator.count, nodes)

    def miss(self, problem: str, remedy: str, stub: Stub | None = None) -> Finding:
        self.problem, self.remedy, self.stub = problem, remedy, stub
        return self

    @property
    def is_refused(self) -> bool:
        """Whether it exists but should not be allowed, as opposed to not being found."""
        return self.is_doubtful and (self.problem or "").startswith("WARNING")

    def doubt(self, doubt: Doubt) -> Finding:
        """Records that it must not be allowed merely because the model asks for it."""
        self.is_doubtful = True
        return self.miss(doubt.problem, doubt.remedy)


@dataclass
class Version:
    """The IR version, or the version of an opset, and what preparing does with it."""

    domain: str | None  # None for the IR version
    model: int
    limit: int | None  # the newest that the runtime supports; None if it supports any
    known: int | None  # the newest that Opgraft knows; None if that does not matter
    action: str = "kept"  # or "lowered", "converted", "refused"
    in_the_way: list[str] = field(default_factory=list)

    @property
    def is_unknown(self) -> bool:
        return self.known is not None and self.model > self.known


@dataclass
class Trial:
    """Whether ONNX Runtime can open the prepared model."""

    is_done: bool
    is_loaded: bool | None
    text: str
    #: The text for people, if it differs.
    shown: str = ""


@dataclass
class Diagnosis:
    model: str
    runtime: str
    status: str
    error: str | None  # for a bad model
    versions: list[Version]
    operators: list[Finding]
    #: What else is missing besides operators: a module of --import, a library, a newer runtime.
    problems: list[str]
    #: Suggestions, such as packs that could run an operator.
    hints: list[str]
    trial: Trial
    #: The data that the model is correct for, written by its export; empty if for any.
    holds_where: list[str] = field(default_factory=list)
    #: How its results differ from those of the original model, written by its export.
    differs: list[str] = field(default_factory=list)
    #: The state that the original model changes in a call, and this model does not keep.
    state: list[str] = field(default_factory=list)
    #: The versions of what is installed, by name.
    installed: dict[str, str] = field(default_factory=dict)
    #: The nodes that the runtime cannot run as they are, and what stands in for each.
    rescues: list[dict[str, str]] = field(default_factory=list)
    #: The steps of an estimator of scikit-learn, if its conversion wrote them into the model.
    steps: list[Step] = field(default_factory=list)
    #: What a deployment needs; empty if something is missing.
    ship: list[Part] = field(default_factory=list)
    #: The inputs of the session: name, type and shape; empty if none was made.
    inputs: list[dict[str, Any]] = field(default_factory=list)


def versions(survey: Survey, findings_known: set[str], found: Examination) -> list[Version]:
    """Returns what preparing does about versions that are newer than the runtime's."""
    ir = Version(None, survey.ir_version, survey.ir_limit, survey.ir_known)
    if ir.is_unknown:
        ir.action = "refused"
    elif survey.ir_version > survey.ir_limit:
        ir.action = "lowered"
    result = [ir]
    for entry in survey.imports:
        version = Version(entry.domain, entry.version, entry.limit or None, entry.known or None)
        result.append(version)
        if not entry.limit or entry.version <= entry.limit:
            continue
        version.in_the_way = sorted(
            difference
            for operator in survey.operators
            if operator.domain == entry.domain and operator.full_name not in findings_known
            for difference in operator.differences
        )
        if not version.in_the_way:
            version.action = "lowered"
        else:
            version.action = "converted" if found.prepared is not None else "refused"
    return result


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns the report in the schema of docs/doctor.md."""
    return {
        "schema": 1,
        "model": diagnosis.model,
        "status": diagnosis.status,
        "error": diagnosis.error,
        "runtime": diagnosis.runtime,
        "installed": diagnosis.installed,
        "versions": [vars(one) for one in diagnosis.versions],
        "operators": [
            {**vars(one), "stub": None if one.stub is None else one.stub._asdict()}
            for one in diagnosis.operators
        ],
        "problems": diagnosis.problems,
        "hints": diagnosis.hints,
        "holds_where": diagnosis.holds_where,
        "differs": diagnosis.differs,
        "state": diagnosis.state,
        "rescues": diagnosis.rescues,
        "steps": [vars(one) for one in diagnosis.steps],
        "ship": as_dicts(diagnosis.ship),
        "trial": {
            "done": diagnosis.trial.is_done,
            "loaded": diagnosis.trial.is_loaded,
            "text": diagnosis.trial.text,
        },
    }
