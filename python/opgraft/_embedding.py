"""Tells a C++ program how to start this Python: the command, its library, the bridge's library.

Run as `python -m opgraft._embedding`, it prints these three paths, or says what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig


def _python_library() -> str:
    name = sysconfig.get_config_var("INSTSONAME") or ""
    folders = [
        sysconfig.get_config_var("LIBDIR") or "",
        os.path.join(
            sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("MULTIARCH") or ""
        ),
        os.path.join(sys.base_prefix, "lib"),
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
    if importlib.util.find_spec("numpy") is None:
        sys.exit(
            f"{sys.executable} has no NumPy. To install it: {sys.executable} -m pip install numpy"
        )
    bridge = importlib.util.find_spec("opgraft._pyop")
    if bridge is None or bridge.origin is None:
        version = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"{sys.executable} is Python {version}, but the package opgraft that it finds was "
            f"built for another one. To mend it: {sys.executable} -m pip install opgraft"
        )
    print(sys.executable, _python_library(), bridge.origin, sep="\n")


if __name__ == "__main__":
    main()
