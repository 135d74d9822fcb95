"""Random numbers that a model draws outside of torch: in a graph they are constants."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from opgraft.torch._capture._guards import Guard, Line
from opgraft.torch._capture._watch import is_of_the_model
from opgraft.torch._graphs._random import SOURCES

_ADVICE = (
    "draw them with torch (torch.rand, torch.randint, torch.randperm), which becomes random "
    "operators of ONNX, or take them as an argument"
)


@dataclass(frozen=True)
class Draw:
    """A line that draws random numbers from a source outside of torch."""

    source: str  # such as "Python's `random`"
    line: Line = field(default_factory=Line)

    @property
    def guard(self) -> Guard:
        condition = f"the numbers drawn from {self.source} are those drawn at the export"
        return Guard(self.line, condition, _ADVICE)

    @property
    def note(self) -> str:
        """The note for a draw that no result depends on, as far as was seen."""
        where = f" ({self.line})" if str(self.line) else ""
        return (
            f"the model draws from {self.source}{where}; its results did not depend on the numbers"
        )


@contextmanager
def drawing(found: list[str]) -> Iterator[None]:
    """Adds the names of the sources that were drawn from to `found`."""
    before = {source: state() for source, state in SOURCES.items()}
    yield
    found += [source for source, state in SOURCES.items() if state() != before[source]]


def lines_of(sources: list[str], call: Callable[[], Any]) -> list[Draw]:
    """The lines of the model that draw from these sources. Checks the sources after each line,
    which is slow. If a library draws, the line that called it counts."""
    found: dict[Draw, None] = {}
    states = {source: SOURCES[source]() for source in sources}
    last: dict[FrameType, int] = {}

    def see(frame: FrameType) -> None:
        for source in sources:
            state = SOURCES[source]()
            if state != states[source]:
                states[source] = state
                file, number = frame.f_code.co_filename, last.get(frame, frame.f_lineno)
                code = linecache.getline(file, number).strip()
                found[Draw(source, Line(file, number, code))] = None

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and not is_of_the_model(frame.f_code.co_filename):
            return None
        if event in ("line", "return", "exception"):
            see(frame)
            last[frame] = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Exception:
        pass  # what was seen until then is enough
    finally:
        sys.settrace(before)
    told = list(found)
    return told + [Draw(one) for one in sources if one not in {each.source for each in told}]
