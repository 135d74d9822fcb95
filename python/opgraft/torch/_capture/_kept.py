"""Snapshots of what a model keeps from call to call, to compare and to restore it.

That is everything its modules and their classes have: parameters, buffers, attributes, hooks, and
their contents.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _contents
from opgraft.torch._capture._contents import are_same, kind_of
from opgraft.torch._capture._leaf import (
    COPIED,
    Leaf,
    clone,
    replace,
    same_memory,
    set_gradient,
    write_back,
)
from opgraft.torch._capture._touched import memory_of, writes_to
from opgraft.torch._graphs._warning import warn

#: Parameters are copied up to this many bytes; beyond that, torch's count of writes is compared.
_MOST_BYTES = 2**29
#: The same limit for copies that are made for each call of the model.
_FEW_BYTES = 2**22
#: At most this many objects are visited; a model with more is watched in part.
_MOST_OBJECTS = 50_000
#: The dictionaries of torch.nn.Module, and the kind of their values.
_OF_MODULES = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "attribute"}
_HOOKS = frozenset({"_forward_hooks", "_forward_pre_hooks"})
#: Other dictionaries of torch.nn.Module; no result depends on them.
_ASIDE = frozenset(
    "_forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks_with_kwargs "
    "_backward_hooks _backward_pre_hooks _is_full_backward_hook _state_dict_hooks "
    "_state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks "
    "_non_persistent_buffers_set".split()
)
#: Compared by their type and length; their items are compared separately.
_HOLDERS = frozenset({"dict", "list", "tuple", "module", "script", "plain"})


class Snapshot:
    """The state of a model at one time."""

    def __init__(self, model: Any, *, has_parameters: bool = True) -> None:
        self.leaves: dict[str, Leaf] = {}
        #: What cannot be watched, by path: iterators whose position cannot be read.
        self.unwatched: dict[str, Leaf] = {}
        #: Whether some objects were not visited, since there were too many.
        self.is_cut = False
        self._undo: dict[tuple[int, str], tuple[str, Callable[[], None]]] = {}
        self._tensors: dict[int, Leaf] = {}
        self._gradients: list[tuple[Leaf, bool, Any]] = []
        self._seen: dict[int, Leaf] = {}
        self._classes: set[type] = set()
        self._bytes_left = _MOST_BYTES if has_parameters else _FEW_BYTES
        self._waiting: deque[tuple[Any, str, Leaf]] = deque()
        self._visit(model, "", Leaf("attribute", "", None, None, None, model))
        while self._waiting:  # breadth first, so that a large table does not use up the limit
            self._look_into(*self._waiting.popleft())

    def changes(self, later: Snapshot) -> dict[str, Leaf]:
        """What differs in a later snapshot, by path."""
        found = {}
        for path in dict.fromkeys([*self.leaves, *later.leaves]):
            mine, others = self.leaves.get(path), later.leaves.get(path)
            if mine is None or others is None or not mine.is_like(others):
                leaf = others or mine
                assert leaf is not None
                found[path] = leaf
        return found

    def writes(self, later: Snapshot) -> dict[str, Leaf]:
        """The tensors that were written to before a later snapshot, by path, even if their values
        are unchanged."""
        return {
            path: later.leaves[path]
            for path, leaf in self.leaves.items()
            if path in later.leaves and leaf.is_written_in(later.leaves[path])
        }

    def restore(self) -> list[str]:
        """Restores the model. Returns what could not be restored, with the reasons."""
        failed = []
        with torch.no_grad():
            steps: list[tuple[str, Callable[[], None]]] = [
                *self._undo.values(),
                *((one.name, functools.partial(write_back, one)) for one in self._tensors.values()),
                *(
                    (one.name, functools.partial(set_gradient, one.value, is_wanted, gradient))
                    for one, is_wanted, gradient in self._gradients
                ),
            ]
            for name, step in steps:
                try:
                    step()
                except Exception as error:
                    failed.append(f"`{name}` ({type(error).__name__}: {error})")
        return failed

    def _visit(self, value: Any, path: str, leaf: Leaf) -> None:
        """Records a value; its contents are visited later."""
        kind = kind_of(type(value))
        if kind == "value":
            self.leaves[path] = leaf
        elif kind == "tensor":
            self._add_tensor(value, path, leaf)
        elif kind == "iterator":
            self._add_iterator(value, path, leaf)
        elif (known := self._seen.get(id(value))) is not None:
            leaf.is_again, leaf.copy = True, known.copy
            if leaf.holder is not None:
                self.leaves[path] = leaf
        elif len(self._seen) >= _MOST_OBJECTS:
            self.is_cut = True
        else:
            self._seen[id(value)] = leaf
            if leaf.holder is not None and kind != "chance":
                self.leaves[path] = leaf
            if kind in COPIED or kind == "chance":
                leaf.copy = _contents.copy_of(value)
                self._hold(value, leaf.copy, leaf.name)
            elif _contents.is_table(value):
                leaf.copy = list(dict.items(value) if kind == "dict" else value)
                if kind != "tuple":
                    self._hold(value, leaf.copy, leaf.name)
            elif kind in _HOLDERS:
                leaf.copy = _length(value)
                self._waiting.append((value, path, leaf))
            elif kind == "function":
                self._waiting.append((value, path, leaf))

    def _look_into(self, value: Any, path: str, leaf: Leaf) -> None:
        kind = kind_of(type(value))
        if kind == "module":
            self._look_into_module(value, path)
        elif kind == "script":
            self._look_into_script(value, path)
        elif kind == "function":
            # Of a closure only modules and callables are watched: the function calls them.
            for number, one in enumerate(_called(value)):
                self._visit_part(one, f"{path}({number})", leaf, None, None)
        elif kind == "dict":
            self._hold_pairs(value, leaf.name)
            for number, (key, one) in enumerate(list(dict.items(value))):
                self._visit_part(one, f"{path}[{_shown(key, number)}]", leaf, value, key)
        elif kind in ("list", "tuple"):
            if kind == "list":
                self._hold(value, list(value), leaf.name)
            for index, one in enumerate(list(value)):
                self._visit_part(one, f"{path}[{index}]", leaf, value, index)
        if kind != "script":
            self._look_into_class(type(value))
        is_of_a_user = kind != "module" and _contents.classes_of(type(value))
        if kind == "plain" or is_of_a_user or isinstance(value, types.FunctionType):
            self._look_into_object(value, path, leaf)

    def _look_into_module(self, module: Any, path: str) -> None:
        if _is_lazy(module):
            return
        self._hold_pairs(vars(module), path)
        empty = []  # most of a module's dictionaries are empty; one step restores them all
        for key, one in list(vars(module).items()):
            if isinstance(one, dict) and not one and (key in _ASIDE or key in _HOOKS):
                empty.append(one)
            elif key in _ASIDE:
                if isinstance(one, dict):
                    self._hold_pairs(one, path)
            elif (key in _OF_MODULES or key in _HOOKS) and isinstance(one, dict):
                self._hold_pairs(one, path)
                kind = _OF_MODULES.get(key, "attribute")
                for name, each in list(one.items()):
                    inner = f"{path}.{name if key in _OF_MODULES else f'{key}[{name}]'}"
                    inner = inner.removeprefix(".")
                    self._visit(each, inner, Leaf(kind, inner, module, one, name, each))
            else:
                inner = f"{path}.{key}" if path else key
                leaf = Leaf("attribute", inner, module, vars(module), key, one)
                self._visit(one, inner, leaf)
        self._undo[id(module), "empty"] = path, functools.partial(_clear, empty)

    def _look_into_script(self, module: Any, path: str) -> None:
        """TorchScript keeps attributes outside of Python, and returns copies of lists."""
        for name, child in module.named_children():
            inner = f"{path}.{name}".removeprefix(".")
            self._visit(child, inner, Leaf("attribute", inner, module, (), name, child))
        buffers = dict(module.named_buffers(recurse=False))
        tensors = {**dict(module.named_parameters(recurse=False)), **buffers}
        values = {**_private.script_attributes(module), **tensors}
        for name, one in values.items():
            inner = f"{path}.{name}".removeprefix(".")
            kind = "buffer" if name in buffers else "parameter" if name in tensors else "attribute"
            leaf = Leaf(kind, inner, module, module, name, one)
            if isinstance(one, torch.Tensor):
                self._add_tensor(one, inner, leaf)
            else:
                leaf.copy = one
                self.leaves[inner] = leaf
        undo = functools.partial(_fill_script, module, values)
        self._undo[id(module), "script"] = path, undo

    def _look_into_class(self, kind: type) -> None:
        for one in _contents.classes_of(kind):
            if one in self._classes:
                continue
            self._classes.add(one)
            attributes = _contents.attributes_of(one)
            undo = functools.partial(_contents.fill_class, one, attributes)
            self._undo[id(one), "class"] = one.__qualname__, undo
            for key, value in attributes.items():
                name = f"{one.__qualname__}.{key}"
                leaf = Leaf("class attribute", name, None, one, key, value)
                self._visit(value, f"class {one.__module__}.{name}", leaf)

    def _look_into_object(self, value: Any, path: str, leaf: Leaf) -> None:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            self._hold_pairs(own, leaf.name)
            for key, one in list(own.items()):
                self._visit_part(one, f"{path}.{key}", leaf, own, key)
        if _contents.slots_of(type(value)):
            found = _contents.in_slots(value)
            undo = functools.partial(_contents.fill_slots, value, found)
            self._undo[id(value), "slots"] = leaf.name, undo
            for key, one in found.items():
                self._visit_part(one, f"{path}.{key}", leaf, value, key)

    def _visit_part(self, value: Any, path: str, whole: Leaf, holder: Any, key: Any) -> None:
        name = whole.name or str(key)  # if the whole is not a module
        self._visit(value, path, Leaf(whole.kind, name, whole.module, holder, key, value))

    def _hold_pairs(self, holder: dict[Any, Any], name: str) -> None:
        self._hold(holder, list(dict.items(holder)), name)

    def _hold(self, holder: Any, contents: Any, name: str) -> None:
        self._undo[id(holder), ""] = name, _contents.filling(holder, contents)

    def _add_iterator(self, iterator: Any, path: str, leaf: Leaf) -> None:
        """An iterator cannot be rewound, so `restore` replaces it by a copy."""
        spare = _contents.iterator_like(iterator)
        leaf.copy = _contents.place_of(iterator)
        if spare is None or not leaf.copy:
            self.unwatched[path] = leaf
            return
        self.leaves[path] = leaf
        self._undo[id(iterator), path] = leaf.name, functools.partial(replace, leaf, spare)

    def _add_tensor(self, tensor: torch.Tensor, path: str, leaf: Leaf) -> None:
        if leaf.holder is None or _private.is_fake(tensor):
            return
        self.leaves[path] = leaf
        known = self._tensors.get(id(tensor))
        if known is not None:
            leaf.copy, leaf.version, leaf.place = known.copy, known.version, known.place
            leaf.data = known.data
            return
        leaf.version, leaf.place = writes_to(tensor), memory_of(tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        size = tensor.numel() * tensor.element_size() if is_parameter else 0
        if size <= self._bytes_left:
            self._bytes_left -= size
            leaf.copy = clone(tensor)
        leaf.data = same_memory(tensor)
        self._tensors[id(tensor)] = leaf
        if tensor.is_leaf:
            self._gradients.append((leaf, tensor.requires_grad, tensor.grad))


@contextmanager
def keeping(model: Any, *, has_parameters: bool = False) -> Iterator[None]:
    """Restores the model's state at the end."""
    before = Snapshot(model, has_parameters=has_parameters)
    try:
        yield
    finally:
        if failed := before.restore():
            warn(f"the export could not restore the model: {', '.join(failed)}")


def _length(value: Any) -> int:
    """The length of a container; 0 for other objects."""
    return len(value) if isinstance(value, (dict, list, tuple, deque)) else 0


def _shown(key: Any, number: int) -> str:
    """A key of a dictionary in a path; by its number if it is not a plain value."""
    parts = key if isinstance(key, tuple) else (key,)
    is_short = all(kind_of(type(one)) == "value" for one in parts)
    return repr(key) if is_short else f"#{number}"


def _clear(holders: list[dict[Any, Any]]) -> None:
    for one in holders:
        if one:
            one.clear()


def _fill_script(module: Any, values: dict[str, Any]) -> None:
    now = _private.script_attributes(module)
    for name, value in values.items():
        if name in now and now[name] is not value and not are_same(now[name], value):
            _private.set_script_attribute(module, name, value)


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


def _is_lazy(module: torch.nn.Module) -> bool:
    """Whether a module creates its parameters in its first call, and then changes its class."""
    return any(
        one is not None and torch.nn.parameter.is_lazy(one)
        for one in (*module._parameters.values(), *module._buffers.values())
    )
