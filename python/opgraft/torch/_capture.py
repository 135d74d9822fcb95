"""Captures a model as a graph of torch's operators, by whichever way of torch.export works."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft._errors import ModelError
from opgraft.torch import _private
from opgraft.torch._fakes import fakes


@dataclass
class Captured:
    """A program of torch.export, and how it was come by."""

    program: torch.export.ExportedProgram
    #: "non-strict", "strict", "draft", or "given" for a program that was captured before.
    way: str
    #: Where the program holds for the example alone.
    specialised: list[str] = field(default_factory=list)


class Called(torch.nn.Module):
    """A plain function as a module, since torch.export takes no other."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def capture(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> Captured:
    """Tries torch.export as torch.onnx.export does, and draft_export last, which goes on where the
    others stop: it takes the branches that the example takes."""
    if isinstance(model, torch.export.ExportedProgram):
        return Captured(model, "given")
    errors: list[tuple[str, Exception]] = []
    ways = dict(zip(("non-strict", "strict", "draft"), _private.capture_strategies(), strict=True))
    for way, strategy in ways.items():
        with _quiet(), fakes():
            result = strategy(verbose=False)(model, args, dict(kwargs), dynamic_shapes)
        if result.exported_program is not None:
            specialised = [str(result.exception)] if result.exception is not None else []
            return Captured(result.exported_program, way, specialised if way == "draft" else [])
        errors.append((way, result.exception))
    tried = "\n".join(f"{way}: {_first_lines(error)}" for way, error in errors)
    raise ModelError(
        f"torch.export cannot capture {type(model).__name__}; what each way of it says:\n{tried}\n"
        "To mend it: change the model so that torch.export.export takes it"
    ) from errors[0][1]


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: " + "\n    ".join(lines[:3])


@contextmanager
def _quiet() -> Iterator[None]:
    """What failed or was specialised is in the report; torch would print it in full."""
    logger = logging.getLogger("torch.export")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.setLevel(before)
