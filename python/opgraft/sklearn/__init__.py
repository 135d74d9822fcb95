"""Opgraft for scikit-learn: any estimator, any pipeline, any Python function, in one ONNX model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opgraft._base._needed import need

need(__name__, "sklearn", {"sklearn": "scikit-learn", "skops": "skops"})

if TYPE_CHECKING:
    from opgraft.sklearn._convert._convert_sklearn import add_pyop, convert_sklearn
    from opgraft.sklearn._convert._report import PythonStep, Report, python_steps, report
    from opgraft.sklearn._convert._to_onnx import to_onnx

__all__ = [
    "PythonStep",
    "Report",
    "add_pyop",
    "convert_sklearn",
    "python_steps",
    "report",
    "to_onnx",
]

_LAZY = {
    "PythonStep": "_convert._report",
    "Report": "_convert._report",
    "add_pyop": "_convert._convert_sklearn",
    "convert_sklearn": "_convert._convert_sklearn",
    "python_steps": "_convert._report",
    "report": "_convert._report",
    "to_onnx": "_convert._to_onnx",
}

_TO_CONVERT = {"onnx": "onnx", "skl2onnx": "skl2onnx"}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        packages = {"onnx": "onnx"} if _LAZY[name] == "_convert._report" else _TO_CONVERT
        need(f"opgraft.sklearn.{name}", "sklearn", packages)
        value = getattr(importlib.import_module(f"opgraft.sklearn.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.sklearn' has no attribute {name!r}")
