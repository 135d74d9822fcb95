"""An operator's exception on its way through ONNX Runtime, which can carry nothing but text.

Called by the bridge, in Python programs and in C++ programs alike.
"""

from __future__ import annotations

import itertools
import traceback
from collections import OrderedDict
from contextlib import suppress

_LONGEST_TEXT = 32 * 1024

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
        summary = traceback.format_exception_only(type(error), error)[-1].strip()
        text = f"{summary}\n{''.join(traceback.format_exception(error))}"
    except BaseException:
        text = f"{type(error).__name__}, whose traceback cannot be formatted\n"
    if not keep_frames:
        with suppress(BaseException):  # what is not let go is found by its reference count
            _let_go(error, set())
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    # The runtime's texts end at a zero and must be UTF-8.
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _let_go(error: BaseException | None, seen: set[int]) -> None:
    import numpy as np

    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    traceback.clear_frames(error.__traceback__)
    error.args = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in error.args)
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
