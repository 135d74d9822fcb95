"""Sees which memory operators write to in a call, whatever they leave there: torch counts writes to
a tensor, but not those by way of `.data`, nor under inference_mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opgraft.torch import _private


class Touched(_private.DispatchMode):  # type: ignore[no-untyped-call]
    """The places of the memory that was written to while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if _private.is_mutable(function):
            self.places.update(map(memory_of, _written(function, args, given)))
        return function(*args, **given)


def _written(function: Any, args: Any, kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    names = [one.name for one in _private.schema_of(function)[0]]
    by_name = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in _private.written_arguments(function):
        value = by_name.get(name)
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, torch.Tensor):
                yield one


def memory_of(tensor: torch.Tensor) -> int:
    """Where the memory of a tensor begins; 0 where it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def writes_to(tensor: torch.Tensor) -> int:
    """How often a tensor has been written to, as far as torch counts."""
    return 0 if tensor.is_inference() else tensor._version
