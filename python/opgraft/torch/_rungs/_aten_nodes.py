"""The rung of ATen nodes: libtorch runs the operator, without Python."""

from __future__ import annotations

from typing import Any

import torch

from opgraft import _pyop
from opgraft.torch import _private
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs import _aten, _nodes
from opgraft.torch._rungs._ladder import Graft

_ADVICE = "a translation, an operator of yours or of a pack"


def takes(target: Any) -> bool:
    """Whether it is on the list of operators for ATen nodes."""
    if not isinstance(target, _private.OpOverload) or _private.namespace_of(target) != "aten":
        return False
    return _pyop.aten_is_listed(operator_name(target)) is not None


def graft(node: torch.fx.Node) -> Graft | None:
    name = operator_name(node.target)
    # Some do not check their arguments: they run only if a host allows them by name.
    allow = () if _pyop.aten_is_listed(name) else (name,)

    def build(*args: Any, **kwargs: Any) -> Any:
        arguments = _nodes.inputs_of(node, args, kwargs)
        example = node.meta["val"]
        written = _aten.aten_node(node.target, *arguments, example)  # type: ignore[arg-type]
        values = _nodes.append(
            _aten.DOMAIN,
            _aten.OP_TYPE,
            written.inputs,
            written.attributes,
            len(written.outputs),
            version=_aten.DOMAIN_VERSION,
        )
        return _nodes.arrange(values, example)

    return Graft("aten", build, "ATen", _ADVICE, allow)
