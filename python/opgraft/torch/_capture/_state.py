"""State: what a model writes in a call, and whether its results depend on what it wrote before.

An ONNX model keeps nothing from call to call. What a model only writes is lost, with a warning. If
results depend on it, the ONNX model is right only for the first call. `_state_search.py` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opgraft._base._errors import ModelError
from opgraft._doctor._survey import STATE_PREFIX
from opgraft.torch._capture._draws import Draw
from opgraft.torch._capture._guards import HOLDS_WHERE, Guard, Line
from opgraft.torch._graphs._warning import warn

_KEEPS = "keeps state from call to call"
_DRAWS = "draws random numbers outside of torch"


@dataclass(frozen=True)
class Written:
    """What a call of the model writes to."""

    kind: str  # "buffer", "parameter", "attribute", "class attribute" or "argument"
    name: str
    line: Line = field(default_factory=Line)
    #: Whether results of later calls depend on it.
    is_used: bool = False

    def describe(self, line: str) -> str:
        where = f" ({line})" if line else ""
        if self.kind == "argument":
            return (
                f"the model writes to its argument `{self.name}`{where}; the ONNX model does not "
                "change its input. Fix: return it as an output"
            )
        fix = "take it as an input, and return it as an output" if self.is_used else ""
        return (
            f"the model writes {self.kind} `{self.name}` in forward{where}; the ONNX model does "
            f"not keep it. Fix: {fix or 'return it as an output, or remove it'}"
        )

    def __str__(self) -> str:
        return self.describe(str(self.line))

    @property
    def guard(self) -> Guard:
        condition = f"{self.kind} `{self.name}` is what it was at the export"
        advice = f"take `{self.name}` as an input of the model, and return it as an output"
        return Guard(self.line, condition, advice)


@dataclass
class State:
    written: list[Written] = field(default_factory=list)
    #: Random numbers that the model draws outside of torch.
    draws: list[Draw] = field(default_factory=list)
    #: The error of a second call of the model, as a text.
    second: str = ""
    #: Notes on what was not watched.
    unwatched: list[str] = field(default_factory=list)
    #: The error of the first call; nothing else is then known.
    failure: Exception | None = None

    @property
    def guards(self) -> list[Guard]:
        """What a graph assumes about the model's state."""
        used = [one.guard for one in self.written if one.is_used]
        return [*(one.guard for one in self.draws), *used]

    @property
    def notes(self) -> list[str]:
        return [*map(str, self.written)]

    @property
    def lines(self) -> list[str]:
        """The lines for the model's metadata, without paths of this machine."""
        return [STATE_PREFIX + one.describe(one.line.short) for one in self.written]

    def tell(self, program: Any) -> None:
        """Reports the state in a warning, in the program's report, and in its metadata."""
        program.report.notes += self.unwatched
        if self.written:
            warn("; ".join(self.notes))
            program.report.state = self.notes
            known = program.model.metadata_props.get(HOLDS_WHERE, "").splitlines()
            program.model.metadata_props[HOLDS_WHERE] = "\n".join([*known, *self.lines])

    def refuse(self, name: str) -> None:
        """Raises a ModelError if the results of later calls would be wrong."""
        if self.draws:
            raise ModelError(
                f"{name} {_DRAWS}: a graph would have the numbers drawn at the export as "
                "constants, and use them in every call.\n"
                + "\n".join(map(_shown, (one.guard for one in self.draws)))
                + "\nTo export the model with these numbers anyway: specialise=True"
            )
        used = [one for one in self.written if one.is_used]
        if not used:
            return
        depends = f"its second call raises {self.second}" if self.second else ""
        shown = [
            f"  {f'{one.line}: ' if str(one.line) else ''}{one.kind} `{one.name}`\n"
            f"    Fix: {one.guard.advice}"
            for one in used
        ]
        raise ModelError(
            f"{name} {_KEEPS}, and {depends or 'its results depend on it'}. An ONNX model keeps no "
            "state: it would be right for the first call, and silently wrong for later ones.\n"
            + "\n".join(shown)
            + "\nTo export what the first call does anyway: specialise=True"
        )


def _shown(guard: Guard) -> str:
    return f"  {guard}\n    Fix: {guard.advice}"


def is_refusal(error: Exception) -> bool:
    return isinstance(error, ModelError) and (_KEEPS in str(error) or _DRAWS in str(error))
