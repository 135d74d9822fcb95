"""What torch.export is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from opgraft.torch._private.exporter import exporter
from opgraft.torch._private.lookup import Moved, moved, private


def capture_strategies() -> list[type[Any]]:
    """How torch.onnx.export captures a model, in the order in which it tries."""
    return [
        exporter("_capture_strategies", "TorchExportNonStrictStrategy"),
        exporter("_capture_strategies", "TorchExportStrictStrategy"),
        exporter("_capture_strategies", "TorchExportDraftExportStrategy"),
    ]


def hint(size: torch.SymInt) -> int | None:
    """The size that a symbol has in the example it was traced with."""
    found = getattr(size.node, "hint", None)
    return None if found is None else int(found)


def expression(size: Any) -> Any:
    """A size as an expression of symbols; a number where it is one."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def least(number: Any) -> float:
    """The least that a number can be, or a symbol as far as torch knows."""
    if isinstance(number, (int, float)):
        return number
    environment = number.node.shape_env
    try:
        return float(environment.bound_sympy(number.node.expr).lower)
    except (AttributeError, TypeError):
        return -math.inf


def integer(number: int) -> Any:
    """A number as expressions of symbols take it."""
    return private("sympy", "Integer")(number)


def as_read(number: Any) -> Any:
    """A number that depends on data, in the symbols that it was read as, before torch fixed any."""
    return getattr(getattr(number, "node", None), "_expr", number)


def is_of_data(number: Any) -> bool:
    """Whether it is a number that torch does not know before the model runs."""
    node = getattr(number, "node", None)
    return node is not None and getattr(node, "hint", None) is None


def nameless_dimensions(dynamic_shapes: Any) -> tuple[Any, bool]:
    """The shapes for torch.export, which takes no names of dimensions; whether there were any."""
    shapes, is_named = exporter("_dynamic_shapes", "convert_str_to_export_dim")(dynamic_shapes)
    return shapes, bool(is_named)


def is_open_hint(dim: Any) -> bool:
    """Whether it is Dim.AUTO or Dim.DYNAMIC, with bounds or without."""
    hint = private("torch.export.dynamic_shapes", "_DimHint")
    return isinstance(dim, hint) and dim.type.name != "STATIC"


def _interned() -> dict[str, int]:
    """The names of files that torch's traces have as numbers; where it keeps them."""
    try:
        return dict(private("torch._logging.structured", "INTERN_TABLE"))
    except Moved:  # the report does without
        return {}


@dataclass(frozen=True)
class Specialisation:
    """Where a draft of an export took the example's way."""

    #: The file ("" where it is not known), the line and its code of each call, the last innermost.
    stack: tuple[tuple[str, int, str], ...]
    #: The same with the calls inside torch.
    full_stack: tuple[tuple[str, int, str], ...]
    kind: str  #: "data dependent error", "guard added", "missing fake kernel", ...
    expression: str
    result: str  #: what the expression was for the example; "" where nobody says
    occurrences: int

    @property
    def is_on_data(self) -> bool:
        """Whether it is the data that decided, rather than sizes of the arguments."""
        return self.kind == "data dependent error"


def specialisations(program: Any) -> list[Specialisation]:
    report: Any = getattr(program, "_report", None)
    files = {number: name for name, number in _interned().items()}
    found = []
    for failure in getattr(report, "failures", ()):
        data = failure.data
        stack, full_stack = (
            tuple(
                (files.get(one.get("filename"), ""), int(one["line"]), str(one.get("loc") or ""))
                for one in data.get(name) or ()
                if "line" in one
            )
            for name in ("user_stack", "stack")
        )
        kind = str(getattr(failure.failure_type, "name", failure.failure_type))
        found.append(
            Specialisation(
                stack,
                full_stack,
                kind.lower().replace("_", " "),
                str(data.get("expr") or data.get("op") or data.get("reason") or ""),
                str(data.get("result", "")),
                int(data.get("occurrences", 1)),
            )
        )
    return found


