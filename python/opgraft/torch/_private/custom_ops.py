"""Operators that `torch.library.custom_op` defines, with bodies in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from opgraft.torch._private.lookup import private
from opgraft.torch._private.operators import OpOverload, overload_name

Body = Callable[..., Any]


def is_operator(value: Any) -> bool:
    """Whether the value is an operator of torch, in any of its forms."""
    kinds = (
        OpOverload,
        private("torch._ops", "OpOverloadPacket"),
        private("torch._library.custom_ops", "CustomOpDef"),
    )
    return isinstance(value, kinds)


def body_of(overload: Any) -> Body | None:
    """Returns the function that an operator runs on the CPU, or None if it is unknown."""
    if not isinstance(overload, OpOverload):
        return None
    definition = private("torch._library.custom_ops", "OPDEFS").get(overload_name(overload))
    kernels = getattr(definition, "_backend_fns", None)
    if not kernels or getattr(definition, "_disabled_kernel", None):
        return None
    kernel = kernels.get("cpu", kernels.get(None))
    if kernel is None:
        return None
    # torch wraps the function, so that it can turn it off.
    found = inspect.getclosurevars(inspect.unwrap(kernel)).nonlocals.get("fn")
    return found if callable(found) else None
