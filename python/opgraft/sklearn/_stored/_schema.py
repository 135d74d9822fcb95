"""Checks what skops would call to read a stored estimator, before it calls anything.

A skops file is a tree of nodes. Each node names a loader of skops and an object in a module, and
most loaders call that object: a list node calls it with the list, a dictionary node calls the types
of its keys, ConstructorFromReduceNode calls anything with any arguments. skops checks whether a
name is trusted, not whether it is meant to be called, so it would call a trusted function while it
reads a file. Therefore each loader has its own list of names here, and all others are refused.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from opgraft._base._errors import ModelError
from opgraft.sklearn._stored import _trusted

#: The version of skops' format whose loaders we reviewed; skops 0.15 and 0.16 write it. A lower
#: version in a file would select older loaders.
PROTOCOL = 2

#: Numbers, dates and strings. bytes_ and void would allocate as many zeros as a file asks for.
_SCALARS = {
    f"numpy.{np.dtype(code).type.__name__}" for code in np.typecodes["All"] if code not in "OSV"
}
_PRIMITIVES = {f"builtins.{name}" for name in ("int", "float", "str", "bool")}
#: A defaultdict may create one of these for a missing key; LightGBM's estimators have such a dict.
_CONTAINERS = {f"builtins.{name}" for name in ("list", "set", "tuple", "dict")}
_CONTAINERS |= {"collections.OrderedDict"}

#: What each loader may call or create. For some loaders, names that the host allows are added.
_CALLED: dict[str, set[str]] = {
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "DefaultDictNode": {"collections.defaultdict"},
    "ListNode": {"builtins.list"},
    "SetNode": {"builtins.set"},
    "TupleNode": {"builtins.tuple", "sklearn.gaussian_process.kernels.Hyperparameter"},
    "BytesNode": {"builtins.bytes"},
    "BytearrayNode": {"builtins.bytearray"},
    "SliceNode": {"builtins.slice"},
    "NdArrayNode": {"numpy.ndarray", *_SCALARS},
    "MaskedArrayNode": {"numpy.ma.MaskedArray"},
    "DTypeNode": {"numpy.dtype"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    # The value comes from json, whatever the node names.
    "JsonNode": {"builtins.str"},
    # These create nothing; they look up an object by name. Functions are handled below.
    "TypeNode": {*_PRIMITIVES, *_SCALARS, *_CONTAINERS},
    # Calls nothing: its function is a separate node.
    "PartialNode": {"functools.partial"},
    # Only for names that a host has allowed.
    "ConstructorFromReduceNode": set(),
    "MethodNode": set(),
    "OperatorFuncNode": {f"operator.{name}" for name in ("attrgetter", "itemgetter")},
}
#: Their objects are created by `__new__`, and skops asks whether the type is trusted.
_CLASSES = ("ObjectNode",)
#: Compiled functions that only compute with numbers, with at most one number as state.
_LOSSES = ("sklearn._loss._loss.Cy", "sklearn.linear_model._sgd_fast.")
#: Loaders that may use a class that the host has allowed.
_OWN_CLASSES = "DictNode ListNode SetNode TupleNode ConstructorFromReduceNode".split()


def check(data: bytes) -> list[tuple[str, str]]:
    """Returns the objects that can only be checked when they may be imported, with their loaders.
    Raises a ModelError for a node that may not be read. `data` is a file without compression."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        schema = json.loads(file.read("schema.json"))
        if schema.get("protocol") != PROTOCOL:
            raise ModelError(
                f"it has version {schema.get('protocol')!r} of skops' format; this Opgraft reads "
                f"version {PROTOCOL}"
            )
        for name in file.namelist():
            if name.endswith(".npy"):
                with file.open(name) as stream:
                    _check_array(name, stream, file.getinfo(name).file_size)
    nodes: dict[Any, Any] = {}
    _check_node({**schema, "protocol": None, "_skops_version": None}, nodes)
    return sorted(set(_left(nodes.values())))


