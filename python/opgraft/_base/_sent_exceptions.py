"""Sends an operator's exception from a worker process to its host, as text.

The host builds it anew, without running code of the worker's choice: nothing is unpickled and
nothing imported. It has its class if that is a builtin one, or if the host has imported its module;
otherwise the nearest base class that the host knows.
"""

from __future__ import annotations

import builtins
import json
import sys
from typing import Any

from opgraft._base import _failure

_DEEPEST = 8  #: causes of causes
_LONGEST = 64 * 1024


def describe(number: int) -> bytes:
    """Describes the exception that is kept under a number; b"" if it cannot be."""
    error = _failure.take(number)
    try:
        text = b"" if error is None else json.dumps(_describe(error, 0)).encode()
    except Exception:
        return b""
    return text if len(text) <= _LONGEST else b""


def _describe(error: BaseException, depth: int) -> dict[str, Any]:
    arguments = [_plain(one) for one in error.args]
    linked = {}
    for name in ("__cause__", "__context__"):
        one = getattr(error, name)
        if one is not None and depth < _DEEPEST:
            linked[name] = _describe(one, depth + 1)
    classes = [(one.__module__, one.__qualname__) for one in type(error).__mro__]
    notes = [str(one) for one in getattr(error, "__notes__", ())]
    return {"classes": classes, "args": arguments, "linked": linked, "notes": notes,
            "text": str(error), "suppress": error.__suppress_context__}  # fmt: skip


def _plain(value: Any) -> Any:
    """Returns a value that JSON keeps as it is; others become their text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def keep(described: bytes) -> int:
    """Builds the exception and keeps it for the session to raise; returns its number."""
    return _failure.keep(_build(json.loads(described), 0))


def _build(given: Any, depth: int) -> BaseException:
    arguments = [one for one in given["args"] if one is None or isinstance(one, (str, int, float))]
    error: BaseException | None = None
    for module, name in given["classes"]:
        found = _find(str(module), str(name))
        if found is not None:
            error = _make(found, arguments, str(given["text"]))
            break
    if error is None:
        error = Exception(str(given["text"]))
    for name, one in given["linked"].items():
        if name in ("__cause__", "__context__") and depth <= _DEEPEST:
            setattr(error, name, _build(one, depth + 1))
    error.__suppress_context__ = bool(given["suppress"])
    if given["notes"]:
        setattr(error, "__notes__", [str(one) for one in given["notes"]])  # noqa: B010 - 3.10
    return error


def _find(module: str, name: str) -> type[BaseException] | None:
    """Returns a class of exceptions that this process knows already."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if found is not None and hasattr(found, "__dict__") else None
    is_exception = isinstance(found, type) and issubclass(found, BaseException)
    return found if is_exception else None


def _make(found: type[BaseException], arguments: list[Any], text: str) -> BaseException:
    """Makes an exception without calling code of its class."""
    base = next(one for one in found.__mro__ if vars(builtins).get(one.__name__) is one)
    try:
        if found is base:
            builtin: BaseException = found(*arguments)
            return builtin
        new: Any = base.__new__
        made: BaseException = new(found, *arguments)
        made.args = tuple(arguments)
        return made
    except Exception:
        return Exception(text)
