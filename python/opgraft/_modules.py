"""Lists of Python modules that a host gives: those a model may run, those to be imported first."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from opgraft._errors import PyOpError


def names(
    modules: Iterable[str], what: str, expected: str = 'names of modules, such as ["mymodule"]'
) -> list[str]:
    """The list without repetitions, in an order that does not depend on the caller's."""
    entries = [modules] if isinstance(modules, str) else modules
    if not isinstance(entries, Iterable) or isinstance(modules, (bytes, bytearray)):
        wrong = type(modules).__name__
    else:
        entries = list(entries)
        wrong = next((type(e).__name__ for e in entries if not isinstance(e, str)), "")
    if wrong:
        raise TypeError(f"{what}: expected {expected}, not {wrong}")
    return sorted(set(entries))


def import_all(imports: Iterable[str]) -> None:
    """Imports modules, so that the operators that they declare are known."""
    for module in names(imports, "imports"):
        try:
            importlib.import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit among them
            raise PyOpError(
                f"the import of '{module}' raised {type(error).__name__}: {error}"
            ) from (error)
