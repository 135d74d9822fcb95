"""Opgraft grafts operators onto ONNX: a missing operator never stops a model.

>>> session = opgraft.InferenceSession("model.onnx", allow=["mymodule"])  # doctest: +SKIP

What needs onnxruntime is imported when it is first used, so that a C++ program which runs Python
operators by its own ONNX Runtime does not load a second one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opgraft._errors import Error, ModelError, PolicyError, PyOpError, UnavailableError
from opgraft._library import cmake_dir, get_include, library_path, runtime_library
from opgraft._needed import NotInstalledError
from opgraft._prepare import PreparedModel, PythonOperator, prepare

if TYPE_CHECKING:
    from opgraft._declare import op
    from opgraft._packs import Pack, load
    from opgraft._session import InferenceSession, register
    from opgraft._shapes import broadcast_shapes

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
    "prepare",
    "register",
    "runtime_library",
]


_LAZY = {
    "InferenceSession": "opgraft._session",
    "Pack": "opgraft._packs",
    "broadcast_shapes": "opgraft._shapes",
    "load": "opgraft._packs",
    "op": "opgraft._declare",
    "register": "opgraft._session",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
