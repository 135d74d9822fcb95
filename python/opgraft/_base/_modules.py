"""Lists of names that a host gives: modules that a model may run, modules to import first."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from opgraft._base._errors import Error, PyOpError


def names(
    modules: Iterable[str],
    what: str,
    expected: str = 'names of modules, such as ["mymodule"]',
    kind: str = "a Python module",
) -> list[str]:
    """Returns the names sorted and without repetitions.

    An entry is one name. The list is passed in ONNX Runtime's options, where commas separate the
    names and a zero byte ends the text, so entries with those are refused.
    """
    entries = [modules] if isinstance(modules, str) else modules
    if not isinstance(entries, Iterable) or isinstance(modules, (bytes, bytearray)):
        wrong = type(modules).__name__
    else:
        entries = list(entries)
        wrong = next((type(e).__name__ for e in entries if not isinstance(e, str)), "")
    if wrong:
        raise TypeError(f"{what}: expected {expected}, not {wrong}")
    for entry in entries:
        if "," in entry or "\0" in entry or entry != entry.strip():
            raise Error(
                f"{what}: {entry!r} is not the name of {kind}; expected {expected}. Fix: give one "
                "entry for each name, without commas, zero bytes, or spaces around it"
            )
    return sorted(set(entries))


def import_all(imports: Iterable[str]) -> None:
    """Imports modules, so that their operators are declared."""
    for module in names(imports, "imports"):
        try:
            importlib.import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # including SystemExit
            raise PyOpError(
                f"the import of '{module}' raised {type(error).__name__}: {error}"
            ) from (error)
