"""Tensors of torch as arrays of NumPy, and back, for every type that ONNX Runtime has.

Needs torch, and nothing else of what `opgraft.torch` needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft import _pyop
from opgraft._needed import find_dtype

#: Types that NumPy lacks, which ml_dtypes has under the same names; as integers of their size.
_BY_BITS = {
    one.name: (getattr(torch, one.name), getattr(torch, f"uint{one.bits}"))
    for one in _pyop.ELEMENT_TYPES
    if one.is_carried and one.torch_number >= 0 and not one.is_numpys
}
_NAMES = {dtype: name for name, (dtype, _) in _BY_BITS.items()}


def from_array(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """The tensor that shares the array's memory."""
    if array.dtype.name not in _BY_BITS:
        # NumPy has two types of one name for each integer of 64 bits, torch knows one of them.
        return torch.from_numpy(array.view(array.dtype.name) if array.dtype.kind in "iu" else array)
    dtype, bits = _BY_BITS[array.dtype.name]
    return torch.from_numpy(array.view(str(bits).removeprefix("torch."))).view(dtype)


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The array that shares a tensor's memory, where that is dense and on the CPU."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype not in _NAMES:
        return np.asarray(tensor.numpy())
    name = _NAMES[tensor.dtype]
    return np.asarray(tensor.contiguous().view(_BY_BITS[name][1]).numpy().view(find_dtype(name)))


def to_array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor, or a number, as ONNX has it: complex ones have a last dimension of 2 more."""
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        return np.array(value, np.int64)
    if isinstance(value, float):
        return np.array(value, np.float64)
    tensor: torch.Tensor = value.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return to_numpy(tensor.cpu())
