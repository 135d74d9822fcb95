"""torch layers with a fast path whose results differ if a mask hides a whole row."""

from __future__ import annotations

import torch

from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._graph import operator_name

_ATTENTION = "aten::scaled_dot_product_attention"


def differences(program: torch.export.ExportedProgram) -> list[str]:
    """Returns the notes for the report of a captured program.

    torch.export captures the path that supports gradients. In eval mode without gradients torch
    takes its fast path, in which the softmax of a hidden row is NaN.
    """
    for _, node in _graph.calls(program):
        if operator_name(node.target) != _ATTENTION:
            continue
        if _graph.arguments(node).get("attn_mask") is None:
            continue
        stack = node.meta.get("nn_module_stack") or {}
        if any("TransformerEncoderLayer" in str(layer) for _, layer in stack.values()):
            return [
                f"{_ATTENTION} in torch.nn.TransformerEncoderLayer: if a mask hides a whole row "
                "(a sequence of nothing but padding), torch's fast path, in eval mode without "
                "gradients, returns NaN; the exported model returns the numbers of the other path"
            ]
    return []
