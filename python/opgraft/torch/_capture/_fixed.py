"""Finds numbers that a captured program reads from tensors but that no argument influences.

A model may create a mask of ones and ask whether any of it is 0. For torch that is a decision by
data, but it is the same for all data.
"""

from __future__ import annotations

import re

import torch
from torch.export.graph_signature import InputKind

from opgraft.torch import _private
from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._graph import operator_name

#: Operators that use the size and the type of a tensor, but none of its elements.
_OF_SIZES = frozenset(
    f"aten::{name}"
    for name in (
        "full_like new_full new_ones new_zeros ones_like sym_size sym_numel sym_stride zeros_like"
    ).split()
)


def fixed_symbols(program: torch.export.ExportedProgram) -> set[str]:
    """torch's symbols for such numbers. A number that depends on an open size is not fixed."""
    varying: set[torch.fx.Node] = set()
    given = _given(program)
    found: dict[str, bool] = {}
    is_written = False
    for node in program.graph.nodes:
        if is_written or _varies(node, given, varying):
            varying.add(node)
        # Views may hide whose memory is written to: everything after such a write may depend on
        # the arguments.
        is_written = is_written or (_is_writing(node) and node in varying)
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            is_fixed = node not in varying
            for symbol in re.findall(r"\b\w+\b", str(_private.as_read(value))):
                found[symbol] = found.get(symbol, True) and is_fixed
    return {symbol for symbol, is_fixed in found.items() if is_fixed}


def _given(program: torch.export.ExportedProgram) -> set[str]:
    """The placeholders whose data may differ from call to call: the arguments. If the model writes
    to its state, all of its state too, since buffers may share memory."""
    signature = program.graph_signature
    specs = signature.input_specs
    arguments = {str(one.arg.name) for one in specs if one.kind is InputKind.USER_INPUT}
    waiting = [one for node in program.graph.nodes if _is_writing(node) for one in _targets(node)]
    seen: set[torch.fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += _owners(node)
    kept = {str(one.arg.name) for one in specs} - arguments
    # A draft has the writes in the graph, other programs have them in the signature.
    is_written = signature.buffers_to_mutate or any(one.name in kept for one in seen)
    return arguments | kept if is_written else arguments


def _targets(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The values whose memory a writing node may write to."""
    if isinstance(node.target, _private.OpOverload) and _private.is_mutable(node.target):
        return _nodes_of(node, _private.written_arguments(node.target))
    return list(node.all_input_nodes)


def _owners(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes whose memory the result of a node may share."""
    if not isinstance(node.target, _private.OpOverload):
        return list(node.all_input_nodes)
    names = _private.lent_arguments(node.target)
    if not names and _private.is_composite(node.target):  # such as dropout, which may do nothing
        names = [name for name, *_ in _private.parameters_of(node.target)[:1]]
    return _nodes_of(node, names)


def _nodes_of(node: torch.fx.Node, names: list[str]) -> list[torch.fx.Node]:
    """The nodes that are passed for these arguments of a node."""
    values = _graph.arguments(node)
    leaves = _private.tree_leaves([values.get(name) for name in names])
    return [one for one in leaves if isinstance(one, torch.fx.Node)]


def _varies(node: torch.fx.Node, given: set[str], varying: set[torch.fx.Node]) -> bool:
    """Whether a node's result depends on an argument, on random numbers, or on uninitialised
    memory."""
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
    if node.op != "call_function" or _private.is_builtin(node.target):
        return False
    if not isinstance(node.target, _private.OpOverload):
        bodies = [getattr(node.graph.owning_module, str(one.target), None) for one in _bodies(node)]
        graphs = [one.graph for one in bodies if isinstance(one, torch.fx.GraphModule)]
        is_known = bool(graphs) and len(graphs) == len(bodies)
        return not is_known or any(_is_writing(one) for graph in graphs for one in graph.nodes)
    if _private.is_mutable(node.target):
        return True
    # In training they write to their running statistics; their schemas do not say so.
    is_norm = re.search("batch_norm|instance_norm", operator_name(node.target))
    return is_norm is not None and _graph.arguments(node).get("training") is not False


def _bodies(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes of a higher-order operator's bodies, which may write to its arguments."""
    return [one for one in node.all_input_nodes if one.op == "get_attr"]
