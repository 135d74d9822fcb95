"""Extracts the ONNX nodes of one operator of torch's graph as a separate model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch

from opgraft._run._torch_arrays import from_array, to_array
from opgraft.torch._program._dispatch import Choice, Translated

#: Opens a session for a model.
Open = Callable[[bytes], Any]
#: A result in torch's graph: the node, and the index of the result if it has several.
Source = tuple[torch.fx.Node, int | None]


class Parts:
    """Splits a translated program by its choices."""

    def __init__(self, translated: Translated, opset: int = 0) -> None:
        """`opset` is the lowest opset for the extracted models."""
        self.model = translated.onnx.model
        self._opset = opset
        self.groups: dict[torch.fx.Node, list[ir.Node]] = {}
        for graph in (self.model.graph, *self.model.functions.values()):
            for node in graph:
                if "node" in node.meta:
                    self.groups.setdefault(node.meta["node"], []).append(node)

    def sources(self, choice: Choice) -> dict[ir.Value, Source]:
        """Maps the input values of a choice to the results in torch's graph."""
        sources = dict(_values_of(choice.node.args, choice.args))
        for name, given in choice.kwargs.items():
            sources.update(_values_of(choice.node.kwargs.get(name), given))
        return sources

    def inputs(
        self,
        choice: Choice,
        sources: Mapping[ir.Value, Source],
        outputs: Sequence[ir.Value],
        fetch: Callable[[Source], Any],
    ) -> tuple[dict[str, Any], list[ir.Node]]:
        """Returns the inputs of a choice's nodes by name; and the nodes, including the nodes of
        constants that are shared with other choices."""
        own = self.groups.get(choice.node, [])
        produced = {value for node in own for value in node.outputs}
        feed: dict[str, Any] = {}
        nodes: list[ir.Node] = []
        for value in dict.fromkeys((*_used(own), *outputs)):
            if value in produced:
                continue
            if value in sources:
                feed[str(value.name)] = fetch(sources[value])
            elif (producer := value.producer()) is not None:
                nodes.append(producer)
            elif value.const_value is not None:
                feed[str(value.name)] = value.const_value.numpy()
        return feed, [*nodes, *own]

    def _may_call(self, node: ir.Node) -> bool:
        """Whether a node, or a graph inside it, may call a function of the model."""
        return node.op_identifier() in self.model.functions or _has_graphs(node)

    def build(
        self,
        nodes: Iterable[ir.Node],
        feed: Mapping[str, Any],
        values: Sequence[ir.Value],
        wanted: Sequence[Any],
    ) -> onnx.ModelProto:
        """Returns a model with only these nodes."""
        nodes = list(nodes)
        model = onnx.ModelProto(ir_version=self.model.ir_version)
        model.graph.name = "part"
        # torch translates some operators to a newer opset. It converts the whole model later.
        newest = max((node.version or 0 for node in nodes if not node.domain), default=0)
        # Functions that graphs call may have our operators. Then they are inlined, which needs a
        # single opset.
        has_graphs = any(map(_has_graphs, nodes))
        for domain, version in self.model.opset_imports.items():
            least = 0 if domain or has_graphs else max(newest, self._opset)
            model.opset_import.add(domain=domain, version=max(version, least))
        model.graph.node.extend(ir.serde.serialize_node(node) for node in nodes)
        model.graph.input.extend(_info(name, value) for name, value in feed.items())
        model.graph.output.extend(
            _info(str(value.name), example, shaped=False)
            for value, example in zip(values, wanted, strict=True)
        )
        if any(self._may_call(node) for node in nodes):
            model.functions.extend(
                ir.serde.serialize_function(one) for one in self.model.functions.values()
            )
        return model


def _has_graphs(node: ir.Node) -> bool:
    return any(
        one.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for one in node.attributes.values()
    )


def _used(nodes: Iterable[ir.Node]) -> Iterable[ir.Value]:
    """Returns the inputs of nodes and of the graphs inside them, each once."""
    seen: dict[ir.Value, None] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                seen[value] = None
        for attribute in node.attributes.values():
            inner = (
                [attribute.value]
                if attribute.type == ir.AttributeType.GRAPH
                else attribute.value
                if attribute.type == ir.AttributeType.GRAPHS
                else []
            )
            for graph in inner:
                made = {value for one in graph for value in one.outputs} | set(graph.inputs)
                made |= set(graph.initializers.values())
                seen.update(dict.fromkeys(value for value in _used(graph) if value not in made))
    return seen


def _values_of(own: Any, given: Any) -> Iterable[tuple[ir.Value, Source]]:
    """Pairs values of the ONNX graph with nodes of torch's graph, or with one of their results."""
    if isinstance(own, torch.fx.Node):
        if isinstance(given, ir.Value):
            yield given, (own, None)
        elif isinstance(given, (list, tuple)):
            for place, value in enumerate(given):
                if isinstance(value, ir.Value):
                    yield value, (own, place)
    elif isinstance(own, (list, tuple)) and isinstance(given, (list, tuple)):
        for one, value in zip(own, given, strict=False):
            yield from _values_of(one, value)


def outputs_of(result: Any, outputs: Any) -> tuple[list[Any], list[ir.Value]]:
    """Returns the results of a node and their ONNX values, without absent ones."""
    if isinstance(outputs, ir.Value):
        return [result], [outputs]
    pairs = [
        (one, value)
        for one, value in zip(result, outputs, strict=False)
        if one is not None and isinstance(value, ir.Value) and value.producer() is not None
    ]
    return [one for one, _ in pairs], [value for _, value in pairs]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def flattened(values: Iterable[Any]) -> list[Any]:
    return [one for value in values for one in _listed(value)]


def as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)):
        return [to_array(one) for one in value]
    return to_array(value)


def as_tensors(array: Any) -> list[torch.Tensor]:
    return [from_array(np.asarray(one)) for one in _listed(array)]


def _info(name: str, value: Any, *, shaped: bool = True) -> onnx.ValueInfoProto:
    if isinstance(value, (list, tuple)):
        element = _info(name, value[0] if value else torch.zeros(0), shaped=False).type
        return onnx.helper.make_value_info(name, onnx.helper.make_sequence_type_proto(element))
    array = as_array(value)
    element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(
        name, element_type, list(array.shape) if shaped else None
    )
