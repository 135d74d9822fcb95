"""Opgraft for PyTorch: operators in eager mode, and exports that no missing operator stops."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opgraft.torch._export import export

__all__ = ["export"]

_LAZY = {
    "export": "opgraft.torch._export",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.torch' has no attribute {name!r}")
