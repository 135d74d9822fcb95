"""The operators of torch that one of ours can replace, and with which arguments."""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple


class TorchArgument(NamedTuple):
    """The source of an attribute or input called `name`. If the operator has no such attribute or
    input, `name` is an argument of torch that must have the value."""

    name: str
    #: The argument of torch that it is taken from; if empty, `value` is used.
    argument: str
    value: Any


class TorchCall(NamedTuple):
    """An operator of torch that ours can replace, by `.Torch(...)` in its declaration."""

    name: str
    arguments: tuple[TorchArgument, ...] = ()
    #: Element types of the first tensor for which torch's own translation is better.
    left_to_torch: tuple[int, ...] = ()


def of_names(names: str) -> tuple[TorchCall, ...]:
    """Returns calls without arguments for names such as "aten::linalg_inv, aten::inverse"."""
    return tuple(TorchCall(name) for name in map(str.strip, names.split(",")) if name)


@functools.cache
def of_pack(pack: str, full_name: str, version: int, names: str) -> tuple[TorchCall, ...]:
    """Returns the calls of a pack's operator. A pack with an older contract has only `names`."""
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
