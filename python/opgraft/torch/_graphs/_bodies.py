"""The bodies of control flow, such as the branches of torch.cond, and the inputs of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opgraft.torch._graphs._graph import operator_name


@dataclass
class Body:
    """A graph that a node calls, and the inputs of one call."""

    node: torch.fx.Node
    name: str  # of the module, as an attribute of the module that has the node
    module: torch.fx.GraphModule
    inputs: list[Any]
    #: Whether the node really calls it, given the values of its arguments.
    is_taken: bool


@dataclass
class Branch:
    """The result of comparing a body."""

    node: torch.fx.Node
    path: str
    is_taken: bool = False
    #: Why torch cannot run it with the inputs of the other bodies; empty if it can.
    error: str = ""

    def note(self) -> str:
        """Returns the note for the report; empty if the whole body was compared."""
        if self.is_taken:
            return ""
        start = (
            f"'{self.path}' of {operator_name(self.node.target)} (node '{self.node.name}') is not "
            "taken with the arguments that were compared"
        )
        if self.error:
            return f"{start}, and was not compared: torch cannot run it with them ({self.error})"
        return f"{start}; its operators were compared one by one, with the inputs that it would get"


def bodies(node: torch.fx.Node, args: Sequence[Any]) -> Iterator[Body]:
    """Yields the bodies that a node calls if its arguments have these values; the body of a loop
    once for each step."""
    names = {
        place: str(own.target)
        for place, own in enumerate(node.args)
        if isinstance(own, torch.fx.Node) and isinstance(args[place], torch.fx.GraphModule)
    }
    calls = _CALLS.get(operator_name(node.target))
    if not names or calls is None:
        return
    for place, inputs, is_taken in itertools.islice(calls(args), _MOST_CALLS):
        if place in names:
            yield Body(node, names[place], args[place], list(inputs), is_taken)


#: The number of the argument that is called, its inputs, and whether the node really calls it.
_Calls = Iterator[tuple[int, Sequence[Any], bool]]


def _cond(args: Sequence[Any]) -> _Calls:
    is_true = bool(args[0])
    yield 1, args[3], is_true
    yield 2, args[3], not is_true


def _while_loop(args: Sequence[Any]) -> _Calls:
    goes_on, step, carried = args[:3]
    others = list(args[3]) if len(args) > 3 else []
    while True:
        is_taken = bool(_listed(goes_on(*carried, *others))[0])
        yield 0, [*carried, *others], True
        yield 1, [*carried, *others], is_taken
        if not is_taken:
            return
        carried = _listed(step(*carried, *others))


def _scan(args: Sequence[Any]) -> _Calls:
    step, carried, lists = args[:3]
    others = list(args[3]) if len(args) > 3 else []
    for one in zip(*lists, strict=True):
        yield 0, [*carried, *one, *others], True
        carried = _listed(step(*carried, *one, *others))[: len(carried)]


def _map(args: Sequence[Any]) -> _Calls:
    for one in zip(*args[1], strict=True):
        yield 0, [*one, *args[2]], True


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


_CALLS: Mapping[str, Callable[[Sequence[Any]], _Calls]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
}
_MOST_CALLS = 200  # of a node; an error in a loop shows in its first steps as well
