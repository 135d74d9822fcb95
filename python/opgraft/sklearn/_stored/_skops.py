"""Stores a fitted estimator as bytes with skops, never pickle, and loads it if its types may."""

from __future__ import annotations

import copy
import importlib
import warnings
import zipfile
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from opgraft._base._errors import Error, ModelError, PolicyError, UnavailableError
from opgraft.sklearn._stored import (
    _compiled_objects,
    _fences,
    _owners,
    _patterns,
    _schema,
    _trusted,
    _unpack,
)
from opgraft.sklearn._stored._damage import ADVICE, OPENING, damaged
from opgraft.sklearn._stored._skops_import import without_torch
from opgraft.sklearn._stored._walk import parts, walk

with without_torch():
    import skops.io

Allows = Callable[[list[str]], None]


def dump(estimator: Any, without: str = "") -> bytes:
    """Returns the estimator as a skops file, `without` an attribute. Raises an UnavailableError if
    it cannot be stored."""
    title = type(estimator).__name__
    try:
        if hasattr(estimator, without):
            estimator = copy.copy(estimator)
            vars(estimator).pop(without, None)
        _check_names(estimator)
        stored = _without_compiled(estimator)
        data: bytes = skops.io.dumps(stored, compression=zipfile.ZIP_DEFLATED)
        if not _unpack.fits(data):
            data = skops.io.dumps(stored)  # such as many zeros, which compress to almost nothing
        load(data, lambda names: None)
    except Exception as error:
        cause = _cause(error)
        remedy = "" if "Fix: " in cause else _REMEDY
        raise UnavailableError(f"{title} cannot be stored in a model: {cause}{remedy}") from error
    return data


_REMEDY = (
    ". Fix: set its attributes that are only used for fitting to None, or convert only the steps "
    "before it and run it yourself"
)


def _cause(error: Exception) -> str:
    """Says why an estimator cannot be stored. The file is new, so an error of `load` does not mean
    that it is damaged."""
    if isinstance(error, ModelError):
        return str(error).removesuffix(ADVICE).removeprefix(OPENING)
    return f"{type(error).__name__}: {error}"


def _check_names(estimator: Any) -> None:
    """Checks that functions and classes can be found by name, since only their names are stored."""
    for place in walk(estimator):
        value = place.value if isinstance(place.value, FunctionType) else type(place.value)
        name = f"{value.__module__}.{value.__qualname__}"
        if "<" in name:
            raise NotImplementedError(
                f"{name} cannot be imported by name. Fix: define it in a module, "
                "outside of functions"
            )
        if value.__module__ == "__main__":
            warnings.warn(
                f"{name} can only be found by this program. Fix: put it into a module if other "
                "programs are to run the model",
                UserWarning,
                stacklevel=2,
            )


def _without_compiled(estimator: Any) -> Any:
    """Returns a copy in which holders replace compiled objects, without caches."""
    memo: dict[int, Any] = {}
    for place in walk(estimator):
        for is_held, holder in _compiled_objects.HOLDERS:
            if is_held(place.value):
                memo[id(place.value)] = holder(place.value)
    copied = copy.deepcopy(estimator, memo)
    for place in walk(copied):
        if isinstance(place.value, BaseEstimator) and getattr(place.value, "memory", None):
            vars(place.value)["memory"] = None  # only for fitting, and a path of this machine
    return copied


def untrusted(data: bytes, version: str = "") -> list[str]:
    """Returns the names of types and functions that a host must allow. Raises as `load` does."""
    try:
        unpacked = _unpack.unpack(data)
        _schema.check(unpacked)
        names = _untrusted(unpacked)
        if not all(map(_patterns.is_bounded, _schema.patterns(unpacked))):
            names = sorted({*names, _patterns.ALLOWANCE})
    except Exception as error:
        raise _unreadable(error, version) from error
    return names


def _untrusted(unpacked: bytes) -> list[str]:
    return sorted(set(skops.io.get_untrusted_types(data=unpacked)) - _trusted.NAMES)


