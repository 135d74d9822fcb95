"""Packages that only parts of Opgraft need, and the error that says what to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from opgraft._errors import UnavailableError


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


NotInstalledError.__module__ = "opgraft"
