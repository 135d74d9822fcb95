"""Compares and restores the contents of Python values, by their type.

A model keeps values from call to call. Some are compared directly (numbers, texts), some by a copy
of their contents (tensors, arrays, sets), some item by item (lists, the user's objects), and the
rest by identity.
"""

from __future__ import annotations

import array
import ast
import collections
import copy
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import pathlib
import random
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

T = TypeVar("T")

#: Immutable types, whose values can be compared by ==.
_VALUES = (
    *(bool, int, float, complex, str, bytes, type(None), enum.Enum, np.generic),
    *(fractions.Fraction, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta),
    *(datetime.tzinfo, pathlib.PurePath, torch.dtype, torch.device, torch.layout, range, slice),
    frozenset,
)
_ARRAYS = (np.ndarray, bytearray, array.array)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
#: Modules whose objects are part of a library, not of a model.
_FOREIGN = frozenset(
    "torch numpy onnx sympy logging threading _thread io _io builtins abc typing".split()
)


def _remembered(function: Callable[[type], T]) -> Callable[[type], T]:
    """Caches a function of a class; weakly, so that classes can still be deleted."""
    known: weakref.WeakKeyDictionary[type, T] = weakref.WeakKeyDictionary()

    def found(kind: type) -> T:
        try:
            return known[kind]
        except KeyError:
            known[kind] = function(kind)
            return known[kind]

    return found


@_remembered
def kind_of(kind: type) -> str:
    """How values of a type are compared.

    "value": directly. "tensor", "array", "set", "generator" (of random numbers): by a copy of their
    contents. "dict", "list", "tuple", "module", "script", "plain": item by item. "function": by
    identity, and by what it calls. "iterator": by its position, if that can be read. "chance" (a
    torch generator, whose numbers are random in ONNX too): not at all. "other": by identity.
    """
    for name, kinds in _KINDS.items():
        if issubclass(kind, kinds):
            return name
    if _is_of_a_user(kind) and (kind.__dictoffset__ or slots_of(kind)):
        return "plain"
    return "iterator" if issubclass(kind, Iterator) else "other"


_KINDS: dict[str, tuple[type, ...]] = {
    "tensor": (torch.Tensor,),
    "function": _FUNCTIONS,
    "value": _VALUES,
    "script": (torch.jit.ScriptModule,),
    "module": (torch.nn.Module,),
    "dict": (dict,),
    "list": (list, deque),
    "tuple": (tuple,),
    "set": (set,),
    "array": _ARRAYS,
    "generator": _GENERATORS,
    "chance": (torch.Generator,),
    "plain": (threading.local,),
    "other": (type, types.ModuleType),
}


def _is_of_a_user(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] not in _FOREIGN


@_remembered
def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class."""
    names: list[str] = []
    for one in kind.__mro__:
        if _is_of_a_user(one):
            slots = vars(one).get("__slots__", ())
            names += [slots] if isinstance(slots, str) else [*slots]
    return tuple(name for name in dict.fromkeys(names) if name not in ("__dict__", "__weakref__"))


def classes_of(kind: type) -> tuple[type, ...]:
    """A class and its bases, as far as they are the user's."""
    return tuple(one for one in kind.__mro__ if _is_of_a_user(one))


def attributes_of(kind: type) -> dict[str, Any]:
    """The attributes of a class itself, without methods and without Python's own."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not hasattr(type(value), "__get__")
        and not isinstance(value, type)
        and not name.startswith(("__", "_abc_"))
    }


def in_slots(value: Any) -> dict[str, Any]:
    """The values in the slots of an object, as far as they are set."""
    kind = type(value)
    found = {}
    for name in slots_of(kind):
        if name.startswith("__") and not name.endswith("__"):  # Python mangles such names
            name = f"_{kind.__name__.lstrip('_')}{name}"
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return found


#: A container of more values than this is compared as a whole.
_MANY = 32
_SIMPLE = {bool, int, float, complex, str, bytes, type(None)}


def is_table(value: Any) -> bool:
    """Whether it is a long list, tuple or dictionary with only numbers and texts."""
    if type(value) not in (list, tuple, dict, deque) or len(value) <= _MANY:
        return False
    values = value.values() if isinstance(value, dict) else value
    return _SIMPLE.issuperset(map(type, values))


def copy_of(value: Any) -> Any:
    """A copy of the contents of an array, a set or a generator of random numbers."""
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, (*_GENERATORS, torch.Generator)):
        return _state_of(value)
    return value[:] if not isinstance(value, np.ndarray) else value.copy()


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        try:
            return generator.getstate()
        except NotImplementedError:  # SystemRandom has no state
            return None
    if isinstance(generator, np.random.Generator):
        return dict(generator.bit_generator.state)
    return generator.get_state()


def place_of(iterator: Any) -> str:
    """The position of an iterator, as a text; "" if it cannot be read."""
    if isinstance(iterator, itertools.count):
        return repr(iterator)
    left = getattr(type(iterator), "__length_hint__", None)
    return f"{left(iterator)} left" if left is not None else ""


def iterator_like(iterator: Any) -> Any:
    """Another iterator at the same position; None if it cannot be copied."""
    try:
        if isinstance(iterator, itertools.count):
            given = ast.literal_eval(repr(iterator).removeprefix("count").replace(")", ",)"))
            return itertools.count(*given)
        return copy.copy(iterator)
    except Exception:  # a class of the user's may raise anything
        return None


def are_same(one: Any, other: Any) -> bool:
    """Whether two values, or two copies of their contents, are equal. NaN equals NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        if isinstance(one, torch.Tensor):
            return are_equal(one, other)
        if isinstance(one, np.ndarray):
            return _are_equal_arrays(one, other)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(are_same(one[k], other[k]) for k in one)
        if isinstance(one, (list, tuple)):
            is_same = len(one) == len(other)
            return is_same and (one == other or all(map(are_same, one, other)))
        return bool(one == other or (one != one and other != other))
    except Exception:  # a class of the user's may raise anything
        return False


