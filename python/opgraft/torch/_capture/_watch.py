"""Watches torch build graphs during an export: counts operators, and notes unrolled loops.

torch.export runs a Python loop step by step. A loop over tokens becomes one copy of its body per
token, and takes as much longer; torch does not warn.
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

#: Loops of more steps than this are reported.
MOST_STEPS = 256
_INSTEAD = (
    "Fix: write the loop as torch.while_loop, or as torch._higher_order_ops.scan over the axis of "
    "its steps, whose body is captured once; or call the model on chunks with a fixed, smaller "
    "number of steps"
)


class Watch:
    """What torch has done so far, observed each time it adds a node to a graph."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._count = 0
        self._frames: list[_Frame] = []
        #: The loops of the model with many steps, by their lines.
        self._loops: dict[str, int] = {}

    @contextmanager
    def watching(self, limit: float | None) -> Iterator[None]:
        """Watches this thread. Raises an Error when the time limit is reached."""
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
            if limit is None:  # the limit is that of an outer export
                raise
            raise self._late(limit) from None
        finally:
            graph.create_node = before
            self._frames.clear()

    def notes(self) -> list[str]:
        """The notes on unrolled loops."""
        return [
            f"a Python loop was unrolled: {where}, {steps} steps. The model contains each step, "
            f"and is right only for this number of steps. {_INSTEAD}"
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
        """Counts steps: a frame that still runs, and has jumped back, has begun another step."""
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
                f" It was at step {loop.steps} of a Python loop, {loop.where}, which torch.export "
                f"unrolls: each step is captured separately. {_INSTEAD}; or give it more time."
            )
        return Error(
            f"the export has reached its time limit of {limit:g} s in the step '{self._bar.now}', "
            f"with {self._count} operators done.{where} To give it more time: time_limit=..., in "
            "seconds, or None for no limit"
        )


class _Frame:
    """A running call of one of the model's functions."""

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