def is_refused_size(error: BaseException | None) -> bool:
    """Whether torch.export says that the sizes of the example, or what the model does with them,
    contradict `dynamic_shapes`."""
    if isinstance(
        error, private("torch.fx.experimental.symbolic_shapes", "ConstraintViolationError")
    ):
        return True
    kind = getattr(getattr(error, "error_type", None), "name", "")
    is_about = kind == "INVALID_INPUT" and "dynamic_shapes" in str(error)
    return kind == "CONSTRAINT_VIOLATION" or is_about


@contextmanager
def fake_functions(
    functions: Mapping[Any, Callable[..., Any]],
    decompositions: Mapping[Any, Callable[..., Any]],
    corrections: Mapping[Any, Callable[[Callable[..., Any]], Callable[..., Any]]],
) -> Iterator[None]:
    """Makes torch use these functions for operators on fake tensors, where it has none itself, and
    these decompositions in the place of its own. Corrections are of functions that it has: each
    makes one of torch's own."""
    composite = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    known = private("torch._subclasses.fake_impls", "op_implementations_dict")
    added = {one: function for one, function in functions.items() if one not in known}
    # Operators in this table are not taken apart to learn the shapes of what they give.
    whole = private("torch._decomp", "meta_table")
    kept = [one for one in added if one not in whole]
    corrected = {one: known[one] for one in corrections if one in known}
    targets = {**added, **decompositions}
    before = {one: dict(one.py_kernels) for one in targets}
    for target, function in targets.items():
        if target.has_kernel_for_dispatch_key(composite):
            target.py_kernels[composite] = function  # else it would be taken apart as ever
        if target in added:
            known[target] = _as_fake(function)
        target._dispatch_cache.clear()
    whole.update({one: added[one] for one in kept})
    known.update({one: corrections[one](own) for one, own in corrected.items()})
    try:
        yield
    finally:
        known.update(corrected)
        for target in kept:
            whole.pop(target, None)
        for target in targets:
            if target in added:
                known.pop(target, None)
            target.py_kernels.clear()
            target.py_kernels.update(before[target])
            target._dispatch_cache.clear()


def _as_fake(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(mode: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run


@contextmanager
def fresh_dispatch() -> Iterator[None]:
    """torch puts other kernels in the place of its own while it captures (loops for GRU and LSTM)
    and while it decomposes, but an operator remembers what it was dispatched to last. What one step
    leaves behind the next must not find, nor the user's own calls of torch.export."""
    _forget_dispatch()
    try:
        yield
    finally:
        _forget_dispatch()


def _forget_dispatch() -> None:
    namespaces = [one for one in vars(torch.ops).values() if isinstance(one, ModuleType)]
    packet_type = private("torch._ops", "OpOverloadPacket")
    try:
        for packet in [one for namespace in namespaces for one in vars(namespace).values()]:
            for name in packet._dir if isinstance(packet, packet_type) else ():
                getattr(packet, name)._dispatch_cache.clear()
    except AttributeError as error:
        raise moved("torch._ops.OpOverload._dispatch_cache") from error


@contextmanager
def undoing_transforms() -> Iterator[None]:
    """Takes back the torch.func transforms (grad, vmap) that a capture which fails in the midst of
    them leaves on, and that would spoil whatever comes after."""
    functorch, hooks = private("torch._C", "_functorch"), private("torch._C", "_autograd")
    try:
        depth = functorch.get_dynamic_layer_stack_depth()
        undo = functorch.pop_dynamic_layer_stack_and_undo_to_depth
        hooked = hooks._saved_tensors_hooks_get_disabled_error_message()
        enable, disable = hooks._saved_tensors_hooks_enable, hooks._saved_tensors_hooks_disable
    except AttributeError as error:
        raise moved("torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth") from error
    try:
        yield
    finally:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            undo(depth)
        if hooked != hooks._saved_tensors_hooks_get_disabled_error_message():
            enable() if hooked is None else disable(hooked)
