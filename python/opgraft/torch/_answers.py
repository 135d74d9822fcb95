"""The rung of the user's own operators: those that say which of torch's they can stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from opgraft import _declare
from opgraft.torch import _operators, _private, _translation
from opgraft.torch._graph import operator_name
from opgraft.torch._ladder import Graft
from opgraft.torch._symbolic import ALIASES


def takes(target: Any) -> bool:
    return isinstance(target, _private.OpOverload) and any(answering(target, native=False))


def graft(node: torch.fx.Node) -> Graft | None:
    for one in answering(node.target, native=False):
        build = _translation.answer(one.schema, node.target)
        return Graft("operator", build, one.schema.full_name)
    return None


def answering(target: Any, *, native: bool) -> Iterator[_operators.TorchOperator]:
    """The operators of ours that can stand for one of torch's, by whichever of its names: those of
    packs, or those declared in Python."""
    name = operator_name(target)
    names = {name, name.partition(".")[0], *ALIASES.get(name, ())}
    for one in _operators.known():
        if isinstance(one.source, _declare.Operator) is native:
            continue
        if names.intersection(map(str.strip, one.schema.answers_to.split(","))):
            yield one
