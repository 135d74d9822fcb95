"""Opgraft for PyTorch: operators in eager mode, and exports that no missing operator stops."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opgraft.torch import _operators

if TYPE_CHECKING:
    from opgraft.torch._export import export
    from opgraft.torch._gradient import register_backward
    from opgraft.torch._operators import operator
    from opgraft.torch._translation import translation_table

__all__ = ["export", "operator", "register_backward", "translation_table"]

_LAZY = {
    "export": "opgraft.torch._export",
    "operator": "opgraft.torch._operators",
    "register_backward": "opgraft.torch._gradient",
    "translation_table": "opgraft.torch._translation",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opgraft.torch' has no attribute {name!r}")


_operators.register_all()
