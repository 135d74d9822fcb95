"""The packages that opgraft.torch needs, and the error that says what to install."""

from __future__ import annotations

import importlib.util

from opgraft._errors import UnavailableError

_INSTALL = 'pip install "opgraft[torch]"'
#: Those that have to do with ONNX; operators in eager mode do without them.
_TO_EXPORT = ("onnx", "onnx_ir", "onnxscript")


class NotInstalledError(UnavailableError, ModuleNotFoundError):
    """A package is not installed. As an ImportError it is what `try: import` expects."""


def need_torch() -> None:
    if _is_missing("torch"):
        raise _error("opgraft.torch needs torch, 2.10 or newer", "torch")


def need_to_export(who: str) -> None:
    """What every export needs; `who` is the name that was asked for."""
    for name in _TO_EXPORT:
        if _is_missing(name):
            package = "onnxscript" if name == "onnx_ir" else name  # which brings it
            raise _error(f"{who} needs {package}", name)


def _is_missing(name: str) -> bool:
    return importlib.util.find_spec(name) is None


def _error(what: str, name: str) -> NotInstalledError:
    error = NotInstalledError(f"{what}, which is not installed: {_INSTALL}")
    error.name = name
    return error


NotInstalledError.__module__ = "opgraft"
