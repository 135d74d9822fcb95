"""The request of one export, which all ways of exporting a model take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._state import State


@dataclass(frozen=True)
class Request:
    model: torch.nn.Module | torch.export.ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dynamic_shapes: Any
    opset: int
    #: The names of inputs and of outputs, if given.
    names: tuple[Sequence[str] | None, Sequence[str] | None]
    #: The user's own translations.
    table: Mapping[Any, Callable[..., Any]]
    optimize: bool
    #: The rungs that operators may take.
    kinds: Collection[str]
    #: Whether the graph may hold for some data only.
    specialise: bool
    #: What the model writes in a call.
    state: State = field(default_factory=State)

    @property
    def module(self) -> torch.nn.Module:
        """The model, which must not be captured yet."""
        assert isinstance(self.model, torch.nn.Module)
        return self.model

    def with_state(self, guards: Sequence[Guard], name: str) -> list[Guard]:
        """Returns the guards together with those of the model's state; refuses such state unless
        `specialise` is set."""
        if not self.specialise:
            self.state.refuse(name)
        return [*guards, *self.state.guards]
