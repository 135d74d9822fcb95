"""Opgraft's operators in torch (torch.library), and settings of torch."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch._private.lookup import moved, private


def destroy(library: torch.library.Library) -> None:
    """Removes all that a library defined, so that it can be defined again."""
    if not hasattr(library, "_destroy"):
        raise moved("torch.library.Library._destroy")
    library._destroy()  # type: ignore[no-untyped-call]


def below_autograd() -> Any:
    """Returns a context in which operators run without autograd: their kernels, or whatever is
    active below autograd, such as the tensors and modes that trace a program."""
    return private("torch._C", "_AutoDispatchBelowAutograd")()


def apply_function(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls an autograd function from an autograd kernel.

    Inside torch.func.grad and similar transforms, torch has then already entered the level of one
    transform, as for kernels in C++. `apply` is for callers outside, and would start again with the
    outermost transform."""
    if private("torch._C", "_are_functorch_transforms_active")():
        base: Any = super(torch.autograd.Function, function)
        with private("torch._functorch.utils", "enable_single_level_autograd_function")():
            return base.apply(*args)
    return function.apply(*args)  # type: ignore[no-untyped-call]


def forward_mode() -> dict[str, Any]:
    """Returns the names of torch.autograd.forward_ad. `_current_level` is above -1 in its mode."""
    private("torch.autograd.forward_ad", "_current_level")
    names: dict[str, Any] = vars(private("torch.autograd.forward_ad"))
    return names


@contextmanager
def keeping_compiler_options() -> Iterator[None]:
    """Restores the compiler option for deterministic results, which a strict capture changes."""
    config = sys.modules.get("torch._inductor.config")
    before = getattr(config, "deterministic", None)
    try:
        yield
    finally:
        if before is not None and getattr(config, "deterministic", None) != before:
            setattr(config, "deterministic", before)  # noqa: B010


@contextmanager
def deterministic() -> Iterator[None]:
    """Makes torch fill uninitialised memory, and warn if it has no deterministic algorithm. Unlike
    torch.use_deterministic_algorithms, this does not change the options of torch's compiler."""
    switch = private("torch._C", "_set_deterministic_algorithms")
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    switch(True, warn_only=True)
    try:
        yield
    finally:
        switch(before, warn_only=warns)


def parallel_for() -> int:
    """Returns the address of libtorch's function for parallel loops, or 0 if it has none."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        library = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
        return ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def count_modes() -> Callable[[], int]:
    """Returns a C function that counts the dispatch modes active in this thread."""
    found: Callable[[], int] = private("torch._C", "_len_torch_dispatch_stack")
    return found
