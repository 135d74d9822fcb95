"""Opens operators defined with `torch.library.custom_op`: replaces them by their bodies.

A body that is plain torch code is traced, and its operators become part of the model. The trace
must be right for all arguments of the operator, whether the export is verified or not. Otherwise
the operator is kept whole, and becomes a Python node in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import OutputKind

from opgraft.torch import _private
from opgraft.torch._capture import _plain_code
from opgraft.torch._capture._capture import quiet
from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs import _ladder

#: Rungs that are preferred to an operator's body, since they were written for the operator.
_BETTER = ("operator", "function", "pack")


#: Constants of at most this many elements are written out one by one.
_MOST_CONSTANTS = 64
_numbers = itertools.count(1)


class Untraceable(Exception):
    """Says why a body cannot replace its operator."""


@dataclass
class Opened:
    """The operators of a program that are replaced by their bodies."""

    #: The traces of their bodies, by the signature that each holds for.
    traces: dict[Any, dict[str, _Trace]] = field(default_factory=dict)
    #: Why other operators are kept whole, by name.
    reasons: dict[str, str] = field(default_factory=dict)
    #: The operators that the bodies call, by the names of the nodes.
    parts: dict[str, Any] = field(default_factory=dict)
    _owners: dict[str, Any] = field(default_factory=dict)

    def bodies(self, kept: Mapping[str, Any]) -> dict[Any, _private.Body]:
        """Their decompositions, except for those that are kept whole."""
        return {
            one: _Body(traces)
            for one, traces in self.traces.items()
            if operator_name(one) not in kept
        }

    def add(self, target: Any, key: str, trace: _Trace) -> None:
        self.traces.setdefault(target, {})[key] = trace
        for _, node in _graph.calls(trace.program):
            self.parts[node.name] = node.target
            self._owners[node.name] = target

    def owner(self, name: str) -> Any:
        """The operator whose body contains the node of this name, or None."""
        return self._owners.get(name)


@dataclass
class _Body:
    traces: Mapping[str, _Trace]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.traces[_signature(args, kwargs)](*args, **kwargs)


def open_operators(
    captured: torch.export.ExportedProgram, registry: Any, kinds: Collection[str]
) -> Opened:
    """Opens the operators of a captured program that have no translation and no better rung."""
    found = Opened()
    better = [kind for kind in kinds if kind in _BETTER]
    for _, node in _graph.calls(captured):
        name = operator_name(node.target)
        body = _private.body_of(node.target)
        if body is None or name in found.reasons or _private.find_added(node, registry) is not None:
            continue
        if _ladder.can_graft(node.target, better):
            continue
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda one: one.meta.get("val"))
        key = _signature(args, kwargs)
        if key in found.traces.get(node.target, ()):
            continue
        try:
            found.add(node.target, key, _traced(node, body, args, kwargs))
        except Untraceable as error:
            found.reasons[name] = str(error)
            found.traces.pop(node.target, None)
    return found


def _traced(node: torch.fx.Node, body: _private.Body, args: Any, kwargs: Any) -> _Trace:
    target: Any = node.target
    if _private.is_mutable(target):
        raise Untraceable("it writes to its arguments")
    reason = _plain_code.impurity(body)
    if reason:
        raise Untraceable(reason)
    if not set(_private.returns_of(target)) <= {"Tensor", "List[Tensor]"}:
        raise Untraceable("it returns something other than tensors")
    trace = _Trace(body, args, kwargs, _private.schema_of(target)[1])
    wanted, got = map(_likeness, (node.meta["val"], trace.results))
    if wanted != got:
        raise Untraceable(f"it returns {got}, but its fake function says {wanted}")
    return trace


def _signature(*values: Any) -> str:
    """What a trace depends on: the arguments, without the elements of tensors and their memory
    layout, which plain torch code does not read."""
    texts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            texts.append(f"{value.dtype}{list(value.shape)}")
        elif isinstance(value, Mapping):
            texts += [f"{name}={_signature(one)}" for name, one in value.items()]
        elif isinstance(value, (list, tuple)):
            texts.append(f"[{_signature(*value)}]")
        else:
            texts.append(f"{type(value).__name__} {value}")
    return ", ".join(texts)


def _likeness(results: Any) -> str:
    leaves = _private.tree_leaves(results)
    return ", ".join(
        f"{one.dtype} of {one.dim()} axes" if isinstance(one, torch.Tensor) else str(one)
        for one in leaves
    )


class _Trace:
    """A body as a graph without writes; open sizes stay open."""

    def __init__(self, body: _private.Body, args: Any, kwargs: Any, returns: list[str]) -> None:
        self._returns = returns
        leaves, shape = _private.flatten((list(args), dict(kwargs)))
        self._places = [i for i, one in enumerate(leaves) if _is_input(one)]

        class Model(torch.nn.Module):
            def forward(self, *inputs: Any) -> Any:
                for place, one in zip(places, inputs, strict=True):
                    leaves[place] = one
                args, kwargs = _private.unflatten(leaves, shape)
                return body(*args, **kwargs)

        places = self._places
        inputs = [leaves[place] for place in places]
        examples = tuple(map(_example, inputs))
        sizes = (tuple(map(_open_sizes, inputs)),)
        try:
            with quiet(), torch.no_grad():
                program = torch.export.export(Model(), examples, dynamic_shapes=sizes)
                self.program = program.run_decompositions({})
        except Exception as error:
            raise Untraceable(titled_line(error)) from error
        if any(one.numel() > _MOST_CONSTANTS for one in self.program.constants.values()):
            raise Untraceable("it has a tensor of many constants")
        kinds = {one.kind for one in self.program.graph_signature.output_specs}
        if kinds != {OutputKind.USER_OUTPUT}:
            raise Untraceable("it writes to its arguments")
        for node in self.program.graph.nodes:
            # Nodes decomposed from it are found by this name, which no node of the model has.
            node.meta.pop("from_node", None)
            if node.op == "call_function":
                node.name = f"body_{next(_numbers)}_{node.name}"
        output = next(node for node in self.program.graph.nodes if node.op == "output")
        self.results = [
            one.meta["val"] if isinstance(one, torch.fx.Node) else one for one in output.args[0]
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, _ = _private.flatten((list(args), dict(kwargs)))
        inputs = _graph.all_inputs(self.program, [leaves[place] for place in self._places])
        constants = len(inputs) - len(self._places)
        inputs[:constants] = map(_by_operators, inputs[:constants])
        results = torch.fx.Interpreter(self.program.graph_module).run(*inputs)
        if self._returns == ["Tensor"]:
            return results[0]
        return list(results) if len(self._returns) == 1 else tuple(results)


def _by_operators(constant: torch.Tensor) -> torch.Tensor:
    """Builds a constant, such as torch.tensor([1.0, 2.0]) in a body, with operators: torch loses
    constants of a decomposition."""
    numbers = [torch.full((), one, dtype=constant.dtype) for one in constant.flatten().tolist()]
    if constant.dim() == 0:
        return numbers[0]
    if not numbers:
        return torch.zeros(constant.shape, dtype=constant.dtype)
    return torch.stack(numbers).reshape(constant.shape)


def _is_input(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, torch.SymInt))


def _example(value: Any) -> Any:
    """A value with the sizes of the model's example; its elements are never read."""
    if isinstance(value, torch.SymInt):
        return _number(value)
    sizes, strides = ([*map(_number, numbers)] for numbers in (value.shape, value.stride()))
    return torch.empty_strided(sizes, strides, dtype=value.dtype)


def _number(size: Any) -> int:
    number = size if isinstance(size, int) else _private.hint(size)
    if number is None:
        raise Untraceable("a size of its arguments depends on data")
    return number


def _open_sizes(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return torch.export.Dim.DYNAMIC
    return {
        axis: _dim(size) for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)
    }


def _dim(size: torch.SymInt) -> Any:
    expression = _private.expression(size)
    if not expression.is_Symbol:
        raise Untraceable("a size of its arguments is computed from open ones")
    return torch.export.Dim(str(expression))
