"""Adds the execution provider OpgraftCUDA to a session."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import onnxruntime

from opgraft._base._errors import Error, UnavailableError
from opgraft._base._library import cuda_library_path

PROVIDER = "OpgraftCUDA"
_CPU = "CPUExecutionProvider"
PROVIDERS = (PROVIDER, _CPU)
_RUNTIMES_OWN = "CUDAExecutionProvider"
_OLDEST = (1, 24)
_BY_NAME = (1, 26)  # the first version that finds a library's providers by name
_VENDOR = 0x10DE
_DEVICE_ENTRY = "opgraft.cuda.device"
_lock = threading.Lock()

Providers = Sequence[Any] | None


class Chosen:
    """The providers that a session will have, and the GPU, which is None without OpgraftCUDA."""

    def __init__(
        self,
        providers: Providers,
        provider_options: Sequence[dict[Any, Any]] | None,
        options: onnxruntime.SessionOptions,
    ) -> None:
        self.providers = providers
        self.provider_options = provider_options
        self.gpu: int | None = None
        self._problem = ""
        wanted = [_name(one) for one in providers or ()]
        if PROVIDER not in wanted:
            return
        place = wanted.index(PROVIDER)
        given = _options(providers or (), provider_options, place)
        _check_names(given)
        problem = find_problem()
        if problem:
            warnings.warn(
                f"{PROVIDER} is not available: {problem}. Operators with a kernel for the CPU run "
                "there",
                stacklevel=3,
            )
            self._problem = problem
            self._leave_out(place)
            return
        self.gpu = _gpu(given)
        if options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL:
            raise Error(
                f"{PROVIDER} uses one stream for each run, so it cannot run nodes in parallel. "
                "Fix: leave execution_mode at ORT_SEQUENTIAL"
            )
        if _version() < _BY_NAME:
            self._leave_out(place)
            _add_to(options, self.gpu)
            if {_name(one) for one in self.providers or ()} - {_CPU}:
                raise Error(
                    f"with {PROVIDER}, ONNX Runtime {onnxruntime.__version__} takes only {_CPU}. "
                    "Fix: pip install 'onnxruntime>=1.26', or leave the other providers out"
                )
            self.providers = self.provider_options = None

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Adds to the error of an operator that needs a GPU why no GPU is available."""
        try:
            yield
        except UnavailableError as error:
            if self._problem and needs_gpu(error):
                what, _, _ = str(error).partition(", and this session has none. Fix: ")
                remedy = (
                    "pip install 'onnxruntime>=1.24'"
                    if _version() < _OLDEST
                    else "run the model where CUDA sees a GPU"
                )
                error.args = (
                    f"{what}, and {PROVIDER} is not available: {self._problem}. Fix: {remedy}",
                )
            raise

    def _leave_out(self, place: int) -> None:
        left = list(self.providers or ())
        del left[place]
        self.providers = left or [_CPU]
        if self.provider_options:
            self.provider_options = [
                one for i, one in enumerate(self.provider_options) if i != place
            ] or None


def check_alone(providers: Sequence[str]) -> None:
    """Refuses a session that has ONNX Runtime's own provider for CUDA as well.

    `kTwoCudaProviders` in src/adapter/cuda_services.h says why; the C++ host refuses there.
    """
    if PROVIDER in providers and _RUNTIMES_OWN in providers:
        raise Error(
            f"{PROVIDER} and {_RUNTIMES_OWN} cannot share a session: their work is on different "
            "streams, so that results could be wrong. Fix: "
            f"providers=[{PROVIDER!r}, {_CPU!r}] for operators of Opgraft on the GPU, or "
            f"providers=[{_RUNTIMES_OWN!r}, {_CPU!r}] for those of ONNX Runtime and of packs"
        )


@functools.cache
def library() -> ctypes.PyDLL:
    """Returns the provider's own functions. None of them waits, so the GIL is not released."""
    loaded = ctypes.PyDLL(cuda_library_path())
    loaded.opgraft_cuda_problem.restype = ctypes.c_char_p
    loaded.opgraft_cuda_enter.argtypes = [ctypes.c_size_t, ctypes.c_char_p]
    loaded.opgraft_cuda_leave.argtypes = [ctypes.c_size_t]
    loaded.opgraft_cuda_leave.restype = None
    return loaded


def device(gpu: int) -> Any:
    """Returns ONNX Runtime's object for a GPU's memory."""
    return onnxruntime.OrtDevice.make("gpu", gpu, _VENDOR)


def needs_gpu(error: UnavailableError) -> bool:
    """Whether an operator could not be made because the session has no GPU."""
    return "it runs on GPUs alone" in str(error)


def _name(provider: Any) -> str:
    return str(provider[0] if isinstance(provider, (tuple, list)) else provider)


def _options(
    providers: Sequence[Any], provider_options: Sequence[dict[Any, Any]] | None, place: int
) -> dict[str, Any]:
    more = list(provider_options or ())
    given = dict(more[place]) if place < len(more) else {}
    if isinstance(providers[place], (tuple, list)):
        given.update(providers[place][1])
    return given


def _check_names(given: dict[str, Any]) -> None:
    unknown = sorted(given.keys() - {"device_id"})
    if unknown:
        raise Error(f"{PROVIDER} has no option '{unknown[0]}'; it has 'device_id'")


def _gpu(given: dict[str, Any]) -> int:
    asked = str(given.get("device_id", 0))
    gpus = [one.ep_metadata["cuda_device_id"] for one in _devices()]
    if asked not in gpus:
        raise Error(
            f"{PROVIDER}: there is no GPU with device_id {asked}, only {', '.join(gpus)}; "
            "CUDA_VISIBLE_DEVICES chooses them, and ONNX Runtime supports at most 8"
        )
    return int(asked)


def _version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", onnxruntime.__version__)[:2]))


def finds_by_name() -> bool:
    """Whether the runtime finds a library's providers by name."""
    return _version() >= _BY_NAME


@functools.cache
def find_problem() -> str:
    """Returns why no GPU can be used, or "". Registers the provider's library."""
    if _version() < _OLDEST:
        return f"it needs ONNX Runtime 1.24 or newer, but this is {onnxruntime.__version__}"
    with _lock:
        if not _devices():
            try:
                if problem := library().opgraft_cuda_problem():
                    return str(problem.decode(errors="replace"))
                onnxruntime.register_execution_provider_library(PROVIDER, cuda_library_path())
            except (OSError, RuntimeError) as error:
                return str(error)
    return "" if _devices() else "ONNX Runtime does not accept the GPUs that it offers"


def _devices() -> list[Any]:
    return [one for one in onnxruntime.get_ep_devices() if one.ep_name == PROVIDER]


def _add_to(options: onnxruntime.SessionOptions, gpu: int) -> None:
    """Adds the provider to the session options, unless they have it already."""
    try:
        before = options.get_session_config_entry(_DEVICE_ENTRY)
    except RuntimeError:
        before = None
    if before is None:
        one = next(one for one in _devices() if one.ep_metadata["cuda_device_id"] == str(gpu))
        options.add_provider_for_devices([one], {})
        options.add_session_config_entry(_DEVICE_ENTRY, str(gpu))
    elif before != str(gpu):
        raise Error(
            f"these session options have {PROVIDER} on GPU {before} already. Fix: make new "
            f"session options for GPU {gpu}"
        )
