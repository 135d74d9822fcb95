"""The report of an export as a page: the doctor's, with what torch's operators became."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from opgraft._doctor._here import findings_here
from opgraft._page._page import page
from opgraft._page._shapes import drop_weights
from opgraft._run._prepare import installed_runtime

if TYPE_CHECKING:
    from opgraft.torch._program._report import Report, Row

#: The colour of a rung: that of who runs such nodes.
_TONES = {"pack": "pack", "aten": "libtorch", "python": "python", "operator": "python"}


def report_page(report: Report, model: Any, rung_of: Any) -> str:
    """Returns the HTML text; `model` is the ModelProto, which loses its weights, or None."""
    runtime = installed_runtime()
    findings = []
    if model is not None:
        drop_weights(model)
        allowed = set(report.allow)
        findings = findings_here(model.SerializeToString(), runtime, allowed.__contains__)
    verified = "; ".join(report.verified)
    lines = [
        ("Verified", [verified or "no"]),
        ("Only correct where", report.specialised),
        ("State that is not kept", report.state),
        ("Notes", report.notes),
        ("To run it", report.running()),
        ("To ship", report.shipping()),
        ("Captured", [report.captured]),
    ]
    not_numbers = [
        re.sub(r"^([^\s:]+::[^\s:]+):", r"\1: NaN and infinities become something else:", one)
        for one in report.not_numbers
    ]
    return page(
        {
            "title": "Export",
            "subtitle": f"by opgraft.torch.export, for ONNX Runtime {runtime}",
            "status": "ok" if report.verified else "missing",
            "headline": "verified" if report.verified else "not verified",
        },
        lines,
        model,
        "the report has no model any more" if model is None else "",
        findings,
        runtime,
        export={
            "rows": [_row(one, rung_of(one)) for one in report.rows],
            "differs": [_by_operator(one) for one in [*report.differs, *not_numbers]],
        },
    )


def _row(row: Row, rung: str) -> dict[str, Any]:
    tone = "function" if row.kind == "function" else _TONES.get(row.kind, "runtime")
    return {
        "operator": row.operator,
        "count": row.count,
        "rung": rung,
        "because": row.because,
        "advice": row.advice,
        "tone": tone,
    }


def _by_operator(line: str) -> list[str]:
    """The operator that a line begins with, and the rest."""
    match = re.match(r"(?P<operator>\w+::[\w.]*\w):?\s+(?P<what>.*)", line, re.DOTALL)
    return [match["operator"], match["what"]] if match else ["", line]