def _check_array(name: str, stream: Any, size: int) -> None:
    """Checks the size in the header: NumPy allocates that much before it reads the data."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ModelError(f"'{name}' has an unknown version of NumPy's format")
    count = math.prod(shape)
    if dtype.hasobject:
        return  # NumPy refuses to read it, because it would be a pickle
    if (count and not dtype.itemsize) or count * dtype.itemsize != size - stream.tell():
        raise ModelError(f"the size of '{name}' does not match its header")


def _check_node(state: Any, nodes: dict[Any, Any]) -> None:
    """Checks all nodes in a part of the file, and collects them."""
    waiting = [state]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            if "__loader__" in value:
                key = value.get("__id__") or ("no number", id(value))
                # skops uses the first node with a number for all nodes with that number. A node
                # that was checked must not replace another one.
                if not _is_same(nodes.setdefault(key, value), value):
                    raise ModelError("two of its nodes have the same number")
                _check_loader(value)
            waiting += value.values()


def patterns(data: bytes) -> Iterator[str]:
    """Yields the regular expressions in a file. `data` is a file without compression."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        waiting = [json.loads(file.read("schema.json"))]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            node = value.get("token_pattern")
            if isinstance(node, dict) and node.get("__loader__") == "JsonNode":
                pattern = json.loads(node["content"])
                if isinstance(pattern, str):
                    yield pattern
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _is_same(one: Any, other: Any) -> bool:
    """Whether two nodes are equal apart from numbers and file names. The parts of an object that is
    stored twice are written twice, with other numbers."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            key in ("__id__", "file") or _is_same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _name(state: Any) -> str:
    return f"{state['__module__']}.{state['__class__']}"


def _check_loader(state: Any) -> None:
    loader = state["__loader__"]
    is_known = loader in _CALLED or loader in (*_CLASSES, "LossNode", "FunctionNode")
    if not is_known or not isinstance(loader, str):
        raise ModelError(f"it has a {loader!r} of '{_name(state)}', which is not supported")
    if loader == "LossNode" and not _name(state).startswith(_LOSSES):
        raise _refusal(state)
    if loader == "DictNode":
        # skops calls each of these with a key.
        for one in _content(state["key_types"], "ListNode"):
            _content(one, "TypeNode")
            if _name(one) not in _PRIMITIVES | _SCALARS:
                raise _refusal(one)
    if loader == "DefaultDictNode":
        _content(state["content"]["main"], "DictNode")
        # Python calls it for a missing key.
        if state["content"]["default_factory"].get("__loader__") not in ("TypeNode", "JsonNode"):
            raise _refusal(state)
    if loader == "PartialNode":
        if state["content"]["func"].get("__loader__") not in ("FunctionNode", "TypeNode"):
            raise _refusal(state)
        _content(state["content"]["args"], "TupleNode")
        _content(state["content"]["kwds"], "DictNode")


def _content(state: Any, loader: str) -> Any:
    if state.get("__loader__") != loader:
        raise ModelError(f"it has a {state.get('__loader__')!r} where a {loader} is expected")
    return state.get("content")


def _left(states: Iterable[Any]) -> Iterable[tuple[str, str]]:
    for state in states:
        loader, name = state["__loader__"], _name(state)
        if name not in _CALLED.get(loader, ()) and loader != "LossNode":
            yield loader, name


def check_kinds(left: Iterable[tuple[str, str]], allowed: Iterable[str]) -> None:
    """Checks the rest of what `check` returned, now that it may be imported: classes where classes
    are expected, and functions only where they are looked up, never called. `allowed` are the names
    that the host has allowed."""
    for loader, name in left:
        found = _find(name)
        is_class = isinstance(found, type)
        is_own = name in allowed
        if loader in _CLASSES:
            fits = is_class
        elif loader == "FunctionNode":
            fits = not is_class and (
                is_own or name in _trusted.NAMES or isinstance(found, np.ufunc) or _is_ufunc(found)
            )
        elif loader == "MethodNode":
            fits = is_class  # skops asks whether the method is trusted
        elif loader == "TypeNode":
            fits = is_own or (name in _trusted.NAMES and not is_class)
        else:
            fits = is_class and is_own and loader in _OWN_CLASSES
        if not fits:
            raise _refusal({"__loader__": loader, "__module__": "", "__class__": name})


def _is_ufunc(found: Any) -> bool:
    return type(found).__module__.startswith("scipy.special")


def _find(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def _refusal(state: Any) -> ModelError:
    return ModelError(
        f"its {state['__loader__']} names '{_name(state).lstrip('.')}', which may not be called "
        "while a model is read"
    )