def load(data: bytes, allows: Allows, version: str = "") -> Any:
    """Returns the estimator. `allows` must raise if the host has not allowed one of the given
    names; nothing that the file names is imported or created before it returns.

    `version` is the version of scikit-learn that stored it. Warns if the installed one differs.
    """
    most = _unpack.most(len(data))
    try:
        data = _unpack.unpack(data)
        left = _schema.check(data)
        names = _untrusted(data)
    except Exception as error:
        raise _unreadable(error, version) from error
    if names:
        allows(names)
        for name in names:
            _check_home(name, allows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        try:
            _schema.check_kinds(left, names)
            loaded = skops.io.loads(data, trusted=[*names, *_trusted.NAMES])
        except Exception as error:
            raise _unreadable(error, version) from error
    try:
        loaded = _fenced(loaded, names, allows, most)
    except Error as error:
        if isinstance(error, ModelError) and _is_other(version):
            raise _unreadable(error, version) from error
        raise
    except Exception as error:
        raise _unreadable(error, version) from error
    if _is_other(version):
        warnings.warn(
            f"{type(loaded).__name__} was fitted with scikit-learn {version} and runs with "
            f"{sklearn.__version__}, so its results may differ. Fix: pip install "
            f"scikit-learn=={version}",
            RuntimeWarning,
            stacklevel=2,
        )
    return loaded


def _is_other(version: str) -> bool:
    return bool(version) and version != sklearn.__version__


def _unreadable(error: Exception, version: str) -> Exception:
    what = f"{error}" if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
    if _is_other(version):
        what = what.removesuffix(ADVICE)
        return UnavailableError(
            f"an estimator stored with scikit-learn {version} cannot be read with scikit-learn "
            f"{sklearn.__version__} and skops {skops.__version__} ({what}). Fix: pip install "
            f"scikit-learn=={version}"
        )
    return damaged(what)


def _check_home(name: str, allows: Allows) -> None:
    """Checks the module that really defines a name: an allowed module also contains the names that
    it imports, and allowing it does not allow these."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module + ".").startswith(error.name + "."):
                continue
            raise
        break
    else:
        raise UnavailableError(
            f"the stored estimator needs '{name}', but its module cannot be imported. Fix: add the "
            "folder of the module to sys.path or PYTHONPATH"
        )
    for part in parts[length:]:
        if not hasattr(found, part):
            raise UnavailableError(
                f"the stored estimator needs '{name}', but '{module}' has no '{part}'"
                + (
                    "; it was defined in the program that made the model. Fix: put it into a "
                    "module and convert the estimator again" * (module == "__main__")
                )
            )
        found = getattr(found, part)
        if isinstance(found, ModuleType):
            raise PolicyError(f"the stored estimator names '{name}', but that is a module")
    home = getattr(found, "__module__", None)
    if isinstance(home, str) and home != module:
        allows([f"{home}.{getattr(found, '__name__', parts[-1])}"])


def _fenced(loaded: Any, names: list[str], allows: Allows, most: int) -> Any:
    """Checks everything in the estimator, and returns it with its compiled objects rebuilt.

    `most` is how many bytes the rows and columns of its sparse matrices may take.
    """
    _check_sparse(loaded, most)
    loaded = _with_compiled(loaded)
    _fences.check(loaded, names, allows)
    for place in walk(loaded):
        _owners.check(place.value, names)
    return loaded


def _check_sparse(loaded: Any, most: int) -> None:
    """Limits the shapes of sparse matrices: two numbers in a file, but they take memory for each
    row or column."""
    held = (place.value for place in walk(loaded))
    size = sum(one.size() for one in held if isinstance(one, _compiled_objects.StoredSparse))
    if size * 8 > most:
        raise damaged(
            f"its sparse matrices have {size} rows and columns, more rows and columns than a file "
            f"of this size may have ({most // 8})"
        )


def _with_compiled(loaded: Any) -> Any:
    if isinstance(loaded, _compiled_objects.Stored):
        loaded = loaded.restore()
    made: dict[int, tuple[Any, Any]] = {}  # keeps the source, so that no other object gets its id
    for place in walk(loaded):
        for part in parts(place.value):  # an object held twice is replaced in both places
            if not isinstance(part.value, _compiled_objects.Stored):
                continue
            if part.replace is None:
                raise damaged("a compiled object is in a tuple")
            if id(part.value) not in made:
                made[id(part.value)] = part.value, part.value.restore()
            part.replace(made[id(part.value)][1])
    return loaded


def as_tensor(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)
