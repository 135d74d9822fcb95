"""A fitted estimator as bytes, by skops and never by pickle, and back, where its types may load."""

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
import skops.io
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
from opgraft.sklearn._stored._walk import parts, walk

Allows = Callable[[list[str]], None]


def dump(estimator: Any, without: str = "") -> bytes:
    """The estimator as a skops file, `without` an attribute. UnavailableError where skops cannot
    store it."""
    title = type(estimator).__name__
    try:
        if hasattr(estimator, without):
            estimator = copy.copy(estimator)
            vars(estimator).pop(without, None)
        _check_names(estimator)
        stored = _without_compiled(estimator)
        data: bytes = skops.io.dumps(stored, compression=zipfile.ZIP_DEFLATED)
        if not _unpack.fits(data):
            data = skops.io.dumps(stored)  # of zeros, say, which pack to nearly nothing
        load(data, lambda names: None)
    except Exception as error:
        cause = _cause(error)
        remedy = "" if "Fix: " in cause else _REMEDY
        raise UnavailableError(f"{title} cannot be stored in a model: {cause}{remedy}") from error
    return data


_REMEDY = (
    ". Fix: set attributes of it that only fitting uses to None, or convert the steps before it "
    "and run it yourself"
)


def _cause(error: Exception) -> str:
    """Why it cannot be stored. What would be damage in a file is here what skops has written."""
    if isinstance(error, ModelError):
        return str(error).removesuffix(ADVICE).removeprefix(OPENING)
    return f"{type(error).__name__}: {error}"


def _check_names(estimator: Any) -> None:
    """What is stored of a function, or a class, is its name: it must lead to just that."""
    for place in walk(estimator):
        value = place.value if isinstance(place.value, FunctionType) else type(place.value)
        name = f"{value.__module__}.{value.__qualname__}"
        if "<" in name:
            raise NotImplementedError(
                f"{name} has no name by which others could find it. Fix: define it in a module, "
                "outside of functions"
            )
        if value.__module__ == "__main__":
            warnings.warn(
                f"{name} is found by this program alone; put it into a module, for models that "
                "others run",
                UserWarning,
                stacklevel=2,
            )


def _without_compiled(estimator: Any) -> Any:
    """A copy in which holders stand for objects of compiled code, without its caches."""
    memo: dict[int, Any] = {}
    for place in walk(estimator):
        for is_held, holder in _compiled_objects.HOLDERS:
            if is_held(place.value):
                memo[id(place.value)] = holder(place.value)
    copied = copy.deepcopy(estimator, memo)
    for place in walk(copied):
        if isinstance(place.value, BaseEstimator) and getattr(place.value, "memory", None):
            vars(place.value)["memory"] = None  # only fitting uses it, and it is of this machine
    return copied


def untrusted(data: bytes, version: str = "") -> list[str]:
    """The types and functions in it that a host must allow by name; errors as `load` has them."""
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
    """The estimator. `allows` raises where the host has not allowed one of the names it is given;
    nothing of the file is imported or made before it has returned.

    `version` is scikit-learn's when it was stored: another one is worth a warning.
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
            f"{type(loaded).__name__} was fitted with scikit-learn {version}, and runs with "
            f"{sklearn.__version__}: its results may differ. To be safe: pip install "
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
            f"an estimator of scikit-learn {version} cannot be read with {sklearn.__version__} and "
            f"skops {skops.__version__} ({what}). Fix: pip install scikit-learn=={version}"
        )
    return damaged(what)


def _check_home(name: str, allows: Allows) -> None:
    """An allowed module holds what it imports too, and allowing it does not allow those."""
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
            f"'{name}', which the stored estimator needs, is in no module that can be imported: "
            "put its folder into sys.path, or into PYTHONPATH"
        )
    for part in parts[length:]:
        if not hasattr(found, part):
            raise UnavailableError(
                f"the stored estimator needs '{name}', but '{module}' has no '{part}'"
                + (
                    "; it is that of the program that made the model. Fix: put it into a module, "
                    "and convert the estimator again" * (module == "__main__")
                )
            )
        found = getattr(found, part)
        if isinstance(found, ModuleType):
            raise PolicyError(f"the stored estimator names '{name}', but that is a module")
    home = getattr(found, "__module__", None)
    if isinstance(home, str) and home != module:
        allows([f"{home}.{getattr(found, '__name__', parts[-1])}"])


def _fenced(loaded: Any, names: list[str], allows: Allows, most: int) -> Any:
    """The estimator with objects of compiled code made anew, once all in it is looked through.

    `most`: how many bytes the rows and columns of its sparse matrices may take.
    """
    _check_sparse(loaded, most)
    loaded = _with_compiled(loaded)
    _fences.check(loaded, names, allows)
    for place in walk(loaded):
        _owners.check(place.value, names)
    return loaded


def _check_sparse(loaded: Any, most: int) -> None:
    """A shape is two numbers in a file, and takes memory for each row, or column, of it."""
    held = (place.value for place in walk(loaded))
    size = sum(one.size() for one in held if isinstance(one, _compiled_objects.StoredSparse))
    if size * 8 > most:
        raise damaged(
            f"its sparse matrices have {size} rows and columns, more rows and columns than a file "
            f"of this size may ({most // 8})"
        )


def _with_compiled(loaded: Any) -> Any:
    if isinstance(loaded, _compiled_objects.Stored):
        loaded = loaded.restore()
    made: dict[int, tuple[Any, Any]] = {}  # with what it is made of, so that no other gets its id
    for place in walk(loaded):
        for part in parts(place.value):  # one that is held twice is put in both places
            if not isinstance(part.value, _compiled_objects.Stored):
                continue
            if part.replace is None:
                raise damaged("a tree stands in a tuple")
            if id(part.value) not in made:
                made[id(part.value)] = part.value, part.value.restore()
            part.replace(made[id(part.value)][1])
    return loaded


def as_tensor(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)
