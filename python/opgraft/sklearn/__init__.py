"""Opgraft for scikit-learn: any estimator, any pipeline, any Python function, in one ONNX model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opgraft.sklearn._convert_sklearn import add_pyop, convert_sklearn

__all__ = ["add_pyop", "convert_sklearn"]

_LAZY = {
    "add_pyop": "_convert_sklearn",
    "convert_sklearn": "_convert_sklearn",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"opgraft.sklearn.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.sklearn' has no attribute {name!r}")
