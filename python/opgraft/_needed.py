"""Packages that only parts of Opgraft need, and the error that says what to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opgraft._errors import UnavailableError

if TYPE_CHECKING:
    import numpy as np


class NotInstalledError(UnavailableError, ModuleNotFoundError):
    """A package is not installed. As an ImportError it is what `try: import` expects."""


def need(who: str, extra: str, packages: Mapping[str, str]) -> None:
    """Raises unless all modules are there; `packages` says for each what it is called.

    `who` needs them, and `pip install "opgraft[extra]"` brings them.
    """
    for module, package in packages.items():
        if importlib.util.find_spec(module) is None:
            error = NotInstalledError(
                f'{who} needs {package}, which is not installed: pip install "opgraft[{extra}]"'
            )
            error.name = module
            raise error


def find_dtype(name: str) -> np.dtype[Any]:
    """The dtype of ml_dtypes, which is imported no earlier than it is needed."""
    try:
        import ml_dtypes
        import numpy as np

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError) as error:
        raise UnavailableError(
            f"arrays of {name} need the Python package ml_dtypes ({error}). Fix: "
            "pip install --upgrade ml_dtypes"
        ) from error
    return dtype


NotInstalledError.__module__ = "opgraft"
