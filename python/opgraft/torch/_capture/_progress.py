"""The progress of an export: a bar on a terminal, or a line now and then; and the time limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from opgraft._base._log import tell
from opgraft._terminal._bar import Bar
from opgraft._terminal._screen import is_terminal

#: The approximate share of the time that each step takes.
STEPS = {"capture": 35, "translate": 35, "optimise": 10, "verify": 20}
_PAUSE = 0.1  # seconds between two updates of the bar
_SILENCE = 60.0  # seconds between two lines, if no bar is drawn
#: The bar is half full at this many operators, since the total number is unknown.
_HALF = 1000


class Late(BaseException):
    """The time limit is reached. Not an Exception, since torch would catch that and try something
    else."""


class Progress:
    """Draws a bar on stderr if that is a terminal; otherwise writes a line every minute. With
    `is_shown` false, does neither. `limit` is in seconds."""

    def __init__(
        self, name: str, *, is_shown: bool | None = None, limit: float | None = None
    ) -> None:
        self._name = name
        self._stream = sys.stderr  # sys.stderr is replaced later, to hold back torch's output
        self._is_shown = is_shown is not False and is_terminal(self._stream)
        self._is_silent = is_shown is False
        self._limit = limit
        self._begin = self._looked = self._spoke = time.monotonic()
        self._step = ""
        self._drawn = 0.0
        self._bar = Bar(name, self._stream)

    def __enter__(self) -> Progress:
        if self._is_shown:
            self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, traceback)

    @property
    def now(self) -> str:
        """The current step."""
        return self._step

    def step(self, name: str) -> None:
        self._step = name
        tell("export", "%s: %s", self._name, name)
        self._check()
        self._draw(0.0)

    def share(self, share: float) -> None:
        """Reports how much of the step is done."""
        self._check()
        if time.monotonic() - self._drawn >= _PAUSE:
            self._draw(share)

    def work(self, count: int, describe: Callable[[], str]) -> None:
        """Reports how many operators are done; the total is unknown. It is called for each
        operator, so most calls do nothing."""
        now = time.monotonic()
        if now - self._looked < _PAUSE:
            return
        self._looked = now
        self._check()
        if self._is_shown:
            self._draw(count / (count + _HALF), describe())
        elif not self._is_silent and now - self._spoke >= _SILENCE:
            self._spoke = now
            self._stream.write(
                f"opgraft.torch.export: {self._name}: {self._step}, {now - self._begin:.0f} s so "
                f"far, {describe()}\n"
            )
            self._stream.flush()

    def done(self, share: float) -> float:
        """How much of the export is done, given how much of the step is."""
        names = list(STEPS)
        before = sum(STEPS[name] for name in names[: names.index(self._step)])
        return (before + share * STEPS[self._step]) / sum(STEPS.values())

    def _check(self) -> None:
        if self._limit is not None and time.monotonic() - self._begin > self._limit:
            raise Late

    def _draw(self, share: float, more: str = "") -> None:
        if not self._is_shown:
            return
        self._drawn = time.monotonic()
        self._bar.update(self.done(share), self._step, more)
