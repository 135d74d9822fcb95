"""Where the parts of the package that are not Python lie."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from opgraft._errors import UnavailableError

_PACKAGE = Path(__file__).resolve().parent


def library_path() -> str:
    """The path of libopgraft.so.

    >>> opgraft.library_path()
    '.../opgraft/lib/libopgraft.so'
    """
    return str(_PACKAGE / "lib" / "libopgraft.so")


def cuda_library_path() -> str:
    """The path of libopgraft_cuda.so, the execution provider for GPUs."""
    return str(_PACKAGE / "lib" / "libopgraft_cuda.so")


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


def exports_map() -> str:
    """The linker's script that says what a pack shows of itself."""
    return str(_PACKAGE / "adapter" / "pack" / "exports.map")


def pack_recipe() -> dict[str, Any]:
    """How a pack is compiled and linked."""
    recipe: dict[str, Any] = json.loads((_PACKAGE / "cmake" / "pack-recipe.json").read_text())
    return recipe


def shipped_packs() -> list[str]:
    """The packs that come with Opgraft."""
    return [str(path) for path in sorted((_PACKAGE / "packs").glob("*.so"))]


def runner_path() -> str:
    """The path of opgraft-run."""
    return str(_PACKAGE / "bin" / "opgraft-run")


@functools.cache
def installed_libtorch() -> str | None:
    """The library of the package torch, which is not imported for it, where it is not found anyway.

    It is where torch is imported already, or lies beside this package.
    """
    if "torch" in sys.modules or (_PACKAGE.parent / "torch").is_dir():
        return None
    return find_libtorch()


def find_libtorch() -> str | None:
    """The library of the package torch, which is not imported for it; None where there is none."""
    spec = importlib.util.find_spec("torch")
    for folder in spec.submodule_search_locations or [] if spec else []:
        library = Path(folder, "lib", "libtorch_cpu.so")
        if library.is_file():
            return str(library)
    return None


def runtime_library() -> str:
    """The path of the libonnxruntime.so in the package onnxruntime, for C++ programs.

    >>> opgraft.runtime_library()
    '.../onnxruntime/capi/libonnxruntime.so...'
    """
    spec = importlib.util.find_spec("onnxruntime")  # not imported: a program has its own
    folders = spec.submodule_search_locations or [] if spec else []
    for folder in folders:
        for library in sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return str(library)
    raise UnavailableError("there is no package onnxruntime, or none with a libonnxruntime.so")
