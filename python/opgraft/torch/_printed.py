"""Notes where a model makes text of a tensor, or of a number in it, while torch.export captures it.

The text is that of a symbol, or of a tensor without data: a graph that depends on it is fixed, and
torch says nothing.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch import _guards, _private
from opgraft.torch._guards import Guard, Line

_OURS = tuple(os.path.dirname(one) + os.sep for one in (torch.__file__, os.path.dirname(__file__)))
_ADVICE = "keep it a tensor: text is no part of a graph"
#: Calls that show a text, and give nothing.
_SHOWING = frozenset("print debug info warning warn error exception critical log write".split())


@contextmanager
def texts() -> Iterator[list[Guard]]:
    """A guard for each line of the model that asks for a text, as long as this lasts."""
    found: list[Guard] = []
    owner = threading.get_ident()

    def watched(method: Any, is_meant: Any) -> Any:
        def text(self: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == owner and is_meant(self):
                caller = sys._getframe(1)
                file = caller.f_code.co_filename
                if not file.startswith(_OURS) and not _is_shown(file, caller.f_lineno):
                    code = linecache.getline(file, caller.f_lineno).strip()
                    condition = f"the text in `{code}` is as with the example"
                    found.append(Guard(Line(file, caller.f_lineno, code), condition, _ADVICE))
            return method(self, *args, **kwargs)

        return text

    with contextlib.ExitStack() as undone:
        for owner_type, is_meant in (
            (torch.Tensor, _private.is_fake),
            (torch.SymInt, _private.is_of_data),
            (torch.SymFloat, _private.is_of_data),
            (torch.SymBool, _private.is_of_data),
        ):
            for name in ("__repr__", "__str__"):
                if name in vars(owner_type):
                    own = vars(owner_type)[name]
                    undone.callback(setattr, owner_type, name, own)
                    setattr(owner_type, name, watched(own, is_meant))
        yield found
    found[:] = _guards.merged(found)


def _is_shown(file: str, number: int) -> bool:
    """Whether a line shows a text and does no more: `print(x)`, `log.debug(...)`."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= number <= (node.end_lineno or 0):
            continue
        if isinstance(node, (ast.Raise, ast.Assert)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if getattr(function, "attr", getattr(function, "id", "")) in _SHOWING:
                return True
    return False
