"""All private names of torch that Opgraft uses, each guarded: what moves is named in the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from opgraft._errors import UnavailableError


def moved(name: str) -> UnavailableError:
    """The error for a private name that this version of torch does not have."""
    return UnavailableError(
        f"torch {torch.__version__} has no {name}, which opgraft.torch needs; "
        "use torch 2.13, with which it is tested, or a newer Opgraft"
    )


# Schemas of operators (the ATen node)

OpOverload = torch._ops.OpOverload


def name_of(overload: OpOverload) -> tuple[str, str]:
    """The name of an operator with its namespace, and the overload's, "" for the default."""
    name, _, overload_name = str(overload.name()).partition(".")  # type: ignore[no-untyped-call]
    return name, "" if overload_name == "default" else overload_name


@dataclass(frozen=True)
class Argument:
    """An argument of an operator, as torch's schema has it."""

    name: str
    type: str  #: such as "Optional[List[int]]"
    count: int | None  #: of a list that one number may stand for
    is_keyword: bool
    has_default: bool
    default: Any


def schema_of(overload: OpOverload) -> tuple[list[Argument], list[str]]:
    """The arguments of an operator, and the types of what it gives."""
    try:
        schema = overload._schema
        arguments = [
            Argument(
                argument.name,
                str(argument.real_type),
                argument.N,  # type: ignore[attr-defined]
                argument.kwarg_only,
                argument.has_default_value(),
                argument.default_value,
            )
            for argument in schema.arguments
        ]
        returns = [str(value.real_type) for value in schema.returns]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error
    return arguments, returns
