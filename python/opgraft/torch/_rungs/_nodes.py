"""Makes ONNX nodes for nodes of a torch graph, inside a translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opgraft._base._errors import ModelError
from opgraft.torch import _private
from opgraft.torch._rungs._aten import Input


def inputs_of(
    node: torch.fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a node: its constants, and an `Input` for each value of the ONNX
    graph in `args` and `kwargs`."""
    return (
        [_join(own, given) for own, given in zip(node.args, args, strict=True)],
        {name: _join(own, kwargs.get(name)) for name, own in node.kwargs.items()},
    )


def _join(own: Any, given: Any) -> Any:
    if isinstance(own, torch.fx.Node):
        example = own.meta.get("val")
        if isinstance(given, (list, tuple)) and isinstance(example, (list, tuple)):
            return [Input.like(one, what) for one, what in zip(given, example, strict=True)]
        if not isinstance(given, ir.Value):
            raise ModelError(f"node '{own.name}' is not a tensor, but {type(given).__name__}")
        return Input.like(given, example)
    if isinstance(own, (list, tuple)):
        return [_join(one, value) for one, value in zip(own, given, strict=True)]
    return own


def append(
    domain: str,
    op_type: str,
    inputs: Iterable[Any],
    attributes: Mapping[str, Any],
    outputs: int,
    *,
    version: int | None = None,
) -> list[Any]:
    """Adds a node to the graph that is being translated; returns the values of its outputs."""
    values = [_private.new_value() for _ in range(outputs)]
    node = ir.Node(
        domain,
        op_type,
        list(inputs),
        ir.convenience.convert_attributes(attributes),
        outputs=values,
        version=version,
    )
    _private.recorder().nodes.append(node)
    return values


def arrange(values: Sequence[Any], example: Any) -> Any:
    """Arranges the outputs of a node like the results in torch: one value, or one for each result.
    A result that is None gets a value that no node computes."""
    if not isinstance(example, (list, tuple)):
        return values[0]
    left = iter(values)
    return [_private.new_value() if one is None else next(left) for one in example]
