"""Opgraft for PyTorch: operators in eager mode, and exports that no missing operator stops."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opgraft.torch._dynamo_export import (
        DiagnosticOptions,
        ExportOptions,
        dynamo_export,
        enable_fake_mode,
    )
    from opgraft.torch._legacy_program import ONNXProgram, ONNXRuntimeOptions
    from opgraft.torch._registry import OnnxRegistry
    from opgraft.torch._symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "DiagnosticOptions",
    "ExportOptions",
    "ONNXProgram",
    "ONNXRuntimeOptions",
    "OnnxRegistry",
    "dynamo_export",
    "enable_fake_mode",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

_LAZY = {
    "DiagnosticOptions": "_dynamo_export",
    "ExportOptions": "_dynamo_export",
    "ONNXProgram": "_legacy_program",
    "ONNXRuntimeOptions": "_legacy_program",
    "OnnxRegistry": "_registry",
    "dynamo_export": "_dynamo_export",
    "enable_fake_mode": "_dynamo_export",
    "register_custom_op_symbolic": "_symbolic",
    "unregister_custom_op_symbolic": "_symbolic",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"opgraft.torch.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.torch' has no attribute {name!r}")
