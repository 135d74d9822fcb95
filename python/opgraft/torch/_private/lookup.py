"""Looks up private names of torch when they are first needed. The error names one that moved."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from opgraft._base._errors import UnavailableError


class Moved(UnavailableError):
    """A private name of torch is not where it was."""


def moved(name: str) -> Moved:
    """Returns the error for a private name that this version of torch does not have."""
    return Moved(
        f"torch {torch.__version__} has no {name}, which opgraft.torch needs. Fix: install torch "
        "2.10, 2.13 or 2.15, with which it is tested, or a newer Opgraft"
    )


@functools.cache
def private(module: str, name: str = "") -> Any:
    """Returns the object of that name in a module of torch. It is looked up when it is first
    needed, so that a name that moved stops only what needs it."""
    try:
        value: Any = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise moved(f"{module}.{name}".rstrip(".")) from error
    return value
