"""A worker process: runs Python operators for a host, which starts it. See src/workers/serve.h."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.machinery
import os
import sys

#: The files of imported modules, and when they were changed, as seen before their import.
_states: dict[str, tuple[str, int]] = {}


def main() -> None:
    """Serves the host until that ends."""
    from opgraft import _pyop
    from opgraft._base._embedding import begin

    faulthandler.enable()
    begin()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _pyop.serve()


def find_module(path: bytes, module: str) -> None:
    """Makes the host's folders known, and forgets `module` if its file is another one by now.

    A worker outlives sessions, so that a module may have been edited since it was imported.
    """
    folders = [os.fsdecode(one) for one in path.split(b"\0") if one]
    sys.path[:0] = [one for one in folders if one not in sys.path]
    if folders:
        order = {one: number for number, one in enumerate(folders)}
        sys.path.sort(key=lambda one: order.get(one, len(order)))
    importlib.invalidate_caches()
    state = _state(module)
    is_old = module in sys.modules and _states.get(module, state) != state
    if state is not None:
        _states[module] = state
    if is_old:
        del sys.modules[module]
        importlib.import_module(module)  # operators that it declares replace the old ones


def _state(module: str) -> tuple[str, int] | None:
    """Returns the file that an import of the module would run, and when it was changed."""
    parent = sys.modules.get(module.rpartition(".")[0])
    path = getattr(parent, "__path__", None)
    if "." in module and path is None:
        return None
    found = importlib.machinery.PathFinder.find_spec(module, path)
    if found is None or found.origin is None or not os.path.isfile(found.origin):
        return None
    return found.origin, os.stat(found.origin).st_mtime_ns
