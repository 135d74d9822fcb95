"""Docstrings as Markdown: their examples, `>>> ...`, become blocks of code. Griffe loads this."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n(?:^(?![ ]*>>> )[ ]*\S.*\n)*)+", re.M)


class Examples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_block, obj.docstring.value + "\n").rstrip()


def _block(found: re.Match[str]) -> str:
    code = re.sub(r"  # doctest: .*", "", found[0])
    return f"\n```pycon\n{code.strip()}\n```\n\n"
