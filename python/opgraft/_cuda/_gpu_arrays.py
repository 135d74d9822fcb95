"""Arrays of torch or CuPy on a GPU, for operators that run there.

The bridge makes them by DLPack, over the runtime's memory. The rest of what it needs is here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from opgraft._declare import _declare


class Library(Protocol):
    """The functions of a library that the bridge uses, for one GPU."""

    name: str  # the class of its arrays, for messages
    array: type
    exchange: Any  # the capsule of DLPack's C functions, or None
    from_dlpack: Callable[[Any], Any]
    how_to_copy: str
    how_to_move: str
    how_to_be_plain: str

    def how_to_convert(self, element_type: str) -> str: ...
    def current_stream(self) -> int:
        """Returns the address of this thread's current stream."""
        ...

    def on_stream(self, address: int) -> AbstractContextManager[Any]:
        """Returns a context in which the stream at that address is this thread's current one."""
        ...

    def is_plain(self, array: Any) -> bool:
        """Whether the array's memory holds its values themselves (not, say, their negatives)."""
        ...

    def copy(self, array: Any) -> Any: ...
    def assign(self, to: Any, given: Any) -> None: ...
    def describe(self, array: Any) -> str: ...


class _OnTorchStream(AbstractContextManager[None]):
    """Like `torch.cuda.stream`, but faster."""

    __slots__ = ("_before", "_cuda", "_gpu", "_stream")

    def __init__(self, cuda: Any, gpu: int, stream: Any) -> None:
        self._cuda, self._gpu, self._stream = cuda, gpu, stream

    def __enter__(self) -> None:
        self._before = self._cuda.current_stream(self._gpu)
        self._cuda.set_stream(self._stream)

    def __exit__(self, *_: object) -> None:
        self._cuda.set_stream(self._before)


class _Torch:
    name = "torch.Tensor"
    array: type
    from_dlpack: Callable[[Any], Any]
    how_to_copy = "x.clone()"
    how_to_be_plain = "return a dense tensor, value.to_dense()"

    def __init__(self, gpu: int) -> None:
        import torch
        import torch.utils.dlpack

        if not torch.cuda.is_available():
            raise _Unfit(
                f"torch {torch.__version__} sees no GPU. Fix: install a build of torch for "
                "CUDA, pip install torch"
            )
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._torch = torch
        self._gpu = gpu
        self._streams: dict[int, Any] = {}
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self.array = torch.Tensor
        self.exchange: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        self.from_dlpack = torch.utils.dlpack.from_dlpack
        self.how_to_move = (
            f"make it on the device of the inputs (device=x.device), or value.to('cuda:{gpu}')"
        )

    def how_to_convert(self, element_type: str) -> str:
        return f"value.to(torch.{element_type})"

    def current_stream(self) -> int:
        return int(self._torch.cuda.current_stream(self._gpu).cuda_stream)

    def on_stream(self, address: int) -> AbstractContextManager[Any]:
        cuda = self._torch.cuda
        stream = self._streams.get(address)
        if stream is None:
            _forget_some(self._streams)
            stream = self._streams[address] = torch_stream(self._torch, address, self._gpu)
        return _OnTorchStream(cuda, self._gpu, stream)

    def is_plain(self, array: Any) -> bool:
        return type(array) in self._plain and not array.is_neg()

    def copy(self, array: Any) -> Any:
        return array.detach().clone()

    def assign(self, to: Any, given: Any) -> None:
        to.copy_(given.detach())

    def describe(self, array: Any) -> str:
        dtype = str(array.dtype).removeprefix("torch.")
        layout = "" if array.layout is self._torch.strided else f" of layout {array.layout}"
        return _text(dtype, "tensor", array.shape, f"{layout} on {array.device}")


class _CuPy:
    name = "cupy.ndarray"
    exchange: Any = None
    how_to_copy = "x.copy()"
    how_to_be_plain = "return a plain array, cupy.ascontiguousarray(value)"

    def __init__(self, gpu: int) -> None:
        cupy = importlib.import_module("cupy")
        if gpu >= cupy.cuda.runtime.getDeviceCount():
            raise _Unfit(f"CuPy {cupy.__version__} sees no GPU {gpu}")
        self._cupy = cupy
        self._gpu = gpu
        self._streams: dict[int, Any] = {}
        self.array: type = cupy.ndarray
        self.from_dlpack = cupy.from_dlpack
        self.how_to_move = f"make it on GPU {gpu}"

    def how_to_convert(self, element_type: str) -> str:
        return f"value.astype(cupy.{element_type})"

    def current_stream(self) -> int:
        return int(self._cupy.cuda.get_current_stream().ptr)

    def on_stream(self, address: int) -> AbstractContextManager[Any]:
        stream = self._streams.get(address)
        if stream is None:
            _forget_some(self._streams)
            stream = self._streams[address] = cupy_stream(self._cupy, address, self._gpu)
        return stream  # type: ignore[no-any-return]

    def is_plain(self, array: Any) -> bool:
        return type(array) is self.array

    def copy(self, array: Any) -> Any:
        return array.copy()

    def assign(self, to: Any, given: Any) -> None:
        self._cupy.copyto(to, given)

    def describe(self, array: Any) -> str:
        return _text(array.dtype, "cupy.ndarray", array.shape, f" on GPU {array.device.id}")


def _forget_some(streams: dict[int, Any]) -> None:
    """Bounds the cache: a program may make a new stream for each run."""
    if len(streams) >= 64:
        streams.clear()


def torch_stream(torch: Any, address: int, gpu: int) -> Any:
    """Returns torch's object for a stream."""
    if address == 0:
        return torch.cuda.default_stream(gpu)
    return torch.cuda.ExternalStream(address, device=gpu)


def cupy_stream(cupy: Any, address: int, gpu: int) -> Any:
    """Returns CuPy's object for a stream, which is a context manager that makes it current."""
    if address == 0:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_Stream(address))
    return cupy.cuda.ExternalStream(address, gpu)  # before CuPy 14


class _Stream:
    """A stream at an address, in the form that libraries exchange."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


class _Unfit(Exception):
    """Why a library cannot be used."""


def _text(dtype: Any, kind: str, shape: Any, rest: str) -> str:
    article = "an" if str(dtype)[0] in "aeio" else "a"
    return f"{article} {dtype} {kind} of shape {tuple(shape)}{rest}"


#: The libraries by the value of `arrays=`, which is also the name of the module.
LIBRARIES: dict[str, Callable[[int], Library]] = {"torch": _Torch, "cupy": _CuPy}


def find(full_name: str, gpu: int) -> Library | str:
    """Returns the library of the operator's arrays, or why it cannot be used."""
    name = _declare.find(full_name).arrays
    try:
        return LIBRARIES[name](gpu)
    except ImportError as error:
        return (
            f"its arrays need {name}, which cannot be imported ({error}). Fix: pip "
            f"install {_PACKAGES[name]}"
        )
    except _Unfit as unfit:
        return f"its arrays need {name}, but {unfit}"


_PACKAGES: dict[str, str] = {"torch": "torch", "cupy": "cupy-cuda13x, or the package for your CUDA"}
