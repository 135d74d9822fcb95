"""Watches an export while torch builds graphs: how many operators, and which loop it unrolls.

torch.export runs a loop of Python's step by step. A loop over tokens becomes as many copies of its
body, and takes as much longer; nothing in torch says so.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from opgraft._base._errors import Error
from opgraft._base._library import PACKAGE
from opgraft.torch._capture._progress import Late, Progress

#: A loop of more steps is said to be one.
MOST_STEPS = 256
_INSTEAD = (
    "Fix: write the loop as torch.while_loop, or as torch._higher_order_ops.scan over the axis of "
    "its steps, whose body is captured once; or call the model on pieces of a fixed, smaller "
    "number of steps"
)


class Watch:
    """What torch has done so far, seen from where it adds a node to a graph."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._count = 0
        self._frames: list[_Frame] = []
        #: The loops of the model with many steps, by their lines.
        self._loops: dict[str, int] = {}

    @contextmanager
    def watching(self, limit: float | None) -> Iterator[None]:
        """Sees what this thread does; an Error where the limit of time is reached."""
        graph: Any = torch.fx.Graph
        before, owner = graph.create_node, threading.get_ident()

        def create_node(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == owner:
                self._see(sys._getframe(1))
            return before(*args, **kwargs)

        graph.create_node = create_node
        try:
            yield
        except Late:
            if limit is None:  # an export around this one has a limit
                raise
            raise self._late(limit) from None
        finally:
            graph.create_node = before
            self._frames.clear()

    def notes(self) -> list[str]:
        """What to say of the loops that were unrolled."""
        return [
            f"a loop of Python's was unrolled: {where}, {steps} steps, each of which is in the "
            f"model; it holds for as many steps alone. {_INSTEAD}"
            for where, steps in self._loops.items()
        ]

    def _see(self, frame: FrameType) -> None:
        if self._bar.now != "capture":
            self._frames.clear()
        else:
            self._follow(_of_the_model(frame))
        self._count += 1
        self._bar.work(self._count, self._describe)

    def _follow(self, frames: list[FrameType]) -> None:
        """A frame that is still there, and further up than it was, has begun another step."""
        known = self._frames
        same = 0
        while same < min(len(known), len(frames)) and known[same].frame is frames[same]:
            known[same].proceed()
            if known[same].steps > MOST_STEPS:
                self._loops[known[same].where] = known[same].steps
            same += 1
        known[same:] = map(_Frame, frames[same:])

    def _describe(self) -> str:
        loop = max(self._frames, key=lambda one: one.steps, default=None)
        found = "" if loop is None or loop.steps < 2 else f", step {loop.steps} of {loop.where}"
        return f"{self._count} operators{found}"

    def _late(self, limit: float) -> Error:
        loop = max(self._frames, key=lambda one: one.steps, default=None)
        where = ""
        if loop is not None and loop.steps > 1:
            where = (
                f" It was at step {loop.steps} of a loop of Python's, {loop.where}, which "
                f"torch.export unrolls: each step is captured by itself. {_INSTEAD}; or give it "
                "more time."
            )
        return Error(
            f"the export has reached its limit of {limit:g} s in the step '{self._bar.now}', with "
            f"{self._count} operators done.{where} To give it more: time_limit=..., in seconds; "
            "None: no limit"
        )


class _Frame:
    """A call of a function of the model's that is not over."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.steps = 1
        self.where = ""  #: the line that its last step began with
        self._place = frame.f_lasti

    def proceed(self) -> None:
        place = self.frame.f_lasti
        if place < self._place:
            self.steps += 1
            code = self.frame.f_code
            self.where = f"{code.co_filename}, line {self.frame.f_lineno}, in {code.co_name}"
        self._place = place


def _of_the_model(frame: FrameType | None) -> list[FrameType]:
    """The frames that are neither torch's nor ours nor Python's own, the outermost first."""
    found = []
    while frame is not None:
        if is_of_the_model(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


@functools.lru_cache(maxsize=4096)
def is_of_the_model(file: str) -> bool:
    """Whether a file of source is neither torch's nor ours nor Python's own."""
    return not file.startswith(_OTHERS) or (
        "site-packages" in file and not file.startswith(_PACKAGES)
    )


_PACKAGES = (str(Path(torch.__file__).parent), str(PACKAGE))
_OTHERS = (*_PACKAGES, sysconfig.get_paths()["stdlib"], "<")
