"""Warnings that name the line of the user's code that called the export."""

from __future__ import annotations

import contextlib
import sys
import warnings

from opgraft.torch import _private

_NOT_THE_USERS = (
    _private.OURS,
    _private.OF_TORCH,
    str(contextlib.__file__),
)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line that is neither in Opgraft nor in torch."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
