"""The backward of an operator: a function of torch tensors, read from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opgraft._errors import Error


@dataclass(frozen=True)
class Backward:
    """Called with a gradient for each output, then the tensors it names, then attributes by name.

    It gives a gradient for each input: one, or a tuple; None where there is none.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]  # the places of those that it takes, in the order of `names`
    outputs: tuple[int, ...]
    names: tuple[tuple[str, int], ...]  # ("input" or "output", place), as it takes them
    attributes: tuple[str, ...]

    @classmethod
    def read(
        cls,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Sequence[str],
    ) -> Backward:
        """An error where it does not fit the operator `name`."""
        if not callable(function):
            raise Error(f"{name}: expected backward to be a function, not {function!r}")
        parameters = list(inspect.signature(function).parameters.values())
        positional = [
            one
            for one in parameters
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        others = [one for one in parameters if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        expected = (
            f"{name}: its backward must take {len(outputs)} "
            f"gradient{'s' if len(outputs) != 1 else ''}, one for each output, then what it needs "
            f"of the inputs ({', '.join(inputs)}) and outputs ({', '.join(outputs)}) by their names"
            + (f", and attributes ({', '.join(attributes)}) after a '*'" if attributes else "")
        )
        if others:
            raise Error(f"{expected}; '{others[0]}' names none")
        if len(positional) < len(outputs):
            raise Error(f"{expected}; it takes {len(positional)}")
        names: list[tuple[str, int]] = []
        for parameter in positional[len(outputs) :]:
            if parameter.name in inputs:
                names.append(("input", inputs.index(parameter.name)))
            elif parameter.name in outputs:
                names.append(("output", outputs.index(parameter.name)))
            else:
                raise Error(f"{expected}; '{parameter.name}' is none of them")
        taken = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        unknown = [one for one in taken if one not in attributes]
        if unknown:
            raise Error(f"{expected}; '{unknown[0]}' is no attribute")
        return cls(
            function,
            tuple(place for what, place in names if what == "input"),
            tuple(place for what, place in names if what == "output"),
            tuple(names),
            tuple(taken),
        )
