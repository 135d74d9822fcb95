"""What a model keeps from call to call, as it is at one time: to compare, and to bring back.

That is whatever its modules have: parameters, buffers, attributes, and lists, dictionaries and
plain objects in these.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch import _private

#: Values of parameters are copied up to as many bytes; beyond, torch's count of writes is asked.
_MOST_BYTES = 2**29
#: As much is looked at; a model that has more in lists and objects is watched in part.
_MOST_OBJECTS = 50_000
_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
#: Modules have these for their own sake.
_OF_MODULES = {"_parameters": "parameter", "_buffers": "buffer"}
#: What is part of a library, not of a model.
_FOREIGN = ("torch", "numpy", "onnx", "sympy", "logging", "threading", "_thread", "io", "_io")


@dataclass
class Leaf:
    """A tensor, or a value of Python's."""

    kind: str  # "buffer", "parameter" or "attribute"
    name: str  # such as "encoder.counter"
    module: Any  # that has it
    holder: Any  # the dictionary or list that has it
    key: Any
    value: Any
    #: Of a tensor, its elements as they were, and how often it had been written to.
    copy: torch.Tensor | None = None
    version: int = 0

    def is_like(self, other: Leaf) -> bool:
        """Whether it was the same when the other was taken."""
        mine, others = self.value, other.value
        if isinstance(mine, torch.Tensor) and isinstance(others, torch.Tensor):
            if self.copy is None or other.copy is None:
                return mine is others and self.version == other.version
            return are_equal(self.copy, other.copy)
        if isinstance(mine, _NUMBERS) or isinstance(others, _NUMBERS):
            return type(mine) is type(others) and bool(mine == others or mine != mine)
        return not isinstance(mine, torch.Tensor) and not isinstance(others, torch.Tensor)


