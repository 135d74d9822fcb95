"""Stands in for torch on the fake GPU: arrays in its memory, whose arithmetic is NumPy's, put on
the current stream as kernels are. They come by DLPack capsules, or by its C functions."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from opgraft._cuda import _gpu_arrays

GPU = 2
TYPES = {
    (2, 32): np.float32,
    (1, 8): np.uint8,
    (0, 32): np.int32,
    (0, 64): np.int64,
    (6, 8): np.bool_,
    (2, 16): np.float16,
    (2, 64): np.float64,
    (4, 16): ml_dtypes.bfloat16,
}
CODES = {np.dtype(one): code for code, one in TYPES.items()}

driver = ctypes.CDLL(os.environ["OPGRAFT_CUDA_DRIVER"])  # what fake_gpu.start has set
driver.fake_alias.restype = ctypes.c_void_p
driver.fake_alias.argtypes = [ctypes.c_void_p]
_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
driver.fake_launch.argtypes = [ctypes.c_void_p, _Kernel, ctypes.c_void_p]
driver.cuMemAllocFromPoolAsync.argtypes = [
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
]
driver.cuMemFreeAsync.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Managed(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Owner:
    """Of a piece of the GPU's memory; lets go of it in the end."""

    def __init__(self, release: Callable[[], Any]) -> None:
        self._release = release

    def __del__(self) -> None:
        self._release()


class Array:
    def __init__(
        self, data: int, shape: Any, dtype: Any, owner: Any, strides: Any = None, gpu: int = 0
    ) -> None:
        self.data, self.shape, self.dtype = data, tuple(shape), np.dtype(dtype)
        self.owner, self.device = owner, (GPU, gpu)
        self.strides = strides or _packed(self.shape)

    def on_host(self) -> Any:
        """The memory as the CPU reaches it, for kernels."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        lowest = ctypes.c_char.from_address(driver.fake_alias(self.data))
        size = self.dtype.itemsize
        return np.ndarray(
            self.shape,
            self.dtype,
            _buffer(ctypes.addressof(lowest), self),
            strides=[one * size for one in self.strides],
        )

    def clone(self) -> Array:
        made = empty(self.shape, self.dtype)
        launch(np.copyto, made, self)
        return made

    @property
    def t(self) -> Array:
        """Transposed, which is no block in memory."""
        return Array(self.data, self.shape[::-1], self.dtype, self.owner, self.strides[::-1])

    def __getitem__(self, index: int) -> Array:
        offset = index * self.strides[0] * self.dtype.itemsize
        return Array(self.data + offset, self.shape[1:], self.dtype, self.owner, self.strides[1:])

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        assert stream == -1
        kept = Unversioned(tensor=self.tensor())
        self._capsule = kept
        return python.PyCapsule_New(ctypes.addressof(kept), b"dltensor", None)

    def tensor(self) -> Tensor:
        rank = len(self.shape)
        self._sizes = (ctypes.c_int64 * (2 * rank + 1))(*self.shape, *self.strides)
        code, bits = CODES[self.dtype]
        shape = ctypes.cast(self._sizes, ctypes.POINTER(ctypes.c_int64))
        strides = ctypes.cast(
            ctypes.addressof(self._sizes) + 8 * rank, ctypes.POINTER(ctypes.c_int64)
        )
        device = (ctypes.c_int32 * 2)(*self.device)
        return Tensor(self.data, device, rank, code, bits, 1, shape, strides, 0)


def _packed(shape: Any) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides[: len(shape)])


def _buffer(address: int, array: Array) -> Any:
    length = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return (ctypes.c_char * (length * array.dtype.itemsize)).from_address(address)


class _Thread(threading.local):
    stream = 0


thread = _Thread()
#: The streams that work was put on, newest last.
streams: list[int] = []
#: How often the current stream was changed.
changes: list[int] = []
_waiting: dict[int, Any] = {}


def launch(function: Callable[..., Any], *arrays: Array) -> None:
    """Puts the work on the current stream: `function`, on NumPy's views of the memory."""
    views = [one.on_host() for one in arrays]

    def body(key: int) -> None:
        try:
            function(*views)
        finally:
            del _waiting[key]

    kernel = _Kernel(body)
    key = id(kernel)
    _waiting[key] = kernel
    streams.append(thread.stream)
    driver.fake_launch(thread.stream, kernel, key)


