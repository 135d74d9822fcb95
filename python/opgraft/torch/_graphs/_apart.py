"""Runs a torch operator by its decomposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opgraft.torch import _private

#: Returns the decomposition of an operator; None if the operator is not decomposed.
Decomposition = Callable[[Any], Callable[..., Any] | None]


class Apart(_private.DispatchMode):  # type: ignore[no-untyped-call]
    """Runs an operator by its decomposition, and decomposes the operators in that as well."""

    def __init__(self, target: Any, decomposition: Decomposition) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._target = target
        self._decomposition = decomposition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self:
            return self._target(*args, **kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        apart = self._decomposition(func)
        if apart is None:
            return func(*args, **(kwargs or {}))
        with self:
            return apart(*args, **(kwargs or {}))
