"""Torch operators as functions of standard ONNX operators, which need nothing installed.

Each module of this package has one operator, or a few that are similar. A function takes a `Call`
and the arguments of the torch operator, in which values of the ONNX graph replace tensors. It adds
nodes to the graph and returns the value of the result, or a list of values:

    @function("aten::hypot")
    def hypot(call: Call, x: Value, y: Value) -> Value:
        return call.op.Sqrt(call.op.Add(call.op.Mul(x, x), call.op.Mul(y, y)))
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

import torch

from opgraft._base._errors import UnavailableError
from opgraft.torch import _private
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs._functions._call import Call, Value
from opgraft.torch._rungs._ladder import Graft

__all__ = ["Call", "Refusal", "Value", "function", "graft", "kept", "replaces_torchs", "takes"]

_Function = Callable[..., Any]
_functions: dict[str, tuple[_Function, Callable[[Call], bool]]] = {}
#: None means always.
_kept: dict[str, Callable[[Call], bool] | None] = {}
_better: dict[str, Callable[[Call, int], bool]] = {}
_of_complex: set[str] = set()


class Refusal(UnavailableError):
    """Raised by a function for a call that the other rungs get wrong too, so that they are not
    tried: without verification nobody would notice the wrong result."""


def function(
    *names: str,
    when: Callable[[Call], bool] = lambda call: True,
    replaces_torchs: bool | Callable[[Call, int], bool] = False,
    is_kept: bool | Callable[[Call], bool] = False,
    takes_complex: bool = False,
) -> Callable[[_Function], _Function]:
    """Declares a function for the torch operators of these names, such as "aten::median.dim" for an
    overload, or "_operator::mod" for an operator of Python.

    `when` decides whether the function takes a call. A call with complex tensors is taken only with
    `takes_complex`; such a tensor has a last axis of 2, for the two parts.

    `replaces_torchs`: the function is used even if torch has a translation, because that is wrong
    for some arguments, which the example may not have. It may be a function of the call and the
    opset of the export. `is_kept`: torch's decomposition of the operator does not always work, so
    the operator is not decomposed. It may be a function of the call."""
    is_better = replaces_torchs if callable(replaces_torchs) else lambda call, opset: True
    is_kept_in = is_kept if callable(is_kept) else None

    def declare(one: _Function) -> _Function:
        for name in names:
            assert name not in _functions, f"two functions for {name}"
            _functions[name] = one, when
        _kept.update(dict.fromkeys(names, is_kept_in) if is_kept else {})
        _better.update(dict.fromkeys(names, is_better) if replaces_torchs else {})
        _of_complex.update(names if takes_complex else ())
        return one

    return declare


def takes(target: Any) -> bool:
    return _name(target) in _known()


def _name(target: Any) -> str:
    """Returns the name of an operator; "_operator::floordiv" for an operator of Python."""
    is_pythons = getattr(target, "__module__", "") == "_operator"
    return f"_operator::{target.__name__}" if is_pythons else operator_name(target)


def kept(nodes: Iterable[torch.fx.Node] = ()) -> dict[str, Any]:
    """Returns the operators that must not be decomposed, by name, without those that no function
    takes as these nodes call them."""
    _known()
    calls: dict[str, list[Call]] = {}
    for node in nodes:
        if operator_name(node.target) in _kept:
            calls.setdefault(operator_name(node.target), []).append(Call(node))
    names = [
        name
        for name, is_kept_in in _kept.items()
        if not any(call.has_complex for call in calls.get(name, ()))
        and (is_kept_in is None or any(map(is_kept_in, calls.get(name, ()))))
    ]
    parts = {name: name.partition(".") for name in names}
    found = {name: _private.find_operator(one, other) for name, (one, _, other) in parts.items()}
    return {name: target for name, target in found.items() if target is not None}


def replaces_torchs(node: torch.fx.Node, opset: int) -> bool:
    if not takes(node.target):
        return False
    is_better = _better.get(_name(node.target))
    return is_better is not None and is_better(Call(node), opset)


def graft(node: torch.fx.Node) -> Graft | None:
    name = _name(node.target)
    build, when = _known()[name]
    call = Call(node)
    if (call.has_complex and name not in _of_complex) or not when(call):
        return None
    return Graft("function", functools.partial(build, call), build.__name__)


@functools.cache
def _known() -> dict[str, tuple[_Function, Callable[[Call], bool]]]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _functions
