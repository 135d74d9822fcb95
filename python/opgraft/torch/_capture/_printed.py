"""Notes where a model formats a tensor, or a number in it, as text during a capture.

The text is that of a symbol, or of a tensor without data. A graph that depends on it would be
wrong, and torch does not warn. An open size gives the text of the example's, which fixes it.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import linecache
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _guards
from opgraft.torch._capture._guards import Guard, Line
from opgraft.torch._capture._lines import line_at, statements_in

#: What sizes, and what is made of them, are in Python.
_PLAIN: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_ADVICE = "keep it a tensor: a graph has no text"
#: Functions that only show a text; methods of loggers do too.
_SHOWING = (warnings.warn, *(getattr(logging, name) for name in logging.__all__ if name.islower()))


@contextmanager
def texts() -> Iterator[list[Guard]]:
    """Collects a guard for each line of the model that asks for a text."""
    found: list[Guard] = []
    owner = threading.get_ident()

    def watched(method: Any, is_meant: Any) -> Any:
        def text(self: Any, *args: Any, **kwargs: Any) -> Any:
            is_of_size = type(self) in _PLAIN and not is_meant(self)
            if threading.get_ident() == owner and (is_of_size or is_meant(self)):
                caller = sys._getframe(1)
                file = caller.f_code.co_filename
                if not file.startswith((_private.OF_TORCH, _private.OURS)) and not is_shown(caller):
                    if is_of_size:
                        plain = _PLAIN[type(self)](self)
                        return getattr(plain, method.__name__)(*args, **kwargs)
                    code = linecache.getline(file, caller.f_lineno).strip()
                    condition = f"the text in `{code}` is the same as in the example"
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
            for name in ("__repr__", "__str__", "__format__"):
                if name in vars(owner_type):
                    own = vars(owner_type)[name]
                    undone.callback(setattr, owner_type, name, own)
                    setattr(owner_type, name, watched(own, is_meant))
        yield found
    found[:] = _guards.merged(found)


def is_shown(frame: FrameType) -> bool:
    """Whether the line of a frame only shows a text: `print(x)`, `log.debug(...)`."""
    line = line_at(frame.f_code.co_filename, frame.f_lineno)
    own = statements_in(line)
    return bool(own) and all(_only_shows(one, frame) for one in own)


def _only_shows(statement: ast.stmt, frame: FrameType) -> bool:
    if isinstance(statement, (ast.Raise, ast.Assert)):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    function = _value(call.func, frame)
    if function is print:
        return not any(one.arg in ("file", None) for one in call.keywords)
    owner = getattr(function, "__self__", None)
    is_of_stream = owner is not None and owner in (sys.stdout, sys.stderr)
    return is_of_stream or isinstance(owner, logging.Logger) or function in _SHOWING


def _value(expression: ast.expr, frame: FrameType) -> Any:
    """The value of a name or an attribute in a line; None if it cannot be found."""
    if isinstance(expression, ast.Attribute):
        owner = _value(expression.value, frame)
        return None if owner is None else getattr(owner, expression.attr, None)
    if not isinstance(expression, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if expression.id in names:
            return names[expression.id]
    return None