class Snapshot:
    """A model as it is now."""

    def __init__(self, model: Any, *, has_parameters: bool = True) -> None:
        self.leaves: dict[str, Leaf] = {}
        self._holders: dict[int, tuple[Any, Any]] = {}
        self._tensors: dict[int, Leaf] = {}
        self._seen: dict[int, Any] = {}
        self._bytes = 0 if has_parameters else _MOST_BYTES
        self._visit(model, "", None)

    def changes(self, later: Snapshot) -> dict[str, Leaf]:
        """By path, what is otherwise in a later one."""
        found = {}
        for path in dict.fromkeys([*self.leaves, *later.leaves]):
            mine, others = self.leaves.get(path), later.leaves.get(path)
            if mine is None or others is None or not mine.is_like(others):
                leaf = others or mine
                assert leaf is not None
                found[path] = leaf
        return found

    def is_touched(self) -> bool:
        """Whether a tensor has been written to since, though it may be as it was."""
        return any(_version(one.value) != one.version for one in self._tensors.values())

    def restore(self) -> None:
        """Makes the model what it was."""
        for holder, contents in self._holders.values():
            _fill(holder, contents)
        with torch.no_grad():
            for leaf in self._tensors.values():
                _write_back(leaf)

    def _visit(self, value: Any, path: str, leaf: Leaf | None) -> None:
        if isinstance(value, torch.Tensor):
            self._add_tensor(value, path, leaf)
        elif isinstance(value, _NUMBERS):
            if leaf is not None:
                self.leaves[path] = leaf
        elif id(value) not in self._seen and len(self._seen) < _MOST_OBJECTS:
            self._seen[id(value)] = value
            for key, one, inner, own in self._children(value, path, leaf):
                self._visit(one, inner, Leaf(*own, _holder(value), key, one))

    def _children(
        self, value: Any, path: str, leaf: Leaf | None
    ) -> Iterator[tuple[Any, Any, str, tuple[str, str, Any]]]:
        """What it has: by which key, what, its path, and its kind, name and module."""
        if isinstance(value, torch.nn.Module):
            if _is_lazy(value):
                return
            self._hold(vars(value))
            for key, one in list(vars(value).items()):
                if key == "_modules" or (key in _OF_MODULES and isinstance(one, dict)):
                    self._hold(one)
                    kind = _OF_MODULES.get(key, "attribute")
                    for name, each in list(one.items()):
                        inner = f"{path}.{name}".removeprefix(".")
                        self._visit(each, inner, Leaf(kind, inner, value, one, name, each))
                elif not key.startswith("_forward") and not key.startswith("_backward"):
                    inner = f"{path}.{key}".removeprefix(".")
                    yield key, one, inner, ("attribute", inner, value)
            return
        own = ("attribute", path, None) if leaf is None else (leaf.kind, leaf.name, leaf.module)
        if isinstance(value, dict):
            self._hold(value)
            for key, one in list(value.items()):
                yield key, one, f"{path}[{key!r}]", own
        elif isinstance(value, (list, tuple, deque)):
            self._hold(value)
            for index, one in enumerate(list(value)):
                yield index, one, f"{path}[{index}]", own
        elif isinstance(value, set):
            self._hold(value)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            # What others have in a closure is theirs; the modules in it are called.
            for one in _called(value):
                yield None, one, path, own
        elif _is_plain(value):
            self._hold(vars(value))
            for key, one in list(vars(value).items()):
                name = f"{own[1]}.{key}".removeprefix(".") if leaf is None else own[1]
                yield key, one, f"{path}.{key}", (own[0], name, own[2])

    def _hold(self, holder: Any) -> None:
        if not isinstance(holder, tuple):
            is_pairs = isinstance(holder, dict)
            self._holders[id(holder)] = holder, list(holder.items() if is_pairs else holder)

    def _add_tensor(self, tensor: torch.Tensor, path: str, leaf: Leaf | None) -> None:
        if leaf is None or _private.is_fake(tensor):
            return
        self.leaves[path] = leaf
        known = self._tensors.get(id(tensor))
        if known is not None:
            leaf.copy, leaf.version = known.copy, known.version
            return
        leaf.version = _version(tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        size = tensor.numel() * tensor.element_size() if is_parameter else 0
        if self._bytes + size <= _MOST_BYTES and not (is_parameter and self._bytes >= _MOST_BYTES):
            self._bytes += size
            leaf.copy = tensor.detach().clone()
        self._tensors[id(tensor)] = leaf


@contextmanager
def keeping(model: Any, *, has_parameters: bool = False) -> Iterator[None]:
    """What a model does to what it keeps does not last."""
    before = Snapshot(model, has_parameters=has_parameters)
    try:
        yield
    finally:
        before.restore()


def _fill(holder: Any, contents: list[Any]) -> None:
    """Only where it is otherwise: whose it is may be watched."""
    if isinstance(holder, dict):
        if [*map(id, holder)] != [id(key) for key, _ in contents] or any(
            holder[key] is not one for key, one in contents
        ):
            holder.clear()
            holder.update(contents)
    elif isinstance(holder, set):
        if holder != set(contents):
            holder.clear()
            holder.update(contents)
    elif [*map(id, holder)] != [*map(id, contents)]:
        holder.clear()
        holder.extend(contents)


def _write_back(leaf: Leaf) -> None:
    tensor, before = leaf.value, leaf.copy
    if before is None or (
        tensor.shape == before.shape
        and tensor.dtype == before.dtype
        and are_equal(tensor.detach(), before)
    ):
        return
    if tensor.shape == before.shape and tensor.dtype == before.dtype:
        tensor.copy_(before)
    else:
        tensor.data = before.clone()


def _holder(value: Any) -> Any:
    is_container = isinstance(value, (dict, list, tuple, deque))
    return value if is_container else getattr(value, "__dict__", None)


def _called(function: Any) -> Iterator[Any]:
    if isinstance(function, types.MethodType):
        yield function.__self__
    elif isinstance(function, functools.partial):
        values = (function.func, *function.args, *function.keywords.values())
        yield from (one for one in values if callable(one))
    else:
        for cell in function.__closure__ or ():
            try:
                found = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(found, (torch.nn.Module, types.MethodType, functools.partial)):
                yield found


def _is_plain(value: Any) -> bool:
    """Whether it is an object of a class that somebody wrote, which has attributes."""
    if isinstance(value, (type, types.ModuleType)) or not isinstance(
        getattr(value, "__dict__", None), dict
    ):
        return False
    return type(value).__module__.partition(".")[0] not in _FOREIGN


def _is_lazy(module: torch.nn.Module) -> bool:
    """Whether it makes its parameters when it is called first, and becomes another class then."""
    return any(
        one is not None and torch.nn.parameter.is_lazy(one)
        for one in (*module._parameters.values(), *module._buffers.values())
    )


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def are_equal(one: torch.Tensor, other: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Within tolerances, none by default. NaN is itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    try:
        if torch.equal(one, other):
            return True
        is_float = one.is_floating_point() or one.is_complex()
        return is_float and bool(torch.isclose(one, other, rtol, atol, equal_nan=True).all())
    except (RuntimeError, NotImplementedError):  # of layouts that torch cannot compare
        return True
