"""The errors that Opgraft raises, and how they come back out of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Error(Exception):
    """A call that makes no sense as it stands; the base of all errors below."""


class PyOpError(Error):
    """A Python operator raised, cannot be made, or gave what it must not.

    `__cause__` is the operator's own exception, where there is one.
    """


class ModelError(Error):
    """The model is broken, or asks for something that cannot be."""

    #: The newest opset that the runtime takes, where operators that have changed since are all that
    #: is wrong with the model.
    opset_limit: int | None = None


class PolicyError(Error):
    """The model would run something that this host has not allowed by name."""


class UnavailableError(Error):
    """Something is not installed, or is too old or too new: the text says what to install."""


for _error in (Error, PyOpError, ModelError, PolicyError, UnavailableError):
    _error.__module__ = "opgraft"  # where users find them


def of_kind(kind: int) -> type[Error]:
    """The class of a kind that opgraft/status.h numbers."""
    return (Error, PyOpError, ModelError, PolicyError, UnavailableError)[kind - 1]


@contextmanager
def raised_by_runtime(
    otherwise: Callable[[Exception], Error | None] = lambda error: None,
) -> Iterator[None]:
    """Turns an error of ours that comes back as the runtime's into what it was.

    What `otherwise` makes of an error of the runtime's own is raised in its place.
    """
    try:
        yield
    except Exception as error:
        translated = translate(error) or otherwise(error)
        if translated is None:
            raise
        raise translated from translated.__cause__


def translate(error: Exception) -> BaseException | None:
    """The error of ours that an exception of onnxruntime carries in its text, or None.

    To be called once for an exception: the operator's own one is handed out with it.
    """
    from opgraft import _failure, _pyop

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
