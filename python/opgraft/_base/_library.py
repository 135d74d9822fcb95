"""The paths of the parts of the package that are not Python."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from opgraft._base._errors import UnavailableError

PACKAGE = Path(__file__).resolve().parents[1]


def library_path() -> str:
    """Returns the path of libopgraft.so.

    >>> opgraft.library_path()
    '.../opgraft/lib/libopgraft.so'
    """
    return str(PACKAGE / "lib" / "libopgraft.so")


def cuda_library_path() -> str:
    """Returns the path of libopgraft_cuda.so, the execution provider for GPUs."""
    return str(PACKAGE / "lib" / "libopgraft_cuda.so")


def get_include() -> str:
    """Returns the include folder for `#include <opgraft/host.h>`.

    >>> opgraft.get_include()
    '.../opgraft/include'
    """
    return str(PACKAGE / "include")


def cmake_dir() -> str:
    """Returns the folder of the CMake package, for `-Dopgraft_DIR=`.

    >>> opgraft.cmake_dir()
    '.../opgraft/cmake'
    """
    return str(PACKAGE / "cmake")


def exports_map() -> str:
    """Returns the linker script that lists the symbols a pack exports."""
    return str(PACKAGE / "adapter" / "pack" / "exports.map")


def pack_recipe() -> dict[str, Any]:
    """Returns how a pack is compiled and linked."""
    recipe: dict[str, Any] = json.loads((PACKAGE / "cmake" / "pack-recipe.json").read_text())
    return recipe


def shipped_packs() -> list[str]:
    """Returns the packs that come with Opgraft."""
    return [str(path) for path in sorted((PACKAGE / "packs").glob("*.so"))]


def runner_path() -> str:
    """Returns the path of opgraft-run."""
    return str(PACKAGE / "bin" / "opgraft-run")


@functools.cache
def installed_libtorch() -> str | None:
    """Returns the library of the package torch, without importing it; None if libopgraft finds it.

    libopgraft finds it if torch is imported already or is installed beside this package.
    """
    if "torch" in sys.modules or (PACKAGE.parent / "torch").is_dir():
        return None
    return find_libtorch()


def find_libtorch() -> str | None:
    """Returns the library of the package torch, without importing it; None if there is none."""
    spec = importlib.util.find_spec("torch")
    for folder in spec.submodule_search_locations or [] if spec else []:
        library = Path(folder, "lib", "libtorch_cpu.so")
        if library.is_file():
            return str(library)
    return None


def runtime_library() -> str:
    """Returns the path of the libonnxruntime.so in the package onnxruntime, for C++ programs.

    >>> opgraft.runtime_library()
    '.../onnxruntime/capi/libonnxruntime.so...'
    """
    spec = importlib.util.find_spec("onnxruntime")  # not imported: a program has its own
    folders = spec.submodule_search_locations or [] if spec else []
    for folder in folders:
        for library in sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return str(library)
    raise UnavailableError(
        "the package onnxruntime is not installed, or has no libonnxruntime.so. Fix: pip install "
        "onnxruntime"
    )
