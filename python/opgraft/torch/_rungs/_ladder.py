"""The rungs for torch operators without a translation, best first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import torch

Kind = Literal["operator", "function", "pack", "aten", "python"]
#: In the order in which they are tried.
KINDS: tuple[Kind, ...] = ("operator", "function", "pack", "aten", "python")

_HOMES: dict[Kind, str] = {
    "operator": "opgraft.torch._rungs._answers",
    "function": "opgraft.torch._rungs._functions",
    "pack": "opgraft.torch._rungs._pack_nodes",
    "aten": "opgraft.torch._rungs._aten_nodes",
    "python": "opgraft.torch._rungs._python_nodes",
}


@dataclass(frozen=True)
class Graft:
    """Translates one node of a torch graph to nodes of ONNX.

    `build` is called in the same way as torch's own translations: with the arguments of the node,
    in which values of the ONNX graph replace tensors and sizes. It returns one value, or a list.
    """

    kind: Kind
    build: Callable[..., Any]
    became: str
    #: What would make the operator portable; empty if it already is.
    advice: str = ""
    #: What a session must allow, and the packs that must be loaded.
    allow: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()


def can_graft(target: Any, kinds: Collection[str]) -> bool:
    """Whether a rung takes this operator without decomposing it, at least for some arguments."""
    return any(_home(kind).takes(target) for kind in KINDS if kind in kinds)


def find(node: torch.fx.Node, kinds: Collection[str]) -> Graft | None:
    """Returns the graft of the best rung of these kinds that takes the node."""
    for kind in KINDS:
        if kind in kinds and _home(kind).takes(node.target):
            graft: Graft | None = _home(kind).graft(node)
            if graft is not None:
                return graft
    return None


def _home(kind: Kind) -> Any:
    return importlib.import_module(_HOMES[kind])
