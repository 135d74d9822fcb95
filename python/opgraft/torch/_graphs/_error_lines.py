"""Errors in one line."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """What it says; its type, where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def innermost_line(error: BaseException) -> str:
    """What lies under errors that only say where they were raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    return titled_line(error)


def titled_line(error: BaseException) -> str:
    """Its type and what it says."""
    lines = [one for one in str(error).splitlines() if one.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else 'no reason given'}"
