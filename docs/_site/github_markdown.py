"""Markdown as GitHub reads it, changed where Python-Markdown reads it differently."""

from __future__ import annotations

import re

_LIST = re.compile(r"^([-*+]|\d+\.) ")
_FENCE = re.compile(r"^ *(`{3,}|~{3,})")


def for_python_markdown(text: str) -> str:
    """Adds the blank line that Python-Markdown needs before a list or a table in a paragraph."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if found := _FENCE.match(line):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif not fence and lines and lines[-1].strip():
            before = lines[-1]
            begins_list = _LIST.match(line) and not (_LIST.match(before) or before.startswith("  "))
            begins_table = line.startswith("|") and not before.startswith("|")
            if begins_list or begins_table:
                lines.append("")
        lines.append(line)
    return "\n".join(lines)
