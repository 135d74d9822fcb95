"""Runs with arrays on a GPU: passes them by DLPack, on the stream of their library."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from opgraft._base._errors import Error
from opgraft._cuda import _provider
from opgraft._cuda._gpu_arrays import cupy_stream, torch_stream
from opgraft._run._frames import is_frame

_STREAM_ENTRY = "opgraft.cuda.stream"
_GPU = 2  # DLPack's number for CUDA
_CURRENT = -1  # for __dlpack__: no synchronisation, since the run uses the current stream


def stream_entry(stream: Any) -> str:
    """Returns the text for a stream in the options of a run: of torch, of CuPy, or an address.

    torch never destroys its own streams, so freeing memory need not wait for them.
    """
    address = getattr(stream, "cuda_stream", None)
    if address is not None:
        is_external = bool(address) and stream.stream_id == address
        return f"{address}" if is_external else f"{address} kept"
    address = getattr(stream, "ptr", stream)
    if isinstance(address, int) and not isinstance(address, bool):
        return str(address)
    raise Error(
        f"stream: expected a torch.cuda.Stream, a cupy.cuda.Stream or an address, not a "
        f"{type(stream).__name__}"
    )


class OnStream:
    """Options of runs on a stream, one for each thread, since entries cannot be removed."""

    def __init__(self) -> None:
        self._own = threading.local()

    def options(self, stream: Any) -> Any:
        own = self._own
        if getattr(own, "stream", None) is stream:  # torch's default stream compares equal to None
            return own.options
        entry = stream_entry(stream)
        if getattr(own, "entry", None) != entry:
            options = onnxruntime.RunOptions()
            options.add_run_config_entry(_STREAM_ENTRY, entry)
            # If this entry is absent, the runtime's lookup throws an exception, which costs 80 µs.
            options.add_run_config_entry("gpu_graph_id", "-1")
            own.entry, own.options = entry, options
        own.stream = stream
        return own.options


class Arrays:
    """Handles a session's arrays on its GPU."""

    def __init__(self, session: onnxruntime.InferenceSession, gpu: int) -> None:
        self._gpu = gpu
        self._device = _provider.device(gpu)._get_c_device()
        self._outputs = [one.name for one in session.get_outputs()]
        self._host_outputs = {
            one.name
            for one in session.get_outputs()
            if "string" in one.type or not one.type.startswith("tensor(")
        }
        self._on_stream = OnStream()
        self._library = _provider.library()

    def find(self, feed: Mapping[str, Any]) -> Any:
        """Returns the library, torch or CuPy, of the first array on a GPU, or None."""
        if is_frame(feed):
            return None
        for value in feed.values():
            if type(value) is np.ndarray or isinstance(value, onnxruntime.OrtValue):
                continue
            if _gpu_of(value) is not None:
                return _library_of(value)
        return None

    def options(self, stream: Any) -> Any:
        """Returns this thread's options that put a run on a stream."""
        return self._on_stream.options(stream)

    def enter(self, stream: Any) -> None:
        """Puts all work of this thread on the GPU on a stream, until `leave`.

        This includes the runtime's copies when inputs are bound. It leaves the caller's options
        unchanged, which other threads may use as well.
        """
        entry = stream_entry(stream)
        if self._library.opgraft_cuda_enter(self._gpu, entry.encode()) != 0:
            raise Error(f"GPU {self._gpu} cannot be used with the stream {entry}")

    def leave(self) -> None:
        self._library.opgraft_cuda_leave(self._gpu)

    def run(
        self,
        session: Any,
        library: Any,
        output_names: Sequence[str] | None,
        feed: Mapping[str, Any],
        run_options: Any,
        stream: Any,
    ) -> list[Any]:
        """Like onnxruntime's run, but all outputs are the library's arrays on the GPU."""
        names = list(output_names) if output_names else self._outputs
        if stream is None:
            stream = library.stream(self._gpu)
        options = self.options(stream) if run_options is None else run_options
        self.enter(stream)
        try:
            binding = runtime.SessionIOBinding(session._sess)
            for name, value in feed.items():
                binding.bind_ortvalue_input(name, self._value(library, name, value, stream))
            for name in names:
                if name in self._host_outputs:
                    binding.bind_output(name, runtime.OrtDevice.cpu(), 0)
                else:
                    binding.bind_output(name, self._device)
            session._sess.run_with_iobinding(binding, options)
            values = binding.get_outputs()  # iterating it would throw in C++ at its end: 30 µs
            return [
                values[i].numpy() if name in self._host_outputs else library.take(values[i])
                for i, name in enumerate(names)
            ]
        finally:
            del binding  # here, so that its memory is freed on the stream
            self.leave()

    def _value(self, library: Any, name: str, value: Any, stream: Any) -> Any:
        """Returns the OrtValue of an input, over the same memory."""
        if isinstance(value, onnxruntime.OrtValue):
            return value._ortvalue
        where = _gpu_of(value)
        if where is None:
            array = np.asarray(value.detach() if hasattr(value, "detach") else value)
            return onnxruntime.OrtValue.ortvalue_from_numpy(array)._ortvalue
        if where != self._gpu:
            raise Error(
                f"input '{name}' is on GPU {where}, but the session runs on GPU {self._gpu}"
            )
        if _library_of(value) is not library:
            raise Error(
                f"input '{name}' is an array of another library than the inputs before it. Fix: "
                "torch.from_dlpack(array), or cupy.from_dlpack(tensor), after its work is done"
            )
        return library.give(value, stream)


