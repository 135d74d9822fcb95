"""A text for people as lines, tables and code: as plain text, or as a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GAP = 2  #: columns of a table are this far apart

GOOD, DOUBTFUL, WRONG, STRONG, QUIET = "green", "yellow", "bold red", "bold", "dim"


@dataclass(frozen=True)
class Line:
    """A line of prose, or several: a terminal wraps it at words."""

    text: str
    indent: int = 0
    style: str = ""
    #: Only this beginning of the text has the style; "" means all of it.
    label: str = ""


@dataclass(frozen=True)
class Code:
    """Lines to be copied: a terminal does not wrap them."""

    text: str
    indent: int = 0


@dataclass(frozen=True)
class Table:
    """A table. Where a terminal is too narrow for it, each row becomes a few lines."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: The style of the last cell of each row.
    styles: Sequence[str] = ()
    #: Columns of numbers.
    right: Sequence[str] = ()
    is_ruled: bool = False

    def lines(self) -> list[str]:
        cells = [[*map(harmless_line, row)] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            (" " * GAP)
            .join(
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for name, cell, width in zip(self.head, row, widths, strict=True)
            )
            .rstrip()
            for row in cells
        ]
        rule = [(" " * GAP).join("-" * width for width in widths)] * self.is_ruled
        return [lines[0], *rule, *lines[1:]]


Block = Line | Code | Table


def report_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table of a report: ruled, and without its last column where that is empty."""
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(head, rows, right=["count"], is_ruled=True)


def plain(blocks: Iterable[Block]) -> str:
    """Returns the text as it goes into pipes and files."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            lines += block.lines()
        else:
            lines += [
                " " * block.indent + line if line else line
                for line in harmless(block.text).split("\n")
            ]
    return "\n".join(lines)


def harmless(text: str) -> str:
    """Escapes what could change a terminal or the order of a text: control characters and such.

    Names of a model are untrusted, and so are texts that contain them.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def harmless_line(text: str) -> str:
    """Like `harmless`, for a text that must stay within its line."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")
