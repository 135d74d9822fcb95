"""A progress bar on a terminal, while an export works."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_WIDTH = 24
#: How much of the time each step takes, roughly.
STEPS = {"capture": 35, "translate": 35, "optimise": 10, "verify": 20}
_PAUSE = 0.1  # seconds between two drawings


class Progress:
    """Draws on stderr, and only where that is a terminal."""

    def __init__(self, name: str, *, is_shown: bool | None = None) -> None:
        self._name = name
        self._is_shown = sys.stderr.isatty() if is_shown is None else is_shown
        self._step = ""
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_shown and self._step:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self, name: str) -> None:
        self._step = name
        self._draw(0.0)

    def share(self, share: float) -> None:
        """How much of the step is done."""
        if time.monotonic() - self._drawn >= _PAUSE:
            self._draw(share)

    def done(self, share: float) -> float:
        """How much of all is done, where this much of the step is."""
        names = list(STEPS)
        before = sum(STEPS[name] for name in names[: names.index(self._step)])
        return (before + share * STEPS[self._step]) / sum(STEPS.values())

    def _draw(self, share: float) -> None:
        if not self._is_shown:
            return
        self._drawn = time.monotonic()
        part = self.done(share)
        bar = "#" * round(part * _WIDTH)
        sys.stderr.write(f"\r\x1b[K{self._name} [{bar:<{_WIDTH}}] {part:4.0%} {self._step}")
        sys.stderr.flush()
