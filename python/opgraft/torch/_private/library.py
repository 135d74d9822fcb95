"""Operators of ours in torch (torch.library)."""

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
    """Takes back all that was defined by a library, so that it can be defined anew."""
    if not hasattr(library, "_destroy"):
        raise moved("torch.library.Library._destroy")
    library._destroy()  # type: ignore[no-untyped-call]


def below_autograd() -> Any:
    """A context in which operators run as if nothing wanted a gradient: their kernels, or what is
    on below autograd, such as the tensors and modes that trace a program."""
    return private("torch._C", "_AutoDispatchBelowAutograd")()


def apply_function(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls an autograd function from a kernel for autograd. Inside of torch.func.grad and the like
    torch is at the level of one of them there, as for kernels in C++; `apply`, which is for callers
    outside, would begin with the outermost anew."""
    if private("torch._C", "_are_functorch_transforms_active")():
        base: Any = super(torch.autograd.Function, function)
        with private("torch._functorch.utils", "enable_single_level_autograd_function")():
            return base.apply(*args)
    return function.apply(*args)  # type: ignore[no-untyped-call]


def forward_mode() -> dict[str, Any]:
    """The names of torch.autograd.forward_ad; `_current_level` is above -1 inside of its mode."""
    private("torch.autograd.forward_ad", "_current_level")
    names: dict[str, Any] = vars(private("torch.autograd.forward_ad"))
    return names


@contextmanager
def keeping_compiler_options() -> Iterator[None]:
    """What the user says to torch's compiler of deterministic results stays: a strict capture sets
    it anew."""
    config = sys.modules.get("torch._inductor.config")
    before = getattr(config, "deterministic", None)
    try:
        yield
    finally:
        if before is not None and getattr(config, "deterministic", None) != before:
            setattr(config, "deterministic", before)  # noqa: B010


@contextmanager
def deterministic() -> Iterator[None]:
    """Has torch fill memory that nobody has written to, and warn where it has no algorithm that
    gives the same each time. Other than by torch.use_deterministic_algorithms, what the user says
    to its compiler of that stays as it is."""
    switch = private("torch._C", "_set_deterministic_algorithms")
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    switch(True, warn_only=True)
    try:
        yield
    finally:
        switch(before, warn_only=warns)


def parallel_for() -> int:
    """The address of libtorch's function for loops in several threads; 0 where it has none."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        library = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
        return ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def count_modes() -> Callable[[], int]:
    """A function of C that tells how many modes see every operator of this thread."""
    found: Callable[[], int] = private("torch._C", "_len_torch_dispatch_stack")
    return found
