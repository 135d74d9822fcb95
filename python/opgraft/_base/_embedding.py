"""Python in a C++ program: finding it, and what is done when it starts and ends.

Called by libopgraft only.
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
        os.path.join(sys.base_prefix, "lib"),  # the others are where it was built to be installed
        configured,
        os.path.join(configured, sysconfig.get_config_var("MULTIARCH") or ""),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if ".so" in name and os.path.isfile(path):
            return path
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    sys.exit(
        f"{sys.executable} has no shared library that a program could load. "
        f"Fix: on Debian and Ubuntu, apt-get install libpython{version}; with pyenv, "
        f"PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install {version}"
    )


def main() -> None:
    """Prints what is needed to start this Python: the command, its library, the bridge's library.

    Runs in a separate python command, which fails with a message if something is missing.
    """
    if importlib.util.find_spec("numpy") is None:
        sys.exit(f"{sys.executable} has no NumPy. Fix: {sys.executable} -m pip install numpy")
    bridge = importlib.util.find_spec("opgraft._pyop")
    if bridge is None or bridge.origin is None:
        version = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"{sys.executable} is Python {version}, but the package opgraft that it finds was "
            f"built for another version. Fix: install the wheel for Python {version}"
        )
    print(sys.executable, _python_library(), bridge.origin, sep="\n")


def begin() -> None:
    """Called right after the start: appends the folders of OPGRAFT_PATH to Python's path."""
    import signal  # noqa: F401 - see Start in src/python/module/embedding.cc

    sys.path += [path for path in os.environ.get("OPGRAFT_PATH", "").split(os.pathsep) if path]


def finish() -> None:
    """Called when the program ends. Python is left running, since threads may be inside it, but
    the functions that operators registered with atexit are run, and their output is flushed."""
    import atexit

    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in ("stdout", "stderr"):
        with suppress(BaseException):
            getattr(sys, stream).flush()
