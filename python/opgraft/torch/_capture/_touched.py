"""Records which memory operators write to, even if the values stay the same.

torch counts writes to a tensor, but not those through `.data` or under inference_mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opgraft.torch import _private


class Touched(_private.DispatchMode):  # type: ignore[no-untyped-call]
    """Collects the addresses of memory that is written to while it is active."""

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
    """The address of a tensor's memory; 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def writes_to(tensor: torch.Tensor) -> int:
    """How often a tensor has been written to, as counted by torch."""
    return 0 if tensor.is_inference() else tensor._version
