"""What a Python program tells its worker processes, and the text of a session's isolation."""

from __future__ import annotations

import math
import os
import sys
import sysconfig
from collections.abc import Iterable

from opgraft._base._errors import Error


def describe_python(python: str) -> tuple[bytes, bytes]:
    """Returns the command of this Python, unless another one is chosen, and the folders on its path
    that the command does not have on its own, separated by zeros."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = {os.path.realpath(sysconfig.get_path(name)) for name in names}
    folders = []
    for entry in sys.path:
        folder = os.path.abspath(entry or os.curdir)
        real = os.path.realpath(folder)
        is_own = any(real == one or real.startswith(one + os.sep) for one in installed)
        if os.path.exists(folder) and not is_own and "\0" not in folder:
            folders.append(folder)
    return os.fsencode(python or sys.executable), b"\0".join(map(os.fsencode, folders))


def isolation_text(
    isolation: str | None,
    *,
    workers: int | None,
    python: str | os.PathLike[str] | None,
    timeout: float | None,
    memory_limit: int | None,
    cpu_limit: int | None,
    retries: int | None,
    sandbox: bool,
    writable: Iterable[str | os.PathLike[str]],
    environment: Iterable[str],
) -> str | None:
    """Returns the entry of the session options for these settings; None for no isolation."""
    entries = {
        "workers": workers,
        "python": None if python is None else os.fspath(python),
        "timeout": timeout,
        "memory_limit": memory_limit,
        "cpu_limit": cpu_limit,
        "retries": retries,
        "sandbox": 1 if sandbox else None,
    }
    given_paths = [writable] if isinstance(writable, (str, os.PathLike)) else writable
    paths = [os.path.abspath(os.fspath(one)) for one in given_paths]
    if paths and not sandbox:
        raise Error("writable: this is a setting of the sandbox. Fix: sandbox=True")
    if any(":" in one for one in paths):
        raise Error("writable: a path cannot contain a colon")
    names = [environment] if isinstance(environment, str) else list(environment)
    given = [name for name, value in entries.items() if value is not None]
    given += ["environment"] if names else []
    if isolation is None:
        if given:
            raise Error(f'{given[0]}: this is a setting of isolation. Fix: isolation="process"')
        return None
    if isolation != "process":
        raise Error(f'isolation: expected "process" or None, not {isolation!r}')
    for name in ("workers", "memory_limit", "cpu_limit", "retries"):
        value = entries[name]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"{name}: expected an int, not {value!r}")
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise Error(f"timeout: expected a positive number of seconds, not {timeout!r}")
    for text in (*names, *paths, entries["python"] or ""):
        if any(character in str(text) for character in ";,\0"):
            raise Error(f"isolation: {text!r} contains a semicolon, a comma or a zero byte")
    parts = ["process"]
    parts += [f"{name}={value}" for name, value in entries.items() if value is not None]
    parts += ["writable=" + ":".join(paths)] if paths else []
    parts += ["environment=" + ",".join(names)] if names else []
    return ";".join(parts)
