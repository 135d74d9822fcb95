"""Compares the core's table of element types with the packages whose names and numbers it has."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto

from opgraft import _pyop
from opgraft._declare import _signature
from opgraft._run import _tensors, _torch_arrays
from opgraft.torch._eager import _fake_function
from opgraft.torch._legacy import _symbolic_call
from opgraft.torch._rungs import _aten

ONNX = [one for one in _pyop.ELEMENT_TYPES if one.number]
BY_NAME = {one.name: one for one in _pyop.ELEMENT_TYPES}


def test_onnx_has_the_same() -> None:
    known = set(TensorProto.DataType.values())
    for one in ONNX:
        if one.number in known:
            name = {"float": "FLOAT", "double": "DOUBLE"}.get(one.onnx_name, one.onnx_name.upper())
            assert TensorProto.DataType.Name(one.number) == name
    assert [one.number for one in ONNX] == list(range(1, 29))


@pytest.mark.parametrize("one", ONNX, ids=lambda one: one.name)
def test_numpy_has_the_same(one: _pyop.ElementType) -> None:
    if one.name == "string" or not hasattr(np if one.is_numpys else ml_dtypes, one.name):
        pytest.skip("NumPy has no arrays of this type")
    dtype = np.dtype(getattr(np if one.is_numpys else ml_dtypes, one.name))
    assert dtype.itemsize == max(one.bits, 8) // 8
    assert onnx.helper.tensor_dtype_to_np_dtype(one.number) == dtype
    assert one.is_numpys == (dtype.isbuiltin == 1)


def test_torch_has_the_same() -> None:
    for one in _pyop.ELEMENT_TYPES:
        if one.torch_number < 0:
            continue
        dtype = getattr(torch, one.name)
        assert torch.empty((), dtype=dtype).element_size() * 8 == one.bits
        assert dtype.is_complex == bool(one.parts)
        assert torch.ops.prim.dtype(torch.empty((), dtype=dtype)) == one.torch_number
    numbers = [one.torch_number for one in _pyop.ELEMENT_TYPES if one.torch_number >= 0]
    assert len(set(numbers)) == len(numbers) == 20
    scalar_types = {one.name: one.torch_number for one in _pyop.ELEMENT_TYPES}
    for dtype in _symbolic_call.DTYPES.values():
        name = str(dtype).removeprefix("torch.")
        assert scalar_types[name] == _symbolic_call._private.number_in_script(dtype)


class _Tensor(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


def in_dlpack(array: object) -> tuple[int, int, int]:
    """Returns the code, bits and lanes that the array's library writes."""
    capsule = array.__dlpack__()  # type: ignore[attr-defined]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    return tensor.code, tensor.bits, tensor.lanes


def test_dlpack_has_the_same() -> None:
    with_code = [one for one in _pyop.ELEMENT_TYPES if one.has_dlpack]
    assert len(with_code) == 19
    for one in with_code:
        said = one.dlpack_code, one.bits, 1
        assert in_dlpack(torch.zeros(2, dtype=getattr(torch, one.name))) == said, one.name
        if one.is_numpys:
            assert in_dlpack(np.zeros(2, one.name)) == said, one.name


def test_the_tables_that_are_made_of_it() -> None:
    assert len(_signature.ELEMENT_TYPES) == 21 and _signature.ELEMENT_TYPES["string"] == 8
    assert len(_signature.GPU_TYPES) == 17 and BY_NAME["int4"].number not in _signature.GPU_TYPES
    assert list(_tensors.TYPES) == [one.onnx_name for one in ONNX if 16 <= one.number <= 23]
    assert set(_torch_arrays._by_bits()) == {one.name for one in ONNX if 16 <= one.number <= 20}
    assert _aten._ONNX_TYPES["complex32"] == TensorProto.FLOAT16 and len(_aten._ONNX_TYPES) == 20
    assert _fake_function.ELEMENT_TYPES[torch.complex64] == TensorProto.COMPLEX64
    assert len(_fake_function.ELEMENT_TYPES) == 19 and len(_symbolic_call.DTYPES) == 12
