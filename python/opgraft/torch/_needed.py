"""The packages that opgraft.torch needs."""

from __future__ import annotations

from opgraft._base._needed import need

#: Modules that exports need, and the packages that install them. Eager mode does not need them.
_TO_EXPORT = {"onnx": "onnx", "onnx_ir": "onnxscript", "onnxscript": "onnxscript"}


def need_torch() -> None:
    need("opgraft.torch", "torch", {"torch": "torch, 2.10 or newer"})


def need_to_export(who: str) -> None:
    """Raises an error unless what every export needs is installed. `who` is what needs it."""
    need(who, "torch", _TO_EXPORT)
