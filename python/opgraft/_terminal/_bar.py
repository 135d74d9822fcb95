"""A bar for long work on a terminal: the step, the share that is done, time gone, time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from opgraft._terminal._document import GOOD, QUIET, harmless_line
from opgraft._terminal._screen import console_for, is_terminal, width_of

if TYPE_CHECKING:
    from rich.progress import Progress

_WIDEST = 24
#: An estimate needs some time and some share of the work.
_SOONEST, _LEAST = 2.0, 0.05


class Bar:
    """Draws one line inside the `with` block, and removes it at the end. Does nothing on a stream
    that is not a terminal. A thread updates the time during long steps."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name, self._stream = harmless_line(name), stream
        self._begin = time.monotonic()
        self._drawn: Progress | None = None
        self._task: Any = None
        self._share = 0.0

    def __enter__(self) -> Bar:
        if not is_terminal(self._stream):
            return self
        from rich.cells import cell_len
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.table import Column

        width = width_of(self._stream)
        bar = self

        class Told(ProgressColumn):
            """The text beside the bar, cut to the width of the terminal."""

            def render(self, task: Any) -> Any:
                from rich.text import Text

                said = f"{bar._share:4.0%} {task.fields['step']} {bar._times()}"
                more = f", {task.fields['more']}" if task.fields["more"] else ""
                text = Text(said + more, no_wrap=True, overflow="ellipsis", end="")
                text.stylize(QUIET, len(said))
                return text

        console = console_for(self._stream, width - 1)
        room = max(6, min(_WIDEST, width // 5))
        longest = min(cell_len(self._name), max(8, width // 4))
        rest = console.width - longest - room - 2  # rich puts a space between columns
        name = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", width=longest),
        )
        told = Told(table_column=Column(no_wrap=True, overflow="ellipsis", max_width=rest))
        self._drawn = Progress(
            name,
            BarColumn(bar_width=room, complete_style=GOOD, table_column=Column(width=room)),
            told,
            console=console,
            transient=True,
            refresh_per_second=4,
            # The output of the program itself does not go through rich.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._drawn.add_task(self._name, total=1.0, step="", more="")
        self._drawn.start()
        console.show_cursor(True)  # a crash would leave it hidden
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = None

    def update(self, share: float, step: str, more: str = "") -> None:
        """Draws the share that is done, from 0 to 1, and the current step."""
        self._share = share
        if self._drawn is not None:
            step, more = harmless_line(step), harmless_line(more)
            self._drawn.update(self._task, completed=share, step=step, more=more, refresh=True)

    def _times(self) -> str:
        gone = time.monotonic() - self._begin
        left = remaining(gone, self._share)
        return clock(gone) if left is None else f"{clock(gone)}, about {clock(left)} left"


def remaining(gone: float, share: float) -> float | None:
    """Returns the seconds that the rest takes if it goes on like this; None if it is too early."""
    if gone < _SOONEST or share < _LEAST:
        return None
    return gone * (1 - share) / share


def clock(seconds: float) -> str:
    """Returns a time such as 0:07 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
