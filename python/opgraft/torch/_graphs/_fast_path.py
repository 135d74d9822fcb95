"""Layers of torch's that have two ways to compute the same, which differ where a mask hides all."""

from __future__ import annotations

import torch

from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._graph import operator_name

_ATTENTION = "aten::scaled_dot_product_attention"


def differences(program: torch.export.ExportedProgram) -> list[str]:
    """What to tell of a captured program. torch.export captures the way that has gradients; in eval
    mode without them torch takes another, whose softmax of a row that is hidden is no number."""
    for _, node in _graph.calls(program):
        if operator_name(node.target) != _ATTENTION:
            continue
        if _graph.arguments(node).get("attn_mask") is None:
            continue
        stack = node.meta.get("nn_module_stack") or {}
        if any("TransformerEncoderLayer" in str(layer) for _, layer in stack.values()):
            return [
                f"{_ATTENTION} in torch.nn.TransformerEncoderLayer: where a mask hides a whole row "
                "(a sequence of padding alone), torch's fast path, in eval mode without gradients, "
                "gives NaN; the exported model gives the numbers of its other path"
            ]
    return []