class _Torch:
    """torch, which must be imported already if there are tensors."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def stream(self, gpu: int) -> Any:
        return self._torch.cuda.current_stream(gpu)

    def give(self, tensor: Any, stream: Any) -> Any:
        tensor = tensor.detach()
        if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
            with self._torch.cuda.stream(self._own(stream, tensor.get_device())):
                tensor = tensor.resolve_conj().resolve_neg().contiguous()
        is_bool = tensor.dtype is self._torch.bool
        capsule = self._torch.utils.dlpack.to_dlpack(
            tensor.view(self._torch.uint8) if is_bool else tensor
        )
        return runtime.OrtValue.from_dlpack(capsule, is_bool)

    def _own(self, stream: Any, gpu: int) -> Any:
        """Returns a stream as a torch.cuda.Stream."""
        if isinstance(stream, self._torch.cuda.Stream):
            return stream
        return torch_stream(self._torch, int(getattr(stream, "ptr", stream)), gpu)

    def take(self, value: Any) -> Any:
        tensor = self._torch.utils.dlpack.from_dlpack(value.to_dlpack())
        is_bool = value.data_type() == "tensor(bool)"
        return (
            tensor.view(self._torch.bool)
            if is_bool and tensor.dtype != self._torch.bool
            else tensor
        )


class _CuPy:
    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def stream(self, gpu: int) -> Any:
        with self._cupy.cuda.Device(gpu):
            return self._cupy.cuda.get_current_stream()

    def give(self, array: Any, stream: Any) -> Any:
        if not array.flags.c_contiguous:
            with self._own(stream, array.device.id):
                array = self._cupy.ascontiguousarray(array)
        is_bool = array.dtype == bool
        capsule = (array.view("uint8") if is_bool else array).__dlpack__(stream=_CURRENT)
        return runtime.OrtValue.from_dlpack(capsule, is_bool)

    def _own(self, stream: Any, gpu: int) -> Any:
        """Returns a stream as a cupy.cuda.Stream."""
        if isinstance(stream, self._cupy.cuda.Stream):
            return stream
        return cupy_stream(self._cupy, int(getattr(stream, "cuda_stream", stream)), gpu)

    def take(self, value: Any) -> Any:
        array = self._cupy.from_dlpack(_Capsule(value))
        is_bool = value.data_type() == "tensor(bool)"
        return array.view(bool) if is_bool and array.dtype != bool else array


class _Capsule:
    """Has the methods of an array that from_dlpack calls."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __dlpack__(self, **_: Any) -> Any:
        return self._value.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()  # type: ignore[no-any-return]


def _gpu_of(array: Any) -> int | None:
    """Returns the number of the GPU that an array is on, or None if it is not on a GPU."""
    is_cuda = getattr(array, "is_cuda", None)  # torch's attribute takes a tenth of the time
    if is_cuda is False:
        return None
    if is_cuda is True:
        return int(array.get_device())
    ask = getattr(array, "__dlpack_device__", None)
    if ask is None:
        return None
    kind, number = ask()
    return int(number) if int(kind) == _GPU else None


_libraries: dict[type, Any] = {}
_modules: dict[str, Any] = {}


def _library_of(array: Any) -> Any:
    """Returns torch or CuPy for the class of an array, which may be a subclass."""
    found = _libraries.get(type(array))
    if found is None:
        found = _libraries[type(array)] = _find_library(array)
    return found


def _find_library(array: Any) -> Any:
    for name, kind, library in (("torch", "Tensor", _Torch), ("cupy", "ndarray", _CuPy)):
        module = sys.modules.get(name)
        if module is not None and isinstance(array, getattr(module, kind)):
            return _modules.setdefault(name, library(module))  # one for all classes of arrays
    raise Error(
        f"an array on a GPU is a {type(array).__module__}.{type(array).__name__}; expected an "
        "array of torch or CuPy. Fix: torch.from_dlpack(array)"
    )
