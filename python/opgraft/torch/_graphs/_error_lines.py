"""Describes an error in one line."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Returns the first line of the message; the type of the error if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def innermost_line(error: BaseException) -> str:
    """Returns the line of the first cause: the errors above it only say where it was raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    return titled_line(error)


def titled_line(error: BaseException) -> str:
    """Returns the type and the first line of the message."""
    lines = [one for one in str(error).splitlines() if one.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else 'no reason given'}"
