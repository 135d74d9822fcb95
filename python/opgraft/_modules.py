"""Lists of names that a host gives: of modules a model may run, of those to be imported first."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from opgraft._errors import Error, PyOpError


def names(
    modules: Iterable[str],
    what: str,
    expected: str = 'names of modules, such as ["mymodule"]',
    kind: str = "a Python module",
) -> list[str]:
    """The list without repetitions, in an order that does not depend on the caller's.

    An entry is one name. ONNX Runtime's options, which the list travels in, hold texts that end at
    a zero, and there commas part the names; what they would change is refused here.
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
                f"{what}: {entry!r} is no name of {kind}; expected {expected}. Fix: one entry of "
                "the list for each name, without commas or zero bytes in it, and without spaces "
                "around it"
            )
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
