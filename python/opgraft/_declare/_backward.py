"""The backward function of an operator, which takes torch tensors; reads its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opgraft._base._errors import Error


@dataclass(frozen=True)
class Backward:
    """Called with a gradient for each output, the tensors it names, and attributes by keyword.

    It returns a gradient for each input: a tensor or a tuple, with None for no gradient.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]  # the indices of the inputs that it takes, in the order of `names`
    outputs: tuple[int, ...]
    names: tuple[tuple[str, int], ...]  # ("input" or "output", index), in the order it takes them
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
        """Reads the signature; raises an Error if it does not fit the operator `name`."""
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
            f"gradient{'s' if len(outputs) != 1 else ''}, one for each output, then any of the "
            f"inputs ({', '.join(inputs)}) and outputs ({', '.join(outputs)}) by their names"
            + (f", and attributes ({', '.join(attributes)}) after a '*'" if attributes else "")
        )
        if others:
            raise Error(f"{expected}; '{others[0]}' is not a name")
        if len(positional) < len(outputs):
            raise Error(f"{expected}; it takes {len(positional)} parameters")
        names: list[tuple[str, int]] = []
        for parameter in positional[len(outputs) :]:
            if parameter.name in inputs:
                names.append(("input", inputs.index(parameter.name)))
            elif parameter.name in outputs:
                names.append(("output", outputs.index(parameter.name)))
            else:
                raise Error(f"{expected}; '{parameter.name}' is not one of them")
        taken = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        unknown = [one for one in taken if one not in attributes]
        if unknown:
            raise Error(f"{expected}; '{unknown[0]}' is not an attribute")
        return cls(
            function,
            tuple(place for what, place in names if what == "input"),
            tuple(place for what, place in names if what == "output"),
            tuple(names),
            tuple(taken),
        )
