"""Packages that only parts of Opgraft need, and the error that says what to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opgraft._base._errors import UnavailableError

if TYPE_CHECKING:
    import numpy as np


class NotInstalledError(UnavailableError, ModuleNotFoundError):
    """A package is not installed. Also an ImportError, so that `try: import` catches it."""


def need(who: str, extra: str, packages: Mapping[str, str]) -> None:
    """Raises an error unless all modules are installed; `packages` maps modules to packages.

    `who` needs them, and `pip install "opgraft[extra]"` installs them.
    """
    for module, package in packages.items():
        if importlib.util.find_spec(module) is None:
            error = NotInstalledError(
                f'{who} needs {package}, which is not installed: pip install "opgraft[{extra}]"'
            )
            error.name = module
            raise error


def find_dtype(name: str) -> np.dtype[Any]:
    """Returns a dtype of ml_dtypes, which is only imported when it is needed."""
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
