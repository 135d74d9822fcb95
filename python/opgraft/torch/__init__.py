"""Opgraft for PyTorch: operators in eager mode, and exports that a missing operator cannot stop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opgraft.torch import _needed

_needed.need_torch()

from opgraft.torch._eager import _registered  # noqa: E402

if TYPE_CHECKING:
    from opgraft.torch._eager._gradient import register_backward
    from opgraft.torch._eager._registered import operator
    from opgraft.torch._export._export import export
    from opgraft.torch._legacy._dynamo_export import (
        DiagnosticOptions,
        ExportOptions,
        dynamo_export,
        enable_fake_mode,
    )
    from opgraft.torch._legacy._legacy_program import ONNXProgram, ONNXRuntimeOptions
    from opgraft.torch._legacy._registry import OnnxRegistry
    from opgraft.torch._legacy._symbolic import (
        register_custom_op_symbolic,
        unregister_custom_op_symbolic,
    )
    from opgraft.torch._program._program import Program
    from opgraft.torch._program._report import Report
    from opgraft.torch._rungs._translation import translation_table

__all__ = [
    "DiagnosticOptions",
    "ExportOptions",
    "ONNXProgram",
    "ONNXRuntimeOptions",
    "OnnxRegistry",
    "Program",
    "Report",
    "dynamo_export",
    "enable_fake_mode",
    "export",
    "operator",
    "register_backward",
    "register_custom_op_symbolic",
    "translation_table",
    "unregister_custom_op_symbolic",
]

_LAZY = {
    "DiagnosticOptions": "_legacy._dynamo_export",
    "ExportOptions": "_legacy._dynamo_export",
    "ONNXProgram": "_legacy._legacy_program",
    "ONNXRuntimeOptions": "_legacy._legacy_program",
    "OnnxRegistry": "_legacy._registry",
    "Program": "_program._program",
    "Report": "_program._report",
    "dynamo_export": "_legacy._dynamo_export",
    "enable_fake_mode": "_legacy._dynamo_export",
    "export": "_export._export",
    "operator": "_eager._registered",
    "register_backward": "_eager._gradient",
    "register_custom_op_symbolic": "_legacy._symbolic",
    "translation_table": "_rungs._translation",
    "unregister_custom_op_symbolic": "_legacy._symbolic",
}

#: The modules that need neither onnx nor onnxscript.
_EAGER = ("_eager._gradient", "_eager._registered")


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        if _LAZY[name] not in _EAGER:
            _needed.need_to_export(f"opgraft.torch.{name}")
        value = getattr(importlib.import_module(f"opgraft.torch.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.torch' has no attribute {name!r}")


_registered.register_all()
