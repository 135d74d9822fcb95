"""The versions that matter: what is installed, found without importing it."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib import metadata

from opgraft._base._library import shipped_packs

_PACKAGES = ("numpy", "onnx", "torch", "onnxscript", "scikit-learn", "skl2onnx", "skops")
#: Distributions of ONNX Runtime; each brings the package onnxruntime.
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-training", "onnxruntime-directml")


def installed() -> dict[str, str]:
    """Returns names and versions; what is not installed is left out, except the runtime."""
    from opgraft import __version__

    found = {"opgraft": __version__, "python": platform.python_version()}
    runtimes = {name: version for name in _RUNTIMES if (version := _version(name))}
    found |= runtimes or {"onnxruntime": "not installed"}
    found |= {name: version for name in _PACKAGES if (version := _version(name))}
    if cuda := _cuda():
        found["cuda driver"] = cuda
    if packs := shipped_packs():
        found["packs"] = ", ".join(os.path.basename(pack) for pack in packs)
    return found


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _cuda() -> str:
    """Returns the newest CUDA that the driver supports, or ""."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        number = ctypes.c_int(0)
        if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
            return ""
    except (OSError, AttributeError):
        return ""
    return f"{number.value // 1000}.{number.value % 1000 // 10}"
