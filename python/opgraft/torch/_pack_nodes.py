"""The rung of packs: operators in C++ that say which of torch's they can stand for."""

from __future__ import annotations

from typing import Any

import torch

from opgraft import _packs, _pyop
from opgraft.torch import _nodes, _private, _translation
from opgraft.torch._answers import answering
from opgraft.torch._graph import operator_name
from opgraft.torch._ladder import Graft
from opgraft.torch._symbolic import ALIASES

#: What ONNX Runtime has itself, so that no pack is needed to run it; and the types that it takes.
_OF_THE_RUNTIME = {
    "aten::linalg_inv": (
        "com.microsoft",
        "Inverse",
        (torch.float32, torch.float64, torch.float16),
    ),
}
for _name, _operator in list(_OF_THE_RUNTIME.items()):
    _OF_THE_RUNTIME |= dict.fromkeys(ALIASES.get(_name, ()), _operator)


def takes(target: Any) -> bool:
    if not isinstance(target, _private.OpOverload):
        return False
    return operator_name(target) in _OF_THE_RUNTIME or any(answering(target, native=True))


def graft(node: torch.fx.Node) -> Graft | None:
    return _of_a_pack(node) or _of_the_runtime(node)


def _of_a_pack(node: torch.fx.Node) -> Graft | None:
    for one in answering(node.target, native=True):
        native = next(n for n in _packs.operators() if n.full_name == one.schema.full_name)
        if _fits(native, node):
            build = _translation.answer(one.schema, node.target)
            return Graft("pack", build, one.schema.full_name, packs=(native.pack,))
    return None


def _fits(native: _pyop.Schema, node: torch.fx.Node) -> bool:
    """Whether the pack's operator is for the types of the node's tensors."""
    examples = [one.meta.get("val") for one in node.all_input_nodes]
    tensors = [one for one in examples if isinstance(one, torch.Tensor)]
    for parameter, tensor in zip(native.inputs, tensors, strict=False):
        allowed = native.types[parameter.type].allowed
        if tensor.is_complex() or (allowed and _private.onnx_type(tensor.dtype) not in allowed):
            return False
    return True


def _of_the_runtime(node: torch.fx.Node) -> Graft | None:
    known = _OF_THE_RUNTIME.get(operator_name(node.target))
    example = node.meta.get("val")
    if known is None or not isinstance(example, torch.Tensor) or example.dtype not in known[2]:
        return None
    domain, name, _ = known

    def build(*args: Any, **kwargs: Any) -> Any:
        return _nodes.append(domain, name, args[:1], {}, 1, version=1)[0]

    return Graft("pack", build, f"{domain}::{name} (of ONNX Runtime)")
