"""Opgraft for scikit-learn: any estimator, any pipeline, any Python function, in one ONNX model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opgraft.sklearn._convert_sklearn import add_pyop, convert_sklearn
    from opgraft.sklearn._report import PythonStep, python_steps
    from opgraft.sklearn._to_onnx import to_onnx

__all__ = ["PythonStep", "add_pyop", "convert_sklearn", "python_steps", "to_onnx"]

_LAZY = {
    "PythonStep": "_report",
    "add_pyop": "_convert_sklearn",
    "convert_sklearn": "_convert_sklearn",
    "python_steps": "_report",
    "to_onnx": "_to_onnx",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"opgraft.sklearn.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.sklearn' has no attribute {name!r}")
