"""Reads the arguments of an operator, as written by `_aten.py`, for a call in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opgraft._base._errors import ModelError
from opgraft._pyop import AtenWord, read_aten_arguments


class Arguments:
    """The arguments of an operator, some of which are inputs of the node."""

    def __init__(self, text: str, who: str) -> None:
        self._written = [
            (name, _resolve(value, who)) for name, value in read_aten_arguments(text, who)
        ]

    def bind(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the arguments for a call with these inputs of the node."""
        bound = [(name, _bind(value, tensors)) for name, value in self._written]
        return [value for name, value in bound if not name], dict(one for one in bound if one[0])


def _resolve(value: Any, who: str) -> Any:
    """Replaces the words that need no input by their torch values."""
    if isinstance(value, list):
        return [_resolve(one, who) for one in value]
    if not isinstance(value, AtenWord) or value.kind not in ("torch", "device"):
        return value
    if value.kind == "device":
        return torch.device(value.text)
    found = getattr(torch, value.text, None)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise ModelError(
            f"{who}: its attribute 'arguments' has torch.{value.text}, which is not a dtype, "
            "layout or memory format of this torch"
        )
    return found


def _bind(value: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_bind(one, tensors) for one in value]
    if not isinstance(value, AtenWord):
        return value
    tensor = tensors[value.place]
    if value.kind == "tensor":
        return tensor
    if value.kind == "complex":
        return torch.view_as_complex(tensor.contiguous())
    return tensor.tolist() if value.kind == "numbers" else tensor.item()
