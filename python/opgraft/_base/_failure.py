"""Carries an operator's exception through ONNX Runtime, which can transport only text.

Called by the bridge, in Python programs and in C++ programs.
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
_TOO_DEEP = re.compile(r"operators and sessions call each other \d+ deep.*")  # of src/base/stack.h

# A session of ours takes an exception out at once. In a plain onnxruntime session nothing does, so
# the oldest ones must be dropped.
_MOST_KEPT = 64
_kept: OrderedDict[int, BaseException] = OrderedDict()
_numbers = itertools.count(1)


def describe(error: BaseException, keep_frames: bool) -> str:
    """Returns the error in one line, then its traceback.

    The operator's arguments use the runtime's memory, which is invalid after the call. So unless
    `keep_frames` is set, the error must not refer to them: its frames are emptied, and the arrays
    among its arguments are replaced by copies.
    """
    try:
        text = traceback.format_exception_only(type(error), error)[-1]
        if _has_news(error):
            text += "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__name__}, whose traceback cannot be formatted\n"
    if not keep_frames:
        with suppress(BaseException):  # arguments still held are found by their reference count
            _let_go(error, set())
    # The innermost error of many. With all the errors that it caused, it would be too long.
    if found := _TOO_DEEP.search(text):
        text = f"{type(error).__module__}.{type(error).__name__}: {found.group()}\n"
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    # The runtime's texts must be UTF-8, and end at a zero byte.
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _has_news(error: BaseException) -> bool:
    """Whether a traceback says more than the error. That of a missing module does not."""
    frames = traceback.extract_tb(error.__traceback__)
    is_alone = error.__cause__ is None and error.__context__ is None
    is_import = all(one.filename.startswith("<frozen importlib") for one in frames)
    return bool(frames) and not (is_import and is_alone)


def hint(error: BaseException, subject: object) -> str:
    """Returns a line on how to fix the error, if it is a common one."""
    if isinstance(error, ModuleNotFoundError) and isinstance(subject, str):
        if error.name is not None and (subject + ".").startswith(error.name + "."):
            return (
                f"The module '{error.name}' must be on Python's path. Fix: add its folder to "
                "sys.path, or to PYTHONPATH (for a program that is not Python, also OPGRAFT_PATH)"
            )
        return f"'{error.name}', which it imports, is not installed in {sys.executable}"
    if isinstance(error, AttributeError) and isinstance(subject, ModuleType):
        classes = [name for name, value in vars(subject).items() if isinstance(value, type)]
        if subject.__name__ == "__main__" and not classes:
            return (
                "'__main__' is the running program, not the one that made the model. Fix: put "
                "the class into a module of its own"
            )
        return f"The module has the classes: {', '.join(classes[:20]) or 'none'}"
    if isinstance(error, AttributeError) and isinstance(subject, type):
        methods = [name for name, value in vars(subject).items() if callable(value)]
        methods = [name for name in methods if not name.startswith("__")]
        return (
            f"The class has the methods: {', '.join(methods[:20]) or 'none'}; the node's "
            "attribute 'compute' names the method to call"
        )
    if isinstance(error, TypeError) and isinstance(subject, dict):
        return (
            "It gets the node's other attributes as keyword arguments, so it needs a parameter for "
            f"each; this node has the attributes: {', '.join(subject) or 'none'}"
        )
    if isinstance(error, TypeError) and "positional argument" in str(error):
        return "The method is called with one argument for each input of the node"
    if isinstance(error, ValueError) and "read-only" in str(error):
        return (
            "Inputs are read-only views of the runtime's memory. Fix: to get writeable copies, put "
            "'copy_inputs = True' into the class, or declare the operator with "
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
    """Keeps the exception for `take`; returns its number."""
    number = next(_numbers)
    _kept[number] = error
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return number


def take(number: int) -> BaseException | None:
    """Returns the exception kept under `number`, and drops it; None if there is none."""
    return _kept.pop(number, None)