def empty(shape: Any, dtype: Any) -> Array:
    data = ctypes.c_uint64()
    size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    stream = thread.stream
    if driver.cuMemAllocFromPoolAsync(ctypes.byref(data), size, None, stream) != 0:
        raise MemoryError("the fake GPU has no memory left")
    address = data.value
    return Array(address, shape, dtype, Owner(lambda: driver.cuMemFreeAsync(address, stream)))


def _adopt(tensor: Tensor, release: Callable[[], Any]) -> Array:
    kind, gpu = tensor.device
    assert kind == GPU
    rank = tensor.rank
    return Array(
        tensor.data or 0,
        tensor.shape[:rank],
        TYPES[tensor.code, tensor.bits],
        Owner(release),
        tuple(tensor.strides[:rank]),
        gpu,
    )


def from_dlpack(capsule: Any) -> Array:
    address = python.PyCapsule_GetPointer(capsule, b"dltensor")
    python.PyCapsule_SetName(capsule, USED)
    kept = Unversioned.from_address(address)
    return _adopt(kept.tensor, lambda: _Deleter(kept.deleter)(address))


def _managed_to_object(address: int, result: Any) -> int:
    kept = Managed.from_address(address)
    made = _adopt(kept.tensor, lambda: _Deleter(kept.deleter)(address))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    result[0] = id(made)
    return 0


def _view_from_object(array: Any, result: Any) -> int:
    result[0] = array.tensor()
    return 0


def _current_stream(_type: int, _gpu: int, result: Any) -> int:
    result[0] = thread.stream
    return 0


_VOIDS = ctypes.POINTER(ctypes.c_void_p)
_INT = ctypes.c_int
_functions = (
    ctypes.PYFUNCTYPE(_INT, ctypes.c_void_p, _VOIDS)(_managed_to_object),
    ctypes.PYFUNCTYPE(_INT, ctypes.py_object, ctypes.POINTER(Tensor))(_view_from_object),
    ctypes.PYFUNCTYPE(_INT, ctypes.c_int32, ctypes.c_int32, _VOIDS)(_current_stream),
)
_to_object, _view, _stream = (ctypes.cast(one, ctypes.c_void_p).value for one in _functions)
_table = (ctypes.c_uint64 * 7)(1 | 3 << 32, 0, 0, 0, _to_object or 0, _view or 0, _stream or 0)


class OnStream:
    """No generator, which would leave the stream by itself when it is let go of."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __enter__(self) -> None:
        self.before, thread.stream = thread.stream, self.address
        changes.append(self.address)

    def __exit__(self, *_: object) -> None:
        thread.stream = self.before


def _copy(to: Any, given: Any) -> None:
    """As a GPU does, which does not care where the two overlap."""
    for index in np.ndindex(to.shape):
        to[index] = given[index]


class Library:
    name = "stand_in.Array"
    array = Array
    from_dlpack = staticmethod(from_dlpack)
    how_to_copy = "x.clone()"
    how_to_move = "move it"
    how_to_be_plain = "make it plain"
    exchange: Any = None

    def __init__(self, gpu: int) -> None:
        self.gpu = gpu

    def how_to_convert(self, element_type: str) -> str:
        return f"value.to({element_type})"

    def current_stream(self) -> int:
        return thread.stream

    def on_stream(self, address: int) -> OnStream:
        return OnStream(address)

    def is_plain(self, array: Any) -> bool:
        return type(array) is Array

    def copy(self, array: Any) -> Any:
        return array.clone()

    def assign(self, to: Any, given: Any) -> None:
        launch(_copy, to, given)

    def describe(self, array: Any) -> str:
        return f"a {array.dtype} Array of shape {array.shape} on {array.device}"


class FastLibrary(Library):
    exchange = python.PyCapsule_New(ctypes.addressof(_table), b"dlpack_exchange_api", None)


_gpu_arrays.LIBRARIES["stand_in"] = Library
_gpu_arrays.LIBRARIES["fast_stand_in"] = FastLibrary
