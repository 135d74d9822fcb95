"""Opgraft grafts operators onto ONNX: a missing operator never stops a model.

>>> session = opgraft.InferenceSession("model.onnx", allow=["mymodule"])  # doctest: +SKIP

What needs onnxruntime is imported when it is first used, so that a C++ program which runs Python
operators by its own ONNX Runtime does not load a second one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opgraft._errors import Error, ModelError, PolicyError, PyOpError, UnavailableError
from opgraft._library import cmake_dir, get_include, library_path, runtime_library
from opgraft._prepare import PreparedModel, PythonOperator, prepare

if TYPE_CHECKING:
    from opgraft._session import InferenceSession, register

__version__ = "0.1.0"

__all__ = [
    "Error",
    "InferenceSession",
    "ModelError",
    "PolicyError",
    "PreparedModel",
    "PyOpError",
    "PythonOperator",
    "UnavailableError",
    "cmake_dir",
    "get_include",
    "library_path",
    "prepare",
    "register",
    "runtime_library",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("InferenceSession", "register"):
        from opgraft import _session

        return getattr(_session, name)
    raise AttributeError(f"module 'opgraft' has no attribute {name!r}")