def _are_equal_arrays(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.hasobject:
        return all(map(are_same, one.ravel().tolist(), other.ravel().tolist()))
    return bool(one.tobytes() == other.tobytes())


def are_equal(one: torch.Tensor, other: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Whether tensors are equal within tolerances, by default exactly. NaN equals NaN."""
    if one.layout != other.layout or one.dtype != other.dtype or one.is_nested != other.is_nested:
        return False
    if one.is_nested:
        ones, others = one.unbind(), other.unbind()
        return len(ones) == len(others) and all(map(are_equal, ones, others))
    if one.shape != other.shape or one.is_meta != other.is_meta:
        return False
    if one.is_meta or one is other:
        return True
    if one.layout != torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if one.dtype in _WITHOUT_KERNELS:
        if rtol or atol:
            one, other = one.to(_WITHOUT_KERNELS[one.dtype]), other.to(_WITHOUT_KERNELS[one.dtype])
        else:
            one, other = (each.contiguous().flatten().view(torch.uint8) for each in (one, other))
    if torch.equal(one, other):
        return True
    is_float = one.is_floating_point() or one.is_complex()
    return is_float and bool(torch.isclose(one, other, rtol, atol, equal_nan=True).all())


#: Types that torch cannot compare, and a wider type that it can.
_WITHOUT_KERNELS = {
    getattr(torch, name): wide
    for names, wide in (
        (
            "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu",
            torch.float32,
        ),
        ("complex32", torch.complex64),
        ("float4_e2m1fn_x2 bits8 bits16 bits1x8 bits2x4 bits4x2", torch.uint8),
    )
    for name in names.split()
    if hasattr(torch, name)
}


def filling(holder: Any, contents: Any) -> Callable[[], None]:
    """Returns a function that puts `contents` back into a list, a dictionary and the like. It does
    not write if nothing has changed, since the holder's owner may watch for writes."""
    if isinstance(holder, dict):
        return functools.partial(_fill_dict, holder, contents)
    if isinstance(holder, set):
        return functools.partial(_fill_set, holder, contents)
    if isinstance(holder, (*_GENERATORS, torch.Generator)):
        return functools.partial(_set_state, holder, contents)
    if isinstance(holder, _ARRAYS):
        return functools.partial(_fill_array, holder, contents)
    return functools.partial(_fill_list, holder, contents)


# These call the methods of Python's own classes: a subclass may forbid or count such calls.
def _fill_dict(holder: Any, contents: list[tuple[Any, Any]]) -> None:
    if len(holder) == len(contents):
        now = dict.items(holder)
        if all(a is c and b is d for (a, b), (c, d) in zip(now, contents, strict=True)):
            return
    plain: Any = collections.OrderedDict if isinstance(holder, collections.OrderedDict) else dict
    plain.clear(holder)
    for key, value in contents:
        plain.__setitem__(holder, key, value)


def _fill_set(holder: Any, contents: frozenset[Any]) -> None:
    if set.__ne__(holder, contents):
        set.clear(holder)
        set.update(holder, contents)


def _fill_list(holder: Any, contents: list[Any]) -> None:
    if [*map(id, holder)] != [*map(id, contents)]:
        plain: Any = deque if isinstance(holder, deque) else list
        plain.clear(holder)
        plain.extend(holder, contents)


def _fill_array(holder: Any, contents: Any) -> None:
    if are_same(holder, contents):
        return
    if isinstance(holder, np.ndarray):
        if holder.shape != contents.shape:
            holder.resize(contents.shape, refcheck=False)
        holder[...] = contents
    else:
        holder[:] = contents


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        if state is not None and generator.getstate() != state:
            generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def fill_slots(value: Any, contents: dict[str, Any]) -> None:
    _fill(value, object, in_slots(value), contents)


def fill_class(kind: type, contents: dict[str, Any]) -> None:
    _fill(kind, type, attributes_of(kind), contents)


def _fill(value: Any, base: Any, now: Mapping[str, Any], contents: Mapping[str, Any]) -> None:
    """Sets attributes with the methods of `base`, bypassing those of the value's own class."""
    for name in now.keys() - contents.keys():
        base.__delattr__(value, name)
    for name, one in contents.items():
        if name not in now or now[name] is not one:
            base.__setattr__(value, name, one)
