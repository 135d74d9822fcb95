"""A notebook as a page: its text, its code, and the outputs that are stored in it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat


def markdown(path: Path) -> str:
    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(_fence("python", cell.source))
        if output := text_of(cell):
            parts.append(_fence("text", output, " .output"))
    download = f'\n\n[Download this notebook]({path.name}){{ .md-button download="{path.name}" }}\n'
    return "\n\n".join(parts) + download


def text_of(cell: nbformat.NotebookNode) -> str:
    """Returns what a cell has printed, and its value, as text."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        elif output.output_type == "error":
            texts.append(re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output.traceback)))
        else:
            texts.append(output.data["text/plain"])
    return "\n".join(text.rstrip("\n") for text in texts)


def _fence(language: str, code: str, more: str = "") -> str:
    return f"```{{ .{language}{more} }}\n{code}\n```"
