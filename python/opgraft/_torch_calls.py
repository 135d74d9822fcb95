"""Which operators of torch one of ours can stand for, with which arguments."""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple


class TorchArgument(NamedTuple):
    """What an attribute or an input of the operator is; if `name` is neither, an argument of
    torch's that must have the value."""

    name: str
    #: The argument of torch's that it is; empty: it is `value`.
    argument: str
    value: Any


class TorchCall(NamedTuple):
    """An operator of torch that ours can stand for, as `.Torch(...)` of its declaration says."""

    name: str
    arguments: tuple[TorchArgument, ...] = ()
    #: Element types of the first tensor that torch's own translation is better for.
    left_to_torch: tuple[int, ...] = ()


def of_names(names: str) -> tuple[TorchCall, ...]:
    """Of "aten::linalg_inv, aten::inverse": calls of which no more is said."""
    return tuple(TorchCall(name) for name in map(str.strip, names.split(",")) if name)


@functools.cache
def of_pack(pack: str, full_name: str, version: int, names: str) -> tuple[TorchCall, ...]:
    """Those of an operator of a pack. One of an older contract has nothing but `names`."""
    from opgraft import _pyop

    domain, _, name = full_name.partition("::")
    found = _pyop.torch_calls(os.fsencode(pack), domain, name, version)
    if found is None:
        return of_names(names)
    return tuple(
        TorchCall(one.name, tuple(TorchArgument(*each) for each in arguments), tuple(left))
        for given, arguments, left in found
        for one in of_names(given)
    )
