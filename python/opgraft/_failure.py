"""An operator's exception on its way through ONNX Runtime, which can carry nothing but text.

Called by the bridge, in Python programs and in C++ programs alike.
"""

from __future__ import annotations

import itertools
import re
import sys
import traceback
from collections import OrderedDict
from contextlib import suppress
from types import ModuleType

_LONGEST_TEXT = 32 * 1024
_TOO_DEEP = re.compile(r"operators and sessions call each other \d+ deep.*")  # of src/core/stack.h

# A session of ours takes an exception out at once; in a plain onnxruntime session nobody does, so
# that the oldest must go.
_MOST_KEPT = 64
_kept: OrderedDict[int, BaseException] = OrderedDict()
_numbers = itertools.count(1)


def describe(error: BaseException, keep_frames: bool) -> str:
    """The error in one line, then its traceback.

    The operator's arguments lie in the runtime's memory, which is gone after the call. So unless
    `keep_frames`, nothing that the error holds may refer to them: its frames are emptied, and the
    arrays among its arguments are replaced by copies.
    """
    try:
        text = traceback.format_exception_only(type(error), error)[-1]
        if _has_news(error):
            text += "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__name__}, whose traceback cannot be formatted\n"
    if not keep_frames:
        with suppress(BaseException):  # what is not let go is found by its reference count
            _let_go(error, set())
    # The innermost error of many: with those that it caused, it would be too long for the runtime.
    if found := _TOO_DEEP.search(text):
        text = f"{type(error).__module__}.{type(error).__name__}: {found.group()}\n"
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    # The runtime's texts end at a zero and must be UTF-8.
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _has_news(error: BaseException) -> bool:
    """Whether a traceback says more than the error: that of a module that is not found does not."""
    frames = traceback.extract_tb(error.__traceback__)
    is_alone = error.__cause__ is None and error.__context__ is None
    is_import = all(one.filename.startswith("<frozen importlib") for one in frames)
    return bool(frames) and not (is_import and is_alone)


def hint(error: BaseException, subject: object) -> str:
    """A line on how to fix the commonest errors, or nothing."""
    if isinstance(error, ModuleNotFoundError) and isinstance(subject, str):
        if error.name is not None and (subject + ".").startswith(error.name + "."):
            return (
                f"The module '{error.name}' must lie on Python's path: put its folder into "
                "sys.path, or into PYTHONPATH (for a program that is not Python also OPGRAFT_PATH)"
            )
        return f"'{error.name}', which it imports, is not installed in {sys.executable}"
    if isinstance(error, AttributeError) and isinstance(subject, ModuleType):
        classes = [name for name, value in vars(subject).items() if isinstance(value, type)]
        if subject.__name__ == "__main__" and not classes:
            return (
                "'__main__' is the program that runs, not the one that made the model: put the "
                "class into a module of its own"
            )
        return f"It has the classes: {', '.join(classes[:20]) or 'none'}"
    if isinstance(error, AttributeError) and isinstance(subject, type):
        methods = [name for name, value in vars(subject).items() if callable(value)]
        methods = [name for name in methods if not name.startswith("__")]
        return (
            f"It has the methods: {', '.join(methods[:20]) or 'none'}; the node's attribute "
            "'compute' names the one to be called"
        )
    if isinstance(error, TypeError) and isinstance(subject, dict):
        return (
            "It is given the node's further attributes by name, each of which needs a parameter; "
            f"this node has the attributes: {', '.join(subject) or 'none'}"
        )
    if isinstance(error, TypeError) and "positional argument" in str(error):
        return "The method is called with one argument for each input of the node"
    if isinstance(error, ValueError) and "read-only" in str(error):
        return (
            "Inputs are read-only views of the runtime's memory. To have copies that may be "
            "written to, put 'copy_inputs = True' into the class, or declare the operator with "
            "@opgraft.op(..., copy_inputs=True)"
        )
    return ""


def _let_go(error: BaseException | None, seen: set[int]) -> None:
    import numpy as np

    if error is None or id(error) in seen:
        return
    seen.add(id(error))

    def released(value: object) -> object:
        return value.copy() if isinstance(value, np.ndarray) else value

    traceback.clear_frames(error.__traceback__)
    error.args = tuple(released(argument) for argument in error.args)
    for name, value in vars(error).items():
        vars(error)[name] = released(value)
    if isinstance(error, AttributeError):
        error.obj = released(error.obj)
    if isinstance(error, StopIteration):
        error.value = released(error.value)
    for linked in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        _let_go(linked, seen)


def keep(error: BaseException) -> int:
    """Keeps the exception for `take`, under the number that is returned."""
    number = next(_numbers)
    _kept[number] = error
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return number


def take(number: int) -> BaseException | None:
    """The exception kept under `number`, once."""
    return _kept.pop(number, None)
