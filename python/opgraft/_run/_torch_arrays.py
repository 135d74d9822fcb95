"""Converts torch tensors to NumPy arrays and back, for every type that ONNX Runtime has.

torch is not imported here: a caller with a tensor has already imported it.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from opgraft import _pyop
from opgraft._base._needed import find_dtype

if TYPE_CHECKING:
    import torch


def _torch() -> Any:
    return sys.modules["torch"]


@functools.cache
def _by_bits() -> dict[str, tuple[torch.dtype, torch.dtype]]:
    """Types that NumPy lacks, by their names in ml_dtypes, with integer types of the same size.

    Computed at the first call, when torch is imported.
    """
    return {
        one.name: (getattr(_torch(), one.name), getattr(_torch(), f"uint{one.bits}"))
        for one in _pyop.ELEMENT_TYPES
        if one.is_carried and one.torch_number >= 0 and not one.is_numpys
    }


@functools.cache
def _name(dtype: torch.dtype) -> str | None:
    """Returns the name of a type that NumPy lacks; None for other types."""
    return next((name for name, (one, _) in _by_bits().items() if one == dtype), None)


def from_array(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Returns a tensor that shares the array's memory."""
    made: torch.Tensor
    if array.dtype.name not in _by_bits():
        # NumPy has two types of the same name for 64-bit integers; torch supports one of them.
        plain = array.view(array.dtype.name) if array.dtype.kind in "iu" else array
        made = _torch().from_numpy(plain)
        return made
    dtype, bits = _by_bits()[array.dtype.name]
    made = _torch().from_numpy(array.view(str(bits).removeprefix("torch."))).view(dtype)
    return made


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns an array that shares the memory of a tensor, which must be dense and on the CPU."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    name = _name(tensor.dtype)
    if name is None:
        return np.asarray(tensor.numpy())
    bits = _by_bits()[name][1]
    return np.asarray(tensor.contiguous().view(bits).numpy().view(find_dtype(name)))


def to_array(value: Any) -> np.ndarray[Any, Any]:
    """Converts a tensor or a number to ONNX's form: complex numbers get a last dimension of 2."""
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        return np.array(value, np.int64)
    if isinstance(value, float):
        return np.array(value, np.float64)
    tensor: torch.Tensor = value.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = _torch().view_as_real(tensor)
    if tensor.layout != _torch().strided:
        tensor = tensor.to_dense()
    return to_numpy(tensor.cpu())
