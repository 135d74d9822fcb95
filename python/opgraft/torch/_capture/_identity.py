"""Notes where a model may compare a number of a tensor by identity: `mask.all().item() is True`.

While torch.export runs the model, such a number is a symbol, which is never `True`. A graph would
follow the other branch for all data, and torch does not warn.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import line_at

_ADVICE = (
    "keep it a tensor: a graph has no identity; to choose, write torch.where(condition, a, b), or "
    "torch.cond(condition, f, g, arguments)"
)


@contextmanager
def identities(*, is_watched: bool) -> Iterator[list[Guard]]:
    """Collects a guard for each such line of the functions that run when a tensor gives a symbol.
    Without `is_watched` there are none: Dynamo, which reads the model's code, runs no function."""
    found: dict[Guard, None] = {}
    result: list[Guard] = []
    owner, outside = threading.get_ident(), _private.callers_of(sys._getframe())

    def watched(method: Any) -> Any:
        def read(self: torch.Tensor) -> Any:
            value = method(self)
            if threading.get_ident() == owner and _has_symbol(value):
                for frame in _frames_of_model(sys._getframe(1), outside):
                    found.update(dict.fromkeys(_guards_in(frame.f_code)))
            return value

        return read

    with ExitStack() as undone:
        for name in ("item", "tolist") if is_watched else ():
            own = vars(torch.Tensor).get(name)
            setattr(torch.Tensor, name, watched(getattr(torch.Tensor, name)))
            if own is None:
                undone.callback(delattr, torch.Tensor, name)
            else:
                undone.callback(setattr, torch.Tensor, name, own)
        yield result
    result += found


def _has_symbol(value: Any) -> bool:
    values = _private.tree_leaves(value) if isinstance(value, list) else [value]
    return any(isinstance(one, (torch.SymBool, torch.SymInt)) for one in values)


def _frames_of_model(frame: FrameType | None, outside: frozenset[FrameType]) -> Iterator[FrameType]:
    while frame is not None and frame not in outside:
        if not frame.f_code.co_filename.startswith(_private.NOT_THE_MODELS):
            yield frame
        frame = frame.f_back


def _guards_in(code: CodeType) -> Iterator[Guard]:
    for number in dict.fromkeys(compared_by_identity(code)):
        line = line_at(code.co_filename, number)
        yield Guard(line, f"`{line.code}` decides as in the example", _ADVICE)


def compared_by_identity(code: CodeType) -> Iterator[int]:
    """The lines of a function that compare by identity with True, False or a number, what may be
    a result of a call: not an argument, nor an attribute that the function does not set."""
    lines = dict(dis.findlinestarts(code))
    instructions = list(dis.get_instructions(code))
    stored = {one.argval for one in instructions if one.opname.startswith("STORE_")}
    given = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - stored
    line = code.co_firstlineno
    for place, one in enumerate(instructions):
        line = lines.get(one.offset) or line
        if one.opname == "IS_OP":
            sides = instructions[max(place - 2, 0) : place]
            if any(map(_is_number, sides)) and not _is_known(sides, given, stored):
                yield line
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from compared_by_identity(inner)


def _is_number(one: dis.Instruction) -> bool:
    return one.opname.startswith("LOAD_") and isinstance(one.argval, (bool, int))


def _is_known(sides: Iterable[dis.Instruction], given: set[str], stored: set[Any]) -> bool:
    """Whether what is compared was there before the function ran."""
    return any(
        (one.opname.startswith("LOAD_FAST") and one.argval in given)
        or (one.opname == "LOAD_ATTR" and one.argval not in stored)
        for one in sides
    )
