"""What `opgraft doctor` reports: findings, versions, and the form that programs read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opgraft._examination import Examination
from opgraft._stubs import Stub
from opgraft._survey import Operator, Survey
from opgraft._vouching import Doubt

OK, MISSING, BAD = "ok", "missing", "bad"


@dataclass
class Finding:
    """An operator that is not the runtime's own, or that the runtime at hand lacks."""

    operator: str
    run_by: str
    count: int
    nodes: list[dict[str, str]]
    module: str | None = None
    #: Whether the host allows the module; None where no module is needed, or none is known.
    allowed: bool | None = None
    #: The module's file, "" where there is none; None as above.
    file: str | None = None
    #: The pack that runs it, None where none does.
    pack: str | None = None
    #: What is missing; None where all is there.
    problem: str | None = None
    #: Those of `nodes` that it was found at, where that is known; empty: at all of them.
    problem_nodes: list[dict[str, str]] = field(default_factory=list)
    #: What to do about it, in words or as the line to write.
    remedy: str | None = None
    stub: Stub | None = None
    #: The names among what is missing that the host must allow.
    permissions: list[str] = field(default_factory=list)
    #: Whether one of those is nothing that the doctor can vouch for: no line is given for it.
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
        """It is there, and not to be allowed; unlike what is neither allowed nor found."""
        return self.is_doubtful and (self.problem or "").startswith("WARNING")

    def doubt(self, doubt: Doubt) -> Finding:
        """It asks for what must not be allowed only because it asks."""
        self.is_doubtful = True
        return self.miss(doubt.problem, doubt.remedy)


@dataclass
class Version:
    """The IR version, or the version of an opset, and what preparing makes of it."""

    domain: str | None  # None for the IR version
    model: int
    limit: int | None  # the newest that the runtime takes; None where it takes any
    known: int | None  # the newest that Opgraft knows; None where that is no matter
    action: str = "kept"  # or "lowered", "converted", "refused"
    in_the_way: list[str] = field(default_factory=list)

    @property
    def is_unknown(self) -> bool:
        return self.known is not None and self.model > self.known


@dataclass
class Trial:
    """Whether ONNX Runtime makes a session of the prepared model."""

    is_done: bool
    is_loaded: bool | None
    text: str
    #: The text for people, where it differs.
    shown: str = ""


@dataclass
class Diagnosis:
    model: str
    runtime: str
    status: str
    error: str | None  # of a bad model
    versions: list[Version]
    operators: list[Finding]
    #: What is missing beside operators: a module of --import, a library, a newer runtime.
    problems: list[str]
    #: What could be otherwise, though nothing is missing.
    hints: list[str]
    trial: Trial
    #: What data the model is right for, as its export says; empty where for any.
    holds_where: list[str] = field(default_factory=list)
    #: What the model gives otherwise than its source does, as its export says.
    differs: list[str] = field(default_factory=list)
    #: What the model that was exported writes in a call, and this one does not keep.
    state: list[str] = field(default_factory=list)


def versions(survey: Survey, findings_known: set[str], found: Examination) -> list[Version]:
    """What preparing does about versions that are newer than the runtime's."""
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
    """The schema of docs/doctor.md."""
    return {
        "schema": 1,
        "model": diagnosis.model,
        "status": diagnosis.status,
        "error": diagnosis.error,
        "runtime": diagnosis.runtime,
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
        "trial": {
            "done": diagnosis.trial.is_done,
            "loaded": diagnosis.trial.is_loaded,
            "text": diagnosis.trial.text,
        },
    }
