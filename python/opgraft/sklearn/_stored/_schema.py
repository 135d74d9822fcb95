"""What skops would call to read a stored estimator: looked through before it calls anything.

A skops file is a tree of nodes. Each names a loader of skops and an object of a module, and loaders
call that object: a list's node calls what it names with the list, a dictionary's node calls the
types of its keys, ConstructorFromReduceNode calls anything with any arguments. skops asks whether a
name is trusted, not whether it is one to be called: a trusted function would be called while the
file is read. So each loader has its own list of names here, and what is not listed is refused.
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

#: The version of skops' format whose loaders are reviewed here; skops 0.15 and 0.16 write it.
#: A lower one in a file would choose older loaders.
PROTOCOL = 2

#: Numbers, dates and texts. bytes_ and void would make as many zeros as a number in a file says.
_SCALARS = {
    f"numpy.{np.dtype(code).type.__name__}" for code in np.typecodes["All"] if code not in "OSV"
}
_PRIMITIVES = {f"builtins.{name}" for name in ("int", "float", "str", "bool")}
#: A defaultdict may make one for a key that is not there; LightGBM's estimators have one such.
_CONTAINERS = {f"builtins.{name}" for name in ("list", "set", "tuple", "dict")}
_CONTAINERS |= {"collections.OrderedDict"}

#: What a loader may call, or make. Names that the host has allowed come to some of these.
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
    # Made by json, whatever it names.
    "JsonNode": {"builtins.str"},
    # These make nothing: they find an object by its name. Functions are below.
    "TypeNode": {*_PRIMITIVES, *_SCALARS, *_CONTAINERS},
    # Calls nothing: what it is of is a node of its own.
    "PartialNode": {"functools.partial"},
    # Only where a host has allowed their names.
    "ConstructorFromReduceNode": set(),
    "MethodNode": set(),
    "OperatorFuncNode": {f"operator.{name}" for name in ("attrgetter", "itemgetter")},
}
#: Their objects are made by `__new__`, and a type is asked for by its name, by skops.
_CLASSES = ("ObjectNode",)
#: Compiled functions of numbers alone, with one number as state, or none.
_LOSSES = ("sklearn._loss._loss.Cy", "sklearn.linear_model._sgd_fast.")
#: Where a class that the host has allowed may stand.
_OWN_CLASSES = "DictNode ListNode SetNode TupleNode ConstructorFromReduceNode".split()


def check(data: bytes) -> list[tuple[str, str]]:
    """The objects that are left to be looked at once they may be imported, each with its loader;
    a ModelError where a node is none that may be read. `data` is a file with nothing compressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        schema = json.loads(file.read("schema.json"))
        if schema.get("protocol") != PROTOCOL:
            raise ModelError(
                f"it is of version {schema.get('protocol')!r} of skops' format; this opgraft reads "
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
    """NumPy makes an array of the size that the header says before it reads what is there."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ModelError(f"'{name}' is of an unknown version of NumPy's format")
    count = math.prod(shape)
    if dtype.hasobject:
        return  # NumPy refuses it, since it would be a pickle
    if (count and not dtype.itemsize) or count * dtype.itemsize != size - stream.tell():
        raise ModelError(f"'{name}' does not hold as much as it says")


def _check_node(state: Any, nodes: dict[Any, Any]) -> None:
    """All nodes in what skops reads as one, or passes on."""
    waiting = [state]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            if "__loader__" in value:
                key = value.get("__id__") or ("no number", id(value))
                # skops takes the first with a number for all that have it: one that is looked at
                # here must not stand for one that is not.
                if not _is_same(nodes.setdefault(key, value), value):
                    raise ModelError("two of its nodes have the same number")
                _check_loader(value)
            waiting += value.values()


def patterns(data: bytes) -> Iterator[str]:
    """The regular expressions in it. `data` is a file with nothing compressed."""
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
    """Apart from numbers and names of files: an object that is stored twice has parts that are
    made anew each time, under other numbers."""
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
        raise ModelError(f"it holds a {loader!r} of '{_name(state)}', which is not read")
    if loader == "LossNode" and not _name(state).startswith(_LOSSES):
        raise _refusal(state)
    if loader == "DictNode":
        # Each of these is called with a key.
        for one in _content(state["key_types"], "ListNode"):
            _content(one, "TypeNode")
            if _name(one) not in _PRIMITIVES | _SCALARS:
                raise _refusal(one)
    if loader == "DefaultDictNode":
        _content(state["content"]["main"], "DictNode")
        # Called for a key that is not there.
        if state["content"]["default_factory"].get("__loader__") not in ("TypeNode", "JsonNode"):
            raise _refusal(state)
    if loader == "PartialNode":
        if state["content"]["func"].get("__loader__") not in ("FunctionNode", "TypeNode"):
            raise _refusal(state)
        _content(state["content"]["args"], "TupleNode")
        _content(state["content"]["kwds"], "DictNode")


def _content(state: Any, loader: str) -> Any:
    if state.get("__loader__") != loader:
        raise ModelError(f"it holds a {state.get('__loader__')!r} where a {loader} belongs")
    return state.get("content")


def _left(states: Iterable[Any]) -> Iterable[tuple[str, str]]:
    for state in states:
        loader, name = state["__loader__"], _name(state)
        if name not in _CALLED.get(loader, ()) and loader != "LossNode":
            yield loader, name


def check_kinds(left: Iterable[tuple[str, str]], allowed: Iterable[str]) -> None:
    """What `check` has left, now that everything in it may be imported: a class where a class
    belongs, and a function where it is only looked up, never called. `allowed` are the names that
    the host has answered for."""
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
            fits = is_class  # the method is asked for by name, by skops
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
        f"its {state['__loader__']} names '{_name(state).lstrip('.')}', which is not to be called "
        "while a model is read"
    )
