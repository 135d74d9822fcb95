"""Finds the state of a model by calling it.

So the way of capture does not matter, nor how a write is hidden.
"""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opgraft._base._errors import ModelError
from opgraft.torch import _private
from opgraft.torch._capture import _draws
from opgraft.torch._capture import _traced_examples as _examples
from opgraft.torch._capture._arguments import check_results
from opgraft.torch._capture._contents import are_equal, iterator_like, kind_of
from opgraft.torch._capture._examples import repeatable
from opgraft.torch._capture._guards import Line
from opgraft.torch._capture._kept import Snapshot
from opgraft.torch._capture._leaf import Leaf
from opgraft.torch._capture._state import State, Written
from opgraft.torch._capture._touched import Touched, memory_of, writes_to
from opgraft.torch._capture._written_lines import line_of
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._random import keeping_random_state, seed_others, seeds

#: At most this many values are changed one by one; more are changed together.
_MOST_ALONE = 8
#: Values are changed by a little, and by more than a model is likely to count to...
_AMOUNTS = (1, 1000)
#: ... and counters also by the steps between: every fifth call may behave differently.
_STEPS = range(2, 17)


#: The kinds of results that are checked: tensors, and objects that no graph can return.
_GIVEN = ("tensor", "plain", "iterator")


def find(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Sequence[str]
) -> State:
    """Returns what a model writes; nothing if there is no data to call it with. `names` are those
    of its arguments, as a flat list."""
    search = _search(model, args, kwargs)
    return State() if search is None else search.found(names)


