"""The packages that opgraft.torch needs."""

from __future__ import annotations

from opgraft._base._needed import need

#: Those that have to do with ONNX; operators in eager mode do without them. onnxscript brings
#: onnx_ir.
_TO_EXPORT = {"onnx": "onnx", "onnx_ir": "onnxscript", "onnxscript": "onnxscript"}


def need_torch() -> None:
    need("opgraft.torch", "torch", {"torch": "torch, 2.10 or newer"})


def need_to_export(who: str) -> None:
    """What every export needs; `who` is the name that was asked for."""
    need(who, "torch", _TO_EXPORT)
