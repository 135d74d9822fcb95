"""Where the parts of the package that are not Python lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def library_path() -> str:
    """The path of libopgraft.so.

    >>> opgraft.library_path()
    '.../opgraft/lib/libopgraft.so'
    """
    return str(_PACKAGE / "lib" / "libopgraft.so")


def get_include() -> str:
    """The folder to be searched for `#include <opgraft/host.h>`.

    >>> opgraft.get_include()
    '.../opgraft/include'
    """
    return str(_PACKAGE / "include")


def cmake_dir() -> str:
    """The folder of the CMake package: what `-Dopgraft_DIR=` takes.

    >>> opgraft.cmake_dir()
    '.../opgraft/cmake'
    """
    return str(_PACKAGE / "cmake")


def runner_path() -> str:
    """The path of opgraft-run."""
    return str(_PACKAGE / "bin" / "opgraft-run")
