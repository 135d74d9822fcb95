"""Python in a C++ program: how it is found, what is done at its start and at its end.

Called by libopgraft alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from contextlib import suppress


def _python_library() -> str:
    name = sysconfig.get_config_var("INSTSONAME") or ""
    configured = sysconfig.get_config_var("LIBDIR") or ""
    folders = [
        os.path.join(sys.base_prefix, "lib"),  # the others say where it was built to be
        configured,
        os.path.join(configured, sysconfig.get_config_var("MULTIARCH") or ""),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if ".so" in name and os.path.isfile(path):
            return path
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    sys.exit(
        f"{sys.executable} has no shared library to be loaded into a program. "
        f"On Debian and Ubuntu: apt-get install libpython{version}; with pyenv: "
        f"PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install {version}"
    )


def main() -> None:
    """Prints what it takes to start this Python: the command, its library, the bridge's library.

    Run in a python command of its own, which says what is missing and fails where that is so.
    """
    if importlib.util.find_spec("numpy") is None:
        sys.exit(
            f"{sys.executable} has no NumPy. To install it: {sys.executable} -m pip install numpy"
        )
    bridge = importlib.util.find_spec("opgraft._pyop")
    if bridge is None or bridge.origin is None:
        version = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"{sys.executable} is Python {version}, but the package opgraft that it finds was "
            f"built for another one. Install the wheel for this one"
        )
    print(sys.executable, _python_library(), bridge.origin, sep="\n")


def begin() -> None:
    """Right after the start: the folders of OPGRAFT_PATH come last on Python's path."""
    import signal  # noqa: F401 - see Start in src/pyop/embedding.cc

    sys.path += [path for path in os.environ.get("OPGRAFT_PATH", "").split(os.pathsep) if path]


def finish() -> None:
    """At the program's end. Python is left running, since threads may be inside it; but what
    operators have registered with atexit is run, and what they have printed must come out."""
    import atexit

    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in ("stdout", "stderr"):
        with suppress(BaseException):
            getattr(sys, stream).flush()
