"""One value that a model keeps, recorded to compare and to restore it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _contents
from opgraft.torch._capture._contents import are_equal, are_same, kind_of
from opgraft.torch._capture._touched import memory_of

#: Kinds that are compared by a copy of their contents.
COPIED = frozenset({"array", "set", "generator"})


@dataclass(slots=True)
class Leaf:
    """A value that a model keeps, with the attribute that it is a part of."""

    kind: str  # "buffer", "parameter", "attribute" or "class attribute"
    name: str  # such as "encoder.counter"
    module: Any  # the module that it belongs to
    holder: Any  # the dictionary, list, object or class that holds it
    key: Any
    value: Any
    #: A copy of the contents: the elements of a tensor, the length of a list.
    copy: Any = None
    #: How often a tensor had been written to, and where its memory was.
    version: int = 0
    place: int = 0
    #: The memory itself, since a model may give a tensor other memory.
    data: torch.Tensor | None = None
    #: Whether the same object was visited before.
    is_again: bool = False

    def is_like(self, other: Leaf) -> bool:
        """Whether it is unchanged in the other record."""
        mine, others = self.value, other.value
        if isinstance(mine, torch.Tensor) and isinstance(others, torch.Tensor):
            if self.copy is None or other.copy is None:
                return mine is others and self.version == other.version
            return are_equal(self.copy, other.copy)
        if type(mine) is not type(others):
            return False
        kind = kind_of(type(mine))
        if kind in COPIED or self.copy is not None:
            is_other = (self.is_again or other.is_again) and mine is not others
            return not is_other and are_same(self.copy, other.copy)
        return are_same(mine, others) if kind in ("value", "function") else mine is others

    def is_written_in(self, later: Leaf) -> bool:
        """For tensors: whether it was replaced or written to since, even if its elements are
        unchanged."""
        if not isinstance(self.value, torch.Tensor) or not isinstance(later.value, torch.Tensor):
            return False
        return (
            self.value is not later.value
            or self.version != later.version
            or self.place != later.place
        )

    def put(self, value: Any) -> bool:
        """Makes the model keep another value; False if that is impossible."""
        if isinstance(self.holder, (dict, list, deque)):
            self.holder[self.key] = value
        elif isinstance(self.holder, torch.jit.ScriptModule):
            _private.set_script_attribute(self.holder, self.key, value)
        elif isinstance(self.holder, type):
            type.__setattr__(self.holder, self.key, value)
        elif self.holder is not None and not isinstance(self.holder, tuple):
            object.__setattr__(self.holder, self.key, value)
        else:
            return False
        return True


def clone(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy of a tensor; None if torch cannot compare such tensors."""
    try:
        found = tensor.detach().clone()
        is_plain = type(tensor) in _PLAIN and tensor.layout == torch.strided
        return found if is_plain or are_equal(found, found.clone()) else None
    except Exception:  # the type, layout or class has no kernels for this
        return None


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def same_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    is_plain = tensor.layout == torch.strided and not tensor.is_nested
    return tensor.detach() if is_plain and not tensor.is_inference() else None


def write_back(leaf: Leaf) -> None:
    tensor, before = leaf.value, leaf.copy
    if leaf.data is not None and memory_of(tensor) != leaf.place:
        tensor.data = leaf.data
    if before is None:
        return
    is_alike = not tensor.is_nested and tensor.shape == before.shape
    is_alike = is_alike and tensor.dtype == before.dtype and tensor.layout == before.layout
    if is_alike and are_equal(tensor.detach(), before):
        return
    if is_alike:
        tensor.copy_(before)
    else:
        tensor.data = before.clone()


def replace(leaf: Leaf, spare: Any) -> None:
    if _contents.place_of(leaf.value) != leaf.copy:
        leaf.put(_contents.iterator_like(spare))


def set_gradient(tensor: torch.Tensor, is_wanted: bool, gradient: Any) -> None:
    if tensor.is_leaf and tensor.requires_grad != is_wanted:
        tensor.requires_grad_(is_wanted)
    if tensor.is_leaf and tensor.grad is not gradient:
        tensor.grad = gradient
