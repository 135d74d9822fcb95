"""Makes as_strided read the tensor that owns the memory, instead of a view of it.

as_strided of a slice may read memory outside of the slice. An ONNX tensor has no such memory, but
the tensor that was sliced is in the graph too.
"""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._graphs import _graph

_READERS = frozenset({"aten::as_strided", "aten::as_strided_copy"})


def read_owners(program: torch.export.ExportedProgram) -> None:
    """Changes a decomposed program in place. It must not have operators that write to tensors."""
    for _, node in _graph.calls(program):
        if _graph.operator_name(node.target) not in _READERS:
            continue
        given = node.args[0]
        owner = _owner(given)
        if owner is given or not isinstance(given, torch.fx.Node):
            continue
        arguments: list[Any] = [owner, *node.args[1:]]
        offset = node.kwargs.get("storage_offset")
        if len(arguments) == 4 and arguments[3] is not None:
            offset = arguments[3]
        if offset is None:  # the default is the offset of the tensor
            offset = given.meta["val"].storage_offset()
            if not isinstance(offset, int):
                continue
        node.args = (*arguments[:3], offset)
        node.kwargs = {}


def _owner(node: Any) -> Any:
    """Returns the tensor that a chain of views starts from."""
    while isinstance(node, torch.fx.Node) and _private.is_view(node.target):
        source = node.args[0] if node.args else None
        if not isinstance(source, torch.fx.Node):
            break
        if not isinstance(source.meta.get("val"), torch.Tensor):
            break
        if source.meta["val"].dtype != node.meta["val"].dtype:  # offsets are in elements
            break
        node = source
    return node
