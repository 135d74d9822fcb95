"""Makes the page: one HTML file with everything in it, which loads nothing and runs only our code.

All that comes from a model is data in a JSON block, which the page's script shows as text. A policy
in the page lets the browser run that one script and nothing else, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from opgraft import __version__
from opgraft._base._needed import need
from opgraft._doctor._doctor import headline, version_line
from opgraft._doctor._doctor_report import Diagnosis, Finding
from opgraft._doctor._shipment import shipment_lines
from opgraft._doctor._steps import PYTHON, Step
from opgraft._page._graph import Drawing
from opgraft._page._profile import placed
from opgraft._page._shapes import drop_weights
from opgraft._page._who import KINDS, Runners, kind_of

_SCRIPTS = ("layout.js", "scene.js", "panel.js", "page.js")
_FRAME_HEIGHT = 640


def of_diagnosis(
    diagnosis: Diagnosis, path: str, times: dict[str, Any] | None = None, failure: str = ""
) -> str:
    """Returns the page of `opgraft doctor`; `times` are from _profile.profile."""
    need("opgraft doctor --html", "torch", {"onnx": "onnx"})
    model, unread = _read(path)
    lines = [
        ("Not profiled", [failure]),
        ("Model error", [diagnosis.error or ""]),
        ("Problems", diagnosis.problems),
        ("Only correct where", diagnosis.holds_where),
        ("Differences from the original model", diagnosis.differs),
        ("State that is not kept", diagnosis.state),
        ("Versions", [version_line(one) for one in diagnosis.versions]),
        ("Session", [diagnosis.trial.shown or diagnosis.trial.text]),
        ("Hints", diagnosis.hints),
        ("Steps of scikit-learn", [_step(one) for one in diagnosis.steps]),
        ("To ship", shipment_lines(diagnosis.ship)),
    ]
    return page(
        {
            "title": os.path.basename(diagnosis.model),
            "subtitle": f"for ONNX Runtime {diagnosis.runtime}",
            "status": diagnosis.status,
            "headline": headline(diagnosis),
        },
        lines,
        model,
        unread,
        diagnosis.operators,
        diagnosis.runtime,
        times=times,
    )


def page(
    head: dict[str, str],
    lines: Sequence[tuple[str, Sequence[str]]],
    model: Any,
    unread: str,
    findings: Sequence[Finding],
    runtime: str,
    *,
    times: dict[str, Any] | None = None,
    export: dict[str, Any] | None = None,
) -> str:
    """Returns the HTML text. `model` is a ModelProto, or None with the reason in `unread`.

    `lines` are the titles and texts of the overview; `export` what became of torch's operators.
    """
    data: dict[str, Any] = {
        **head,
        "version": __version__,
        "kinds": [list(one) for one in KINDS],
        "lines": [[title, [one for one in texts if one]] for title, texts in lines if any(texts)],
        "findings": [_finding(one) for one in findings],
        "unread": unread,
        "export": export,
        "graphs": [],
        "operators": [],
        "texts": [],
    }
    if model is not None:
        drop_weights(model)
        drawing = Drawing(model, Runners(findings, runtime, list(model.opset_import)))
        data |= {
            "graphs": drawing.graphs,
            "operators": drawing.operators,
            "texts": drawing.texts,
        }
        if times is not None:
            drawn = times["drawn"]
            kernels = placed(drawn["kernels"], drawing.places, not model.functions)
            data["times"] = {**times, "drawn": {**drawn, "kernels": kernels}}
    return _fill(data)


def framed(page_text: str) -> str:
    """Returns the page for a notebook: in a frame that can reach nothing around it."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page_text)}" title="opgraft report" '
        f'style="width:100%;height:{_FRAME_HEIGHT}px;border:1px solid #8884;border-radius:8px">'
        "</iframe>"
    )


def _read(path: str) -> tuple[Any, str]:
    import onnx

    if path.endswith(".ort"):
        return None, "a model in the runtime's own format is not drawn"
    try:
        return onnx.load_model(path, format="protobuf", load_external_data=False), ""
    except Exception as error:  # whatever onnx and protobuf raise for bytes that are no model
        return None, f"onnx cannot read the model: {error}"


def _step(step: Step) -> str:
    because = f": {step.because}" if step.because else ""
    advice = f". Native with {step.advice}" if step.advice else ""
    runs = "Python" if step.kind == PYTHON else "native"
    return f"{step.title} ({step.estimator}), {runs}{because}{advice}"


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "operator": finding.operator,
        "runBy": finding.run_by,
        "kind": kind_of(finding),
        "count": finding.count,
        "module": finding.module,
        "pack": finding.pack,
        "problem": finding.problem,
        "remedy": finding.remedy,
        "stub": None if finding.stub is None else finding.stub._asdict(),
    }


def _fill(data: dict[str, Any]) -> str:
    template, style, script = _sources()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "TITLE": html.escape(f"{data['title']} – opgraft"),
        "HASH": digest,
        "STYLE": style,
        "DATA": _as_data(data),
        "SCRIPT": script,
    }
    text, *rest = template.split("@@")
    for at in range(0, len(rest), 2):
        text += parts[rest[at]] + rest[at + 1]
    return text


def _as_data(data: dict[str, Any]) -> str:
    """JSON in ASCII that can neither end the HTML block around it nor begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def _sources() -> tuple[str, str, str]:
    """The template, the style and the script."""
    folder = importlib.resources.files("opgraft._page")

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    body = "\n".join(map(read, _SCRIPTS))
    script = f'"use strict";\n(() => {{\n{body}\n}})();\n'
    return read("page.html"), read("page.css"), script
