"""The steps of an estimator in a model: native or Python, and why, as its conversion wrote them."""

from __future__ import annotations

import contextlib
import json
import mmap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opgraft._run._wire import metadata_in
from opgraft._terminal._document import Table, report_table

#: The metadata key of the steps, as a JSON list of objects with the fields of Step.
STEPS = "opgraft.sklearn.steps"
NATIVE, PYTHON = "native", "python"


@dataclass(frozen=True)
class Step:
    """A step of an estimator, and what it became."""

    #: As in scikit-learn's parameters, "columns__numbers__scaler"; "" for the estimator itself.
    name: str
    estimator: str  #: its type, "module.Class"
    kind: str  #: "native" or "python"
    because: str = ""  #: why it is not native
    advice: str = ""  #: what would make it native

    @property
    def title(self) -> str:
        return self.name or self.estimator.rpartition(".")[2]


def as_text(steps: Sequence[Step]) -> str:
    """The text for the model's metadata."""
    return json.dumps([asdict(one) for one in steps])


def steps_in(path: str) -> list[Step]:
    """Reads the steps of a model. Without that metadata, only its Python nodes are known."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return steps_of_bytes(mapped)


def steps_of_bytes(model: Any) -> list[Step]:
    """Like `steps_in`, for the bytes of a model."""
    from opgraft import _pyop

    held = []
    with contextlib.suppress(Exception):  # a session reports what is damaged
        held = [arguments for _, _, arguments in _pyop.held(model)]
    told: list[Step] = []
    with contextlib.suppress(Exception):  # a model's metadata is anyone's text
        listed = json.loads(metadata_in(model, STEPS) or "[]")
        told = [
            Step(**{field: str(one.get(field, "")) for field in Step.__dataclass_fields__})
            for one in listed
        ]
    # The nodes are what runs: metadata that does not name them is not believed.
    python = sorted(str(one.get("title", "")) for one in held)
    if told and sorted({one.estimator for one in told if one.kind == PYTHON}) == sorted({*python}):
        return told
    return [
        Step("", str(one.get("title", "")), PYTHON, str(one.get("because", ""))) for one in held
    ]


def steps_table(steps: Sequence[Step]) -> Table:
    rows = [
        [one.title, one.estimator, "Python" if one.kind == PYTHON else "native", one.advice]
        for one in steps
    ]
    return report_table(["step", "estimator", "runs", "native with"], rows)


def reasons(steps: Sequence[Step]) -> list[str]:
    return [f"{one.title}: {one.because}" for one in steps if one.because]
