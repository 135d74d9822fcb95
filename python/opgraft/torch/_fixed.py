"""Numbers that a captured program reads from tensors, but that no argument has a say in.

A model may make a mask of ones and ask whether any of it is 0. To torch that is a decision by data,
and yet it is the same for whatever data comes.
"""

from __future__ import annotations

import re

import torch
from torch.export.graph_signature import InputKind

from opgraft.torch import _graph, _private
from opgraft.torch._graph import operator_name

#: They take the size and the type of a tensor, and none of its elements.
_OF_SIZES = frozenset(
    f"aten::{name}"
    for name in (
        "full_like new_full new_ones new_zeros ones_like sym_size sym_numel sym_stride zeros_like"
    ).split()
)


def fixed_symbols(program: torch.export.ExportedProgram) -> set[str]:
    """The names that torch has for such numbers; where sizes are open, for none."""
    varying: set[torch.fx.Node] = set()
    specs = program.graph_signature.input_specs
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    given = {
        str(one.arg.name)
        for one in specs
        if one.kind is InputKind.USER_INPUT or one.target in mutated
    }
    found: dict[str, bool] = {}
    is_written = False
    for node in program.graph.nodes:
        if is_written or _varies(node, given, varying):
            varying.add(node)
        # Whose memory it is that arguments are written to, views may hide: all that comes later
        # may depend on them.
        is_written = is_written or (_is_writing(node) and node in varying)
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            is_fixed = node not in varying
            for symbol in re.findall(r"\b\w+\b", str(_private.as_read(value))):
                found[symbol] = found.get(symbol, True) and is_fixed
    return {symbol for symbol, is_fixed in found.items() if is_fixed}


def _varies(node: torch.fx.Node, given: set[str], varying: set[torch.fx.Node]) -> bool:
    """Whether what a node gives depends on an argument, on chance, or on memory as it is found."""
    if node.op == "placeholder":
        return node.name in given
    if node.op != "call_function":
        return True
    name = operator_name(node.target).partition(".")[0]
    if _graph.is_random(node) or _graph.is_uninitialised(node.target):
        return True
    if not isinstance(node.target, _private.OpOverload) and not _private.is_builtin(node.target):
        return True
    if name in _OF_SIZES:
        sizes = (one.meta.get("val") for one in node.all_input_nodes)
        shapes = [one.shape for one in sizes if isinstance(one, torch.Tensor)]
        others = [one for one in node.all_input_nodes if one not in node.args[:1]]
        is_open = any(isinstance(size, torch.SymInt) for shape in shapes for size in shape)
        return is_open or any(one in varying for one in others)
    return any(one in varying for one in node.all_input_nodes)


def _is_writing(node: torch.fx.Node) -> bool:
    return isinstance(node.target, _private.OpOverload) and _private.is_mutable(node.target)
