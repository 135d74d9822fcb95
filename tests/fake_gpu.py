"""Builds the fake CUDA driver, tests/cuda/fake_driver.cc, and queries it, for the tests."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from pack_building import KEPT, alone, build_pack, find_compiler

import opgraft

_SOURCES = Path(__file__).parent / "cuda"
VARIABLES = ("OPGRAFT_CUDA_DRIVER", "FAKE_CUDA_MEMORY", "FAKE_CUDA_GPUS")
PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]
needs_plugins = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24),
    reason="OpgraftCUDA needs ONNX Runtime 1.24 or newer",
)


def build_driver() -> Path:
    """Returns its library; builds it if it does not exist yet."""
    return _build(_SOURCES / "fake_driver.cc")


def build_other_provider() -> Path:
    """Returns the library of a provider that calls itself CUDAExecutionProvider."""
    repository = _SOURCES.parents[1]
    return _build(
        _SOURCES / "other_provider.cc", f"-I{repository / 'src'}", f"-I{repository / 'include'}"
    )


def _build(source: Path, *flags: str) -> Path:
    library = KEPT / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    with alone(library):
        if not library.exists():
            unfinished = library.with_suffix(f".{os.getpid()}")
            command = [find_compiler("g++"), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"]
            subprocess.run(
                [*command, *flags, "-shared", "-fPIC", str(source), "-o", str(unfinished)],
                check=True,
            )
            unfinished.replace(library)
    return library


def build_operators() -> Path:
    """Builds the pack whose kernels run on the fake driver."""
    return build_pack([_SOURCES / "operators.cc"])


def start() -> FakeGpu:
    """Starts the fake driver in this process, with its operators; skips the test if it cannot.

    Each test that uses it calls this or has the fixture `fake_gpu`: it sets the variables by which
    packs and programs find the driver, which are reset after the test.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a CUDA driver; the fake one is for machines without")
    driver = build_driver()
    os.environ |= dict(zip(VARIABLES, (str(driver), str(1 << 28), "2"), strict=True))
    return _load(driver)


@functools.cache
def _load(driver: Path) -> FakeGpu:
    opgraft.load(build_operators())
    return FakeGpu(driver)


class FakeGpu:
    """The fake driver's memory and streams."""

    def __init__(self, driver: Path) -> None:
        self._driver = ctypes.CDLL(str(driver))
        self._driver.fake_alias.restype = self._driver.fake_stream.restype = ctypes.c_void_p
        self._driver.fake_used.restype = ctypes.c_size_t
        self._driver.fake_is_pinned.restype = ctypes.c_bool
        self._driver.fake_count.restype = ctypes.c_long

    def used(self) -> int:
        """Returns the number of allocated bytes, once all streams are done."""
        return int(self._driver.fake_used())

    def is_pinned(self, address: int) -> bool:
        return bool(self._driver.fake_is_pinned(ctypes.c_void_p(address)))

    def counts(self) -> dict[str, int]:
        names = ["to_device", "to_host", "on_device", "waits", "launches"]
        return {name: int(self._driver.fake_count(i)) for i, name in enumerate(names)}

    def stream(self, is_blocking: bool) -> int:
        return int(self._driver.fake_stream(int(is_blocking)))

    def delay(self, stream: int, milliseconds: int) -> None:
        """Puts work that takes a while on a stream."""
        self._driver.fake_delay(ctypes.c_void_p(stream), milliseconds)

    def copy(self, stream: int, to: int, source: int, size: int) -> None:
        """Puts a copy between device addresses on a stream."""
        words = [ctypes.c_ulonglong(to), ctypes.c_ulonglong(source)]
        self._driver.cuMemcpyAsync(*words, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def read(self, address: int, size: int) -> np.ndarray:
        """Returns the floats that are on the device now, even if they are still being written."""
        alias = self._driver.fake_alias(ctypes.c_void_p(address))
        return np.ctypeslib.as_array(
            ctypes.cast(alias, ctypes.POINTER(ctypes.c_float)), (size,)
        ).copy()

    def wait(self, stream: int) -> None:
        self._driver.cuStreamSynchronize(ctypes.c_void_p(stream))


def on_gpu(array: np.ndarray) -> Any:
    """Returns an OrtValue on the fake GPU; the provider must have been used before."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", 0, 0x10DE)
