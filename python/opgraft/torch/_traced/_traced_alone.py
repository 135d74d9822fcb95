"""Decides whether torch's translation for captured programs is right for an operator of a trace.

Operators of captured programs are tried alone, with numbers that are not in the examples. So the
operator is exported alone: if the export does not use torch's translation, that is not right.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from opgraft._base._errors import Error
from opgraft.torch._program._dispatch import STANDARD

#: The answers so far in this process, by the operator, its arguments and the types of its tensors.
_known: dict[Any, bool] = {}


class _Alone(torch.nn.Module):
    """A call of one operator."""

    def __init__(self, node: torch.fx.Node) -> None:
        super().__init__()
        self._node = node

    def forward(self, *tensors: torch.Tensor) -> Any:
        values = dict(zip(_inputs(self._node), tensors, strict=True))
        args, kwargs = torch.fx.node.map_arg(
            (self._node.args, dict(self._node.kwargs)), lambda one: values[one]
        )
        target: Any = self._node.target
        return target(*args, **kwargs)


def holds_alone(node: torch.fx.Node) -> bool:
    """Whether torch's translation is right for the operator alone. Also true if that cannot be
    found out, because the operator does not take the tensors that are made up here."""
    inputs = _inputs(node)
    examples = [made for one in inputs if (made := _example(one.meta["val"])) is not None]
    if not examples or len(examples) < len(inputs):
        return True
    key = (node.target, repr(node.kwargs), repr(node.args), *(one.dtype for one in examples))
    if key not in _known:
        _known[key] = True  # if capture fails, the operator is traced, and this is called again
        _known[key] = _is_standard(node, tuple(examples))
    return _known[key]


def _is_standard(node: torch.fx.Node, examples: tuple[Any, ...]) -> bool:
    from opgraft.torch._export._export import export

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = export(_Alone(node), examples, progress=False).report
    except Error:
        return True
    return report.captured == "traced" or all(row.kind == STANDARD for row in report.rows)


def _inputs(node: torch.fx.Node) -> list[torch.fx.Node]:
    return [one for one in node.graph.nodes if one.op == "placeholder"]


def _example(value: Any) -> torch.Tensor | None:
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return None
    return torch.full((2,) * value.dim(), 0.5, dtype=value.dtype)
