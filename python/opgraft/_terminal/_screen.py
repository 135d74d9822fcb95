"""Shows documents: as plain text in pipes and files, wrapped at words and coloured on terminals."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from opgraft._terminal._document import (
    GAP,
    QUIET,
    STRONG,
    WRONG,
    Block,
    Code,
    Line,
    Table,
    harmless,
    harmless_line,
    plain,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_NARROWEST = 20


def show(blocks: Iterable[Block], stream: TextIO | None = None) -> None:
    """Prints a document, by default to stdout."""
    stream = stream or sys.stdout
    blocks = list(blocks)
    if is_terminal(stream):
        _draw(blocks, console_for(stream, width_of(stream)))
    else:
        print(plain(blocks), file=stream)


def complain(text: str, kind: str = "") -> None:
    """Prints a message of the command to stderr."""
    label = f"opgraft: {kind}:" if kind else "opgraft:"
    show([Line(f"{label} {text}", style=WRONG if kind else STRONG, label=label)], sys.stderr)


def fitted(blocks: Iterable[Block]) -> str:
    """Returns the text, wrapped to the width of stdout if that is a terminal; without colours,
    since nobody knows where the text goes."""
    blocks = list(blocks)
    text = plain(blocks)
    if not is_terminal(sys.stdout):
        return text
    width = width_of(sys.stdout)
    if all(len(line) <= width for line in text.split("\n")) and text.isascii():
        return text
    written = io.StringIO()
    _draw(blocks, console_for(written, width))
    return written.getvalue().removesuffix("\n")


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def width_of(stream: TextIO) -> int:
    """Returns the width of a terminal. COLUMNS has precedence, as in other programs."""
    try:
        width = int(os.environ.get("COLUMNS", "")) or 0
    except ValueError:
        width = 0
    if width <= 0:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
    return max(width or 80, _NARROWEST)


def console_for(stream: TextIO, width: int) -> Console:
    """Returns rich's console for a stream. It prints texts as they are: no markup, no emoji."""
    from rich.console import Console

    is_shown = is_terminal(stream)
    is_coloured = is_shown and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        width=width,
        force_terminal=is_shown,
        force_interactive=is_shown,
        force_jupyter=False,
        color_system="auto" if is_coloured else None,
        no_color=not is_coloured,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
    )


def _draw(blocks: Sequence[Block], console: Console) -> None:
    for block in blocks:
        if isinstance(block, Code):
            for line in harmless(block.text).split("\n"):
                indented = " " * block.indent + line if line else line
                console.print(indented, soft_wrap=True)
        elif isinstance(block, Table):
            _draw_table(block, console)
        else:
            _draw_line(block, console)


def _draw_line(block: Line, console: Console) -> None:
    for number, line in enumerate(harmless(block.text).split("\n")):
        stripped = line.lstrip(" ")
        # The rest of a wrapped line is indented to the start of its text, as far as there is room.
        indent = min(block.indent + len(line) - len(stripped), console.width // 2)
        style = block.style if number == 0 or not block.label else ""
        text = _text(stripped, "" if block.label else style)
        if block.label and number == 0:
            text.stylize(style, 0, len(block.label))
        _put(text, indent, console)


def _text(text: str, style: str = "", justify: Any = "left") -> Text:
    from rich.text import Text

    return Text(text, style=style, overflow="fold", justify=justify, end="")


def _put(text: Text, indent: int, console: Console) -> None:
    lines = text.wrap(console, console.width - indent, overflow="fold") if text.plain else [text]
    for line in lines:
        line.rstrip()
        console.print(" " * indent, line, sep="", end="\n", no_wrap=True, crop=False)


def _draw_table(table: Table, console: Console) -> None:
    rows = [[*map(harmless_line, row)] for row in (table.head, *table.rows)]
    widths = _widths(rows, console.width)
    if widths is None:
        _draw_records(table, console)
        return
    from rich.table import Table as Grid

    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=False)
    for name, width in zip(table.head, widths, strict=True):
        grid.add_column(
            width=width, overflow="fold", justify="right" if name in table.right else "left"
        )
    grid.add_row(*(_text(cell, STRONG, None) for cell in rows[0]))
    if table.is_ruled:
        grid.add_row(*(_text("-" * width, QUIET) for width in widths))
    for number, row in enumerate(rows[1:]):
        style = table.styles[number] if table.styles else ""
        grid.add_row(*(_text(cell, "", None) for cell in row[:-1]), _text(row[-1], style))
    console.print(grid)


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Returns the widths of the columns, none less than its longest word; None if that is too wide.

    The widest column gives way first.
    """
    from rich.cells import cell_len

    columns = list(zip(*rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        max((cell_len(word) for cell in column for word in cell.split(" ")), default=0)
        for column in columns
    ]
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [now if now > minimum else -1 for now, minimum in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def _draw_records(table: Table, console: Console) -> None:
    """Shows each row as its first cell, and the others with their names below it."""
    for number, row in enumerate(table.rows):
        _put(_text(harmless_line(row[0]), STRONG), 0, console)
        for place, (name, cell) in enumerate(zip(table.head, row, strict=True)):
            if place == 0 or not cell:
                continue
            is_last = place == len(row) - 1
            text = _text(f"{name}: {harmless_line(cell)}")
            if is_last and table.styles:
                text.stylize(table.styles[number], len(name) + 2)
            _put(text, 2, console)
