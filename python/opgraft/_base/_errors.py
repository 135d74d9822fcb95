"""The errors that Opgraft raises, and their way back through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Error(Exception):
    """A call is invalid as it stands. The base class of all errors below."""


class PyOpError(Error):
    """A Python operator raised, cannot be made, or returned a wrong value.

    `__cause__` is the operator's own exception, if there is one.
    """


class ModelError(Error):
    """The model is broken, or requires something impossible."""

    #: The newest opset that the runtime supports, if the only problem is that the model uses
    #: operators that have changed since then.
    opset_limit: int | None = None


class PolicyError(Error):
    """The model would run something that this host has not allowed by name."""


class UnavailableError(Error):
    """Something is not installed, or is too old or too new. The message says what to install."""


for _error in (Error, PyOpError, ModelError, PolicyError, UnavailableError):
    _error.__module__ = "opgraft"  # where users find them


def of_kind(kind: int) -> type[Error]:
    """Returns the class for a kind, as numbered in opgraft/status.h."""
    return (Error, PyOpError, ModelError, PolicyError, UnavailableError)[kind - 1]


@contextmanager
def raised_by_runtime(
    otherwise: Callable[[Exception], Error | None] = lambda error: None,
) -> Iterator[None]:
    """Turns an exception of the runtime that carries an error of ours back into that error.

    For an error of the runtime's own, raises what `otherwise` returns, unless that is None.
    """
    try:
        yield
    except Exception as error:
        translated = translate(error) or otherwise(error)
        if translated is None:
            raise
        raise translated from translated.__cause__


def translate(error: Exception) -> BaseException | None:
    """Returns the error of ours that an exception of onnxruntime carries in its text, or None.

    To be called once for an exception, because this also takes the operator's own exception.
    """
    from opgraft import _pyop
    from opgraft._base import _failure

    found = _pyop.find_error(str(error))
    if found is None:
        return None
    name, message, number = found
    cause = _failure.take(number)
    if isinstance(cause, KeyboardInterrupt):
        return cause
    translated: Error = globals()[name](message)
    translated.__cause__ = cause
    return translated
