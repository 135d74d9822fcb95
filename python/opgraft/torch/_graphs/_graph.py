"""The graph of a captured or decomposed program: its nodes, and where each comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.export.graph_signature import InputKind

from opgraft.torch import _private


class Place(NamedTuple):
    """Identifies a node, even after the program has been decomposed again."""

    module: str  # "" for the main graph of the program, else the path of a body of control flow
    origin: str  # the name of the captured node that it was decomposed from
    target: str
    number: int  # among the nodes with the same origin and target

    @property
    def source(self) -> tuple[str, str]:
        """The module and the name of the captured node."""
        return self.module, self.origin


def graphs(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.fx.Graph]]:
    """Yields the main graph of a program, and the bodies of its control flow."""
    for path, module in program.graph_module.named_modules():
        if isinstance(module, torch.fx.GraphModule):
            yield path, module.graph


def calls(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.fx.Node]]:
    for path, graph in graphs(program):
        for node in graph.nodes:
            if node.op == "call_function":
                yield path, node


def places(program: torch.export.ExportedProgram) -> dict[torch.fx.Node, Place]:
    numbers: Counter[tuple[str, str, str]] = Counter()
    found = {}
    for path, node in calls(program):
        key = path, _private.origin(node), operator_name(node.target)
        found[node] = Place(*key, numbers[key])
        numbers[key] += 1
    return found


def operator_name(target: Any) -> str:
    """Returns a name such as "aten::cumprod", or "aten::median.dim" if the overload has a name."""
    if isinstance(target, _private.OpOverload):
        return _private.overload_name(target)
    return str(getattr(target, "__name__", target))


def is_random(node: torch.fx.Node) -> bool:
    """Whether the results of a node differ from run to run. torch tags attention and recurrent
    layers as random, but they are random only with dropout."""
    target = node.target
    if not isinstance(target, _private.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    values = arguments(node)
    dropout = values.get("dropout_p", values.get("dropout"))
    return not (dropout == 0 or (dropout is not None and values.get("train") is False))


def arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Returns the arguments of a call by name, with the defaults of those that are not given."""
    values = {name: default for name, _, default in _private.parameters_of(node.target)}
    return values | dict(zip(values, node.args, strict=False)) | node.kwargs


#: Elementwise operators that torch does not tag as such.
_POINTWISE = frozenset(("aten::_prelu_kernel", "aten::prelu"))


def is_pointwise(target: Any) -> bool:
    """Whether an operator is elementwise."""
    if not isinstance(target, _private.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or operator_name(target) in _POINTWISE


_UNINITIALISED = frozenset(
    """aten::empty aten::empty_like aten::empty_permuted aten::empty_strided aten::new_empty
    aten::new_empty_strided prims::empty prims::empty_permuted prims::empty_strided""".split()
)


def is_uninitialised(target: Any) -> bool:
    """Whether an operator returns uninitialised memory."""
    return operator_name(target).partition(".")[0] in _UNINITIALISED


def all_inputs(program: torch.export.ExportedProgram, leaves: Sequence[Any]) -> list[Any]:
    """Returns all inputs of the graph of a program: its parameters, buffers and constants, and the
    values of the caller."""
    left = iter(leaves)
    return [
        next(left)
        if spec.kind is InputKind.USER_INPUT
        else program.state_dict[spec.target]
        if spec.target in program.state_dict
        else program.constants[spec.target]
        for spec in program.graph_signature.input_specs
    ]


def is_in_training(program: torch.export.ExportedProgram) -> bool:
    """Whether a captured program has an operator in training mode, such as dropout."""
    return any(
        is_random(node) or (operator_name(node.target) == "aten::batch_norm" and node.args[5])
        for _, node in calls(program)
    )