def _search(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Search | None:
    """None if there is no data to call the model with."""
    if isinstance(model, torch.export.ExportedProgram):
        if not args and not kwargs and model.example_inputs is not None:
            args, kwargs = model.example_inputs
        if _private.has_fakes(list(model.state_dict.values())):
            return None
        model = model.module()
    kept = [*model.parameters(), *model.buffers()]
    if _private.has_fakes((args, kwargs, kept)):
        return None
    return _Search(model, *_private.flatten((args, dict(kwargs))))


class _Search:
    """Calls of one model."""

    def __init__(self, model: Any, leaves: list[Any], tree: Any) -> None:
        self._model = model
        self._leaves = leaves
        self._tree = tree
        self._first = Snapshot(model)
        self._arguments: list[bool] = []  # for each argument, whether the last call wrote to it
        self._drawn: list[str] = []  # the sources of random numbers that it drew from
        self._failure = ""  # the error of a call, as a text

    def found(self, names: Sequence[str]) -> State:
        try:
            return self._found(names)
        finally:
            self._first.restore()

    def _first_results(self) -> Any:
        """The results of the model. torch compiles its control flow operators, with open sizes
        after it has seen two; if that fails, compiles them anew for these sizes."""
        try:
            return self._call(self._leaves)
        except Exception as error:
            if not type(error).__module__.startswith("torch._dynamo"):
                raise
            self._first.restore()
            torch.compiler.reset()
            return self._call(self._leaves)

    def _found(self, names: Sequence[str]) -> State:
        try:
            results = self._first_results()
        except ModelError:  # about the results
            raise
        except Exception as error:  # the model rejects its arguments; the caller reports that
            return State(failure=error)
        state = State(
            [
                Written("argument", names[index] if index < len(names) else str(index))
                for index, is_written in enumerate(self._arguments)
                if is_written
            ]
        )
        if drawn := self._drawn:
            self._first.restore()
            state.draws = _draws.lines_of(drawn, lambda: self._call(self._leaves))
            if not self._depends_on_seeds(results):
                state.unwatched += [one.note for one in state.draws]
                state.draws = []
            self._first.restore()
            self._call(self._leaves)
        second = Snapshot(self._model)
        changed = self._first.changes(second)
        unwatched = second.unwatched
        touched = self._touched(second)
        if changed or unwatched or touched or self._first.writes(second):
            written, used = self._followed(results, second, changed, touched)
            state.second = self._failure
            state.written = [*_as_written(written, used), *state.written]
            unwatched = {path: leaf for path, leaf in unwatched.items() if path not in used}
        state.unwatched += [
            f"not watched: attribute `{one.name}` is a {type(one.value).__name__}, whose position "
            "cannot be read: if `forward` advances it, later calls differ, and the export has "
            "advanced it too"
            for one in unwatched.values()
        ]
        if second.is_cut:
            state.unwatched.append(
                "not watched: the model has too many objects in its attributes "
                f"({len(second.leaves)} were watched); writes of `forward` to the others were not "
                "seen"
            )
        return state

    def _depends_on_seeds(self, results: list[Any]) -> bool:
        """Whether results depend on the numbers drawn outside of torch."""
        with keeping_random_state():
            for seed in seeds():
                self._first.restore()
                seed_others(seed)
                got = self._tried(self._leaves)
                if got is None or not agree(results, got):
                    return True
        return False

    def _touched(self, second: Snapshot) -> dict[str, Leaf]:
        """The tensors whose memory a call writes to, by path, even if the values stay the same."""
        mode = Touched()
        with mode:
            self._tried(self._leaves)
        self._failure = ""  # some operators cannot be watched in this way
        second.restore()
        places = mode.places - {0}
        return {
            path: one
            for path, one in second.leaves.items()
            if isinstance(one.value, torch.Tensor) and memory_of(one.value) in places
        }

    def _followed(
        self,
        results: list[Any],
        second: Snapshot,
        changed: dict[str, Leaf],
        touched: dict[str, Leaf],
    ) -> tuple[dict[str, Leaf], set[str]]:
        """What calls write, and the paths of what results depend on. What is written only once and
        changes no result is a cache, such as a table of cosines, and is left out."""
        self._failure = ""
        again = self._tried(self._leaves)
        if again is None:  # the model can be called only once
            found = changed or second.unwatched
            return dict(found), set(found)
        third = Snapshot(self._model)
        growing = second.changes(third)
        unmoved = {**touched, **second.writes(third)}  # written to, whatever the values are now
        is_used = not agree(results, again)
        for leaves in self._others():
            self._first.restore()
            fresh = self._tried(leaves)
            if fresh is None:
                continue
            growing |= self._first.changes(Snapshot(self._model)) if not changed else {}
            second.restore()
            later = self._tried(leaves)
            growing |= second.changes(Snapshot(self._model))
            is_used |= later is None or not agree(fresh, later)
        self._failure = ""
        unmoved = {path: one for path, one in unmoved.items() if path not in growing}
        used = self._used(second, {**growing, **unmoved}, again, third)
        if is_used and not used:
            used = set(growing or changed or second.unwatched)
        # An attribute that gets equal elements again has not changed.
        told = {
            path: one for path, one in unmoved.items() if path in used or one.kind != "attribute"
        }
        unseen = {path: one for path, one in second.unwatched.items() if path in used}
        return {**(changed if used else {}), **growing, **told, **unseen}, used

    def _used(
        self,
        second: Snapshot,
        growing: dict[str, Leaf],
        again: list[Any],
        third: Snapshot,
    ) -> set[str]:
        """Changes what calls write, and returns the paths for which results then differ."""
        paths = [path for path in growing if path in second.leaves]
        groups = [[one] for one in paths] if len(paths) <= _MOST_ALONE else [paths]
        counting = [path for path in paths if _counts(second.leaves[path])]
        tries = [(group, amount) for group in groups for amount in _AMOUNTS]
        tries += [(counting, amount) for amount in _STEPS] if counting else []
        used: set[str] = set()
        for group, amount in tries:
            if used.issuperset(group):
                continue
            second.restore()
            disturbed = [
                _disturb(second.leaves[path], amount * _direction(path, second, third))
                for path in group
            ]
            if not any(disturbed):
                continue
            got = self._tried(self._leaves)
            if got is None or not agree(again, got):
                used.update(group)
        return used

    def _others(self) -> list[list[Any]]:
        """The arguments with other data."""
        return _examples.other_leaves(self._leaves, self._model)

    def _tried(self, leaves: list[Any]) -> list[Any] | None:
        try:
            return self._call(leaves)
        except Exception as error:
            self._failure = titled_line(error)
            return None

    def _call(self, leaves: list[Any]) -> list[Any]:
        given = [one.detach().clone() if isinstance(one, torch.Tensor) else one for one in leaves]
        args, kwargs = _private.unflatten(given, self._tree)
        counts = [_writes_to(one) for one in given]
        self._drawn = []
        with (
            repeatable(None),
            _private.in_use(),
            warnings.catch_warnings(),
            _draws.drawing(self._drawn),
        ):
            warnings.simplefilter("ignore")
            results = _private.flatten(self._model(*args, **kwargs))[0]
        # torch.export accepts some other kinds, such as NumPy arrays.
        check_results([one for one in results if kind_of(type(one)) in _GIVEN])
        results = [one for one in results if isinstance(one, torch.Tensor)]
        self._arguments = [
            isinstance(one, torch.Tensor)
            and (_writes_to(one) != count or not _are_same(one, before))
            and not any(one is result for result in results)
            for one, count, before in zip(given, counts, leaves, strict=True)
        ]
        return [one.detach().clone() for one in results]


def _writes_to(value: Any) -> int:
    return writes_to(value) if isinstance(value, torch.Tensor) else 0


def _counts(leaf: Leaf) -> bool:
    """Whether it may be a counter. Those of torch's own layers are harmless and do not count."""
    if type(leaf.module).__module__.startswith("torch.nn."):
        return False
    value = leaf.value
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.dtype in _WHOLE or str(value.dtype).startswith(("int", "uint"))
    is_many = isinstance(value, (list, deque, dict, set, bytearray, Iterator))
    return is_many or (isinstance(value, int) and not isinstance(value, bool))


_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _direction(path: str, second: Snapshot, third: Snapshot) -> int:
    """Whether a number goes up or down from call to call."""
    before = second.leaves[path].value
    after = third.leaves[path].value if path in third.leaves else before
    is_number = isinstance(before, (int, float)) and isinstance(after, (int, float))
    return -1 if is_number and after < before else 1


def _disturb(leaf: Leaf, amount: int) -> bool:
    """Changes a value of the model; False if that is impossible."""
    try:
        return _disturbed(leaf, leaf.value, amount)
    except Exception:  # a class of the user's may raise anything
        return False


def _disturbed(leaf: Leaf, value: Any, amount: int) -> bool:
    if isinstance(value, torch.Tensor):
        return _disturb_tensor(value, amount)
    if isinstance(value, bool):
        return abs(amount) == 1 and leaf.put(not value)
    if isinstance(value, (int, float, np.number)) and not isinstance(value, np.bool_):
        return leaf.put(_like(value, value + amount))
    if isinstance(value, (np.ndarray, bytearray)):
        return _disturb_array(value, amount)
    if isinstance(value, set):
        value |= {object() for _ in range(abs(amount))}
        return True
    if isinstance(value, (list, deque)):
        return _disturb_list(value, amount)
    if isinstance(value, Iterator):
        other = iterator_like(value)
        for _ in itertools.islice(other, abs(amount)):
            pass
        return leaf.put(other)
    if isinstance(value, dict) and all(type(one) in (int, str) for one in value):
        last = list(value.values())[-1]
        value.update({f"opgraft {number}": last for number in range(abs(amount))})
        return True
    return False


def _like(value: Any, other: Any) -> Any:
    """The other value, converted to the type of the first."""
    return type(value)(other)


def _disturb_tensor(tensor: torch.Tensor, amount: int) -> bool:
    if tensor.dtype == torch.bool and abs(amount) != 1:
        return False
    with torch.no_grad():
        if tensor.dtype == torch.bool:
            tensor.logical_not_()
        elif tensor.layout != torch.strided:
            tensor.copy_(tensor * (1 + amount))
        elif tensor.is_floating_point() and tensor.element_size() == 1:
            tensor.copy_((tensor.float() + amount).to(tensor.dtype))  # torch has no 8-bit sums
        else:
            tensor.add_(amount)
    return True


def _disturb_array(value: Any, amount: int) -> bool:
    if isinstance(value, bytearray):
        value[:] = bytes((one + amount) % 256 for one in value)
        return bool(value)
    if not value.flags.writeable or value.dtype.kind not in "iufc":
        return False
    value += value.dtype.type(amount)
    return bool(value.size)


def _disturb_list(value: Any, amount: int) -> bool:
    """Repeats the last item of a list; changes the items too if they are numbers."""
    if not value:
        return False
    numbers = all(type(one) in (int, float) for one in value)
    before = [one + amount for one in value] if numbers else list(value)
    value.clear()
    value.extend(before + [before[-1]] * abs(amount))
    return True


def agree(ones: Sequence[torch.Tensor], others: Sequence[torch.Tensor], rtol: float = 1e-6) -> bool:
    """Whether two calls gave the same results, apart from rounding when threads add in another
    order."""
    return len(ones) == len(others) and all(
        _are_same(one, other, rtol) for one, other in zip(ones, others, strict=True)
    )


def _are_same(one: torch.Tensor, other: torch.Tensor, rtol: float = 1e-6) -> bool:
    """Whether tensors are equal; the absolute tolerance is a tenth of `rtol` of the largest
    element."""
    try:
        return are_equal(one, other, rtol=rtol, atol=0.1 * rtol * _largest(one))
    except (RuntimeError, NotImplementedError):  # torch cannot compare this layout
        return True


def _largest(tensor: torch.Tensor) -> float:
    is_float = tensor.is_floating_point() or tensor.is_complex()
    if not is_float or tensor.layout != torch.strided or tensor.is_meta or not tensor.numel():
        return 0.0
    found = tensor.detach()
    found = (found if found.element_size() > 1 else found.float()).abs()
    return float(torch.where(found.isfinite(), found, 0).max())


def _as_written(leaves: Mapping[str, Leaf], used: Iterable[str]) -> list[Written]:
    """Returns each attribute once, even if several of its parts are written."""
    found: dict[str, Written] = {}
    for path, leaf in leaves.items():
        known = found.get(leaf.name)
        is_used = path in used or (known is not None and known.is_used)
        line: Line = known.line if known is not None else line_of(leaf)
        found[leaf.name] = Written(leaf.kind, leaf.name, line, is_used)
    return list(found.values())
