"""Opgraft grafts operators onto ONNX: a missing operator never stops a model.

>>> session = opgraft.InferenceSession("model.onnx", allow=["mymodule"])  # doctest: +SKIP

The parts that need onnxruntime are imported on first use, so that a C++ program that runs Python
operators in its own ONNX Runtime does not load a second one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opgraft._base._errors import Error, ModelError, PolicyError, PyOpError, UnavailableError
from opgraft._base._library import cmake_dir, get_include, library_path, runtime_library
from opgraft._base._needed import NotInstalledError
from opgraft._run._prepare import PreparedModel, PythonOperator, prepare

if TYPE_CHECKING:
    from opgraft._declare._declare import op
    from opgraft._declare._packs import Pack, load
    from opgraft._declare._shapes import broadcast_shapes
    from opgraft._run._pool import pool_stats
    from opgraft._run._session import InferenceSession, register

__version__ = "0.1.0"

__all__ = [
    "Error",
    "InferenceSession",
    "ModelError",
    "NotInstalledError",
    "Pack",
    "PolicyError",
    "PreparedModel",
    "PyOpError",
    "PythonOperator",
    "UnavailableError",
    "broadcast_shapes",
    "cmake_dir",
    "get_include",
    "library_path",
    "load",
    "op",
    "pool_stats",
    "prepare",
    "register",
    "runtime_library",
]


_LAZY = {
    "InferenceSession": "opgraft._run._session",
    "Pack": "opgraft._declare._packs",
    "broadcast_shapes": "opgraft._declare._shapes",
    "load": "opgraft._declare._packs",
    "op": "opgraft._declare._declare",
    "pool_stats": "opgraft._run._pool",
    "register": "opgraft._run._session",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
