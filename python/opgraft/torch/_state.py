"""State: what a model writes in a call, and whether its results depend on what it wrote before.

An ONNX model keeps nothing from call to call. What is only written is lost there, which is said.
Where results depend on it, the ONNX model is right for the first call alone. Both are found by
calling the model, so that it does not matter who captures it, or how a write is hidden.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft._errors import ModelError
from opgraft._survey import STATE_PREFIX
from opgraft.torch import _private
from opgraft.torch import _traced_examples as _examples
from opgraft.torch._examples import repeatable
from opgraft.torch._guards import HOLDS_WHERE, Guard, Line
from opgraft.torch._kept import Leaf, Snapshot, are_equal

#: So many things are disturbed one by one.
_MOST_ALONE = 8
_KEEPS = "keeps state from call to call"


@dataclass(frozen=True)
class Written:
    """Something that a call of the model writes to."""

    kind: str  # "buffer", "parameter", "attribute" or "argument"
    name: str
    line: Line = field(default_factory=Line)
    #: Whether results of later calls depend on it.
    is_used: bool = False

    def describe(self, line: str) -> str:
        where = f" ({line})" if line else ""
        if self.kind == "argument":
            return (
                f"the model writes to its argument `{self.name}`{where}; the ONNX model leaves the "
                "input as it is. Fix: return it as an output"
            )
        fix = "take it as an input, and return it as an output" if self.is_used else ""
        return (
            f"the model writes {self.kind} `{self.name}` in forward{where}; the ONNX model does "
            f"not keep it. Fix: {fix or 'return it as an output, or do without it'}"
        )

    def __str__(self) -> str:
        return self.describe(str(self.line))

    @property
    def guard(self) -> Guard:
        condition = f"{self.kind} `{self.name}` is what it was at the export"
        advice = f"take `{self.name}` as an input of the model, and return it as an output"
        return Guard(self.line, condition, advice)


@dataclass
class State:
    written: list[Written] = field(default_factory=list)

    @property
    def guards(self) -> list[Guard]:
        """What a graph takes for granted of what the model keeps."""
        return [one.guard for one in self.written if one.is_used]

    @property
    def notes(self) -> list[str]:
        return [*map(str, self.written)]

    @property
    def lines(self) -> list[str]:
        """For what leaves this machine."""
        return [STATE_PREFIX + one.describe(one.line.short) for one in self.written]

    def tell(self, program: Any) -> None:
        """Says it in a warning, in the report of an exported program, and in its metadata."""
        if self.written:
            warnings.warn("; ".join(self.notes), stacklevel=4)
            program.report.state = self.notes
            known = program.model.metadata_props.get(HOLDS_WHERE, "").splitlines()
            program.model.metadata_props[HOLDS_WHERE] = "\n".join([*known, *self.lines])

    def refuse(self, name: str) -> None:
        """A ModelError where the results of later calls would be wrong."""
        used = [one for one in self.written if one.is_used]
        if not used:
            return
        shown = [
            f"  {f'{one.line}: ' if str(one.line) else ''}{one.kind} `{one.name}`\n"
            f"    Fix: {one.guard.advice}"
            for one in used
        ]
        raise ModelError(
            f"{name} {_KEEPS}, and its results depend on it. An ONNX model keeps none: it would "
            "be right for the first call, and silently wrong for those after it.\n"
            + "\n".join(shown)
            + "\nTo export what the first call does anyway: specialise=True"
        )


def is_refusal(error: Exception) -> bool:
    return isinstance(error, ModelError) and _KEEPS in str(error)


def find(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Sequence[str]
) -> State:
    """What a model writes; nothing where it has no data to be called with. `names` are those of
    its arguments, one after the other."""
    if isinstance(model, torch.export.ExportedProgram):
        if not args and not kwargs and model.example_inputs is not None:
            args, kwargs = model.example_inputs
        if _private.has_fakes(list(model.state_dict.values())):
            return State()
        model = model.module()
    kept = [*model.parameters(), *model.buffers()]
    if _private.has_fakes((args, kwargs, kept)):
        return State()
    return _Search(model, *_private.flatten((args, dict(kwargs)))).found(names)


class _Search:
    """Calls of one model."""

    def __init__(self, model: Any, leaves: list[Any], tree: Any) -> None:
        self._model = model
        self._leaves = leaves
        self._tree = tree
        self._first = Snapshot(model)
        self._arguments: list[bool] = []

    def found(self, names: Sequence[str]) -> State:
        try:
            return self._found(names)
        except Exception:  # the model does not take its arguments, which others say
            return State()
        finally:
            self._first.restore()

    def _found(self, names: Sequence[str]) -> State:
        results = self._call(self._leaves)
        arguments = [
            Written("argument", names[index] if index < len(names) else str(index))
            for index, is_written in enumerate(self._arguments)
            if is_written
        ]
        second = Snapshot(self._model)
        changed = self._first.changes(second)
        if not changed and not self._first.is_touched():
            return State(arguments)
        written, used = self._followed(results, second, changed)
        return State([*_as_written(written, used), *arguments])

    def _followed(
        self, results: list[Any], second: Snapshot, changed: dict[str, Leaf]
    ) -> tuple[dict[str, Leaf], set[str]]:
        """What calls write, and the paths of what results depend on. What is written once, and
        changes nothing, is only remembered, as a table of cosines is."""
        again = self._call(self._leaves)
        growing = second.changes(Snapshot(self._model))
        is_used = not _agree(results, again)
        for leaves in self._others():
            self._first.restore()
            fresh = self._tried(leaves)
            if fresh is None:
                continue
            growing |= self._first.changes(Snapshot(self._model)) if not changed else {}
            second.restore()
            later = self._tried(leaves)
            growing |= second.changes(Snapshot(self._model))
            is_used |= later is None or not _agree(fresh, later)
        used = self._used(second, growing, again)
        if is_used and not used:
            used = set(growing or changed)
        written = {**changed, **growing} if used else growing
        return written, used

    def _used(self, second: Snapshot, growing: dict[str, Leaf], again: list[Any]) -> set[str]:
        """Disturbs what calls write, and sees whether results differ."""
        paths = list(growing)
        groups = [[one] for one in paths] if len(paths) <= _MOST_ALONE else [paths]
        used: set[str] = set()
        for group in groups:
            for amount in (1, 1000):
                second.restore()
                leaves = [leaf for path in group if (leaf := second.leaves.get(path)) is not None]
                disturbed = [_disturb(one, amount) for one in leaves]
                if not any(disturbed):
                    continue
                got = self._tried(self._leaves)
                if got is None or not _agree(again, got):
                    used.update(group)
                    break
        return used

    def _others(self) -> list[list[Any]]:
        """The arguments with other data."""
        return _examples.other_leaves(self._leaves)

    def _tried(self, leaves: list[Any]) -> list[Any] | None:
        try:
            return self._call(leaves)
        except Exception:
            return None

    def _call(self, leaves: list[Any]) -> list[Any]:
        given = [one.detach().clone() if isinstance(one, torch.Tensor) else one for one in leaves]
        args, kwargs = _private.unflatten(given, self._tree)
        with repeatable(None), _private.in_use(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _private.flatten(self._model(*args, **kwargs))[0]
        results = [one for one in results if isinstance(one, torch.Tensor)]
        self._arguments = [
            isinstance(one, torch.Tensor)
            and not _are_same(one, before)
            and not any(one is result for result in results)
            for one, before in zip(given, leaves, strict=True)
        ]
        return [one.detach().clone() for one in results]


def _disturb(leaf: Leaf, amount: int) -> bool:
    """Makes something of the model another; False where it cannot be."""
    value = leaf.value
    if isinstance(value, torch.Tensor):
        if amount != 1 and (value.is_floating_point() or value.dtype == torch.bool):
            return False
        with torch.no_grad():
            if value.dtype == torch.bool:
                value.logical_not_()
            else:
                value.add_(amount)
        return True
    if not isinstance(value, (bool, int, float)) or not isinstance(leaf.holder, (dict, list)):
        return False
    leaf.holder[leaf.key] = not value if isinstance(value, bool) else value + amount
    return True


def _agree(ones: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return len(ones) == len(others) and all(map(_are_same, ones, others))


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return are_equal(one, other, rtol=1e-6, atol=1e-7)  # threads may add in another order


def _as_written(leaves: Mapping[str, Leaf], used: Iterable[str]) -> list[Written]:
    """Each attribute once, whatever of it is written."""
    found: dict[str, Written] = {}
    for path, leaf in leaves.items():
        known = found.get(leaf.name)
        is_used = path in used or (known is not None and known.is_used)
        line = known.line if known is not None else _line(leaf)
        found[leaf.name] = Written(leaf.kind, leaf.name, line, is_used)
    return list(found.values())


def _line(leaf: Leaf) -> Line:
    """Where the module's class writes it, as far as that can be read."""
    name = leaf.name.rpartition(".")[2]
    for owner in type(leaf.module).__mro__ if leaf.module is not None else ():
        if owner is torch.nn.Module:
            break
        try:
            lines, first = inspect.getsourcelines(owner)
            file = inspect.getsourcefile(owner) or ""
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
        for function in functions:
            if function.name != "__init__" and (number := _write_in(function, name)):
                number += max(first, 1) - 1
                return Line(file, number, linecache.getline(file, number).strip())
    return Line()


def _write_in(function: ast.FunctionDef, name: str) -> int:
    """The number of the first line that writes to `self.name`, or calls a method that does."""

    def has(node: ast.AST) -> bool:
        return any(isinstance(one, ast.Attribute) and one.attr == name for one in ast.walk(node))

    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if (method.endswith("_") and not method.endswith("__")) or method in _METHODS:
                targets = [node.func.value]
        if targets and any(map(has, targets)):
            return targets[0].lineno
    return 0


#: Of lists, dictionaries and sets, those that write.
_METHODS = frozenset("append extend insert pop update add setdefault appendleft clear".split())
