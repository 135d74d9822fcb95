"""Captures a model as a graph of torch's operators, by whichever way of torch.export works."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import sys
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
        self.eval()
        self._function = function
        with contextlib.suppress(ValueError, TypeError):  # of what is built in
            inspect.signature(function)
            setattr(self, "forward", function)  # noqa: B010 (inputs get the names of its parameters)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


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
        with _quiet() as printed, fakes():
            result = strategy(verbose=False)(model, args, dict(kwargs), dynamic_shapes)
        if result.exported_program is not None:
            sys.stderr.write(printed.getvalue())
            program = result.exported_program
            return Captured(program, way, _private.specialisations(program))
        errors.append((way, result.exception))
    tried = "\n".join(f"{way}: {_first_lines(error)}" for way, error in errors)
    raise ModelError(
        f"torch.export cannot capture {type(model).__name__}: {_first_line(errors[0][1])}\n"
        f"What each way of it says:\n{tried}\n"
        "To mend it: change the model so that torch.export.export takes it"
    ) from errors[0][1]


def _first_line(error: Exception) -> str:
    return _first_lines(error).partition("\n")[0]


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: " + "\n    ".join(lines[:3])


#: Loggers that print in full what the report has in short.
_LOGGERS = ("torch.export", "torch.fx.experimental.symbolic_shapes")


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Holds back what torch prints of a capture that fails, and what the model does meanwhile."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()) as printed:
            warnings.simplefilter("ignore", FutureWarning)
            yield printed
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
