"""The rung of the user's own operators, if they declare a torch operator that they replace."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs import _stand_in, _translation
from opgraft.torch._rungs._ladder import Graft
from opgraft.torch._rungs._stand_in import StandIn


def takes(target: Any) -> bool:
    return isinstance(target, _private.OpOverload) and bool(_answering(target))


def graft(node: torch.fx.Node) -> Graft | None:
    for one in _answering(node.target):
        build = _translation.answer(one, node.target)
        return Graft("operator", build, one.schema.full_name)
    return None


def _answering(target: Any) -> list[StandIn]:
    """Returns the operators declared in Python that can replace a torch operator."""
    name = operator_name(target)
    return [one for one in _stand_in.known() if one.native is None and one.calls_of(name)]
