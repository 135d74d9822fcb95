"""The rungs that a torch operator without a translation may stand on, best first."""

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
    """How one node of torch's graph becomes nodes of ONNX.

    `build` is called as torch calls its own translations: with the arguments of the node, in which
    values of the ONNX graph stand for tensors and sizes. It gives one value, or a list of them.
    """

    kind: Kind
    build: Callable[..., Any]
    became: str
    #: What would make the operator portable; empty where it is.
    advice: str = ""
    #: What a session must allow, and the packs that must be loaded.
    allow: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()


def can_graft(target: Any, kinds: Collection[str]) -> bool:
    """Whether a rung takes this operator whole, whatever its arguments."""
    return any(_home(kind).takes(target) for kind in KINDS if kind in kinds)


def find(node: torch.fx.Node, kinds: Collection[str]) -> Graft | None:
    """The best rung of these kinds that takes the node."""
    for kind in KINDS:
        if kind in kinds and _home(kind).takes(node.target):
            graft: Graft | None = _home(kind).graft(node)
            if graft is not None:
                return graft
    return None


def _home(kind: Kind) -> Any:
    return importlib.import_module(_HOMES[kind])
