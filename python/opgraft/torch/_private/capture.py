"""The parts of torch.export that Opgraft uses: symbols of sizes, drafts, fake tensors."""

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
    """Returns torch.onnx.export's ways to capture a model, in the order in which it tries them."""
    return [
        exporter("_capture_strategies", "TorchExportNonStrictStrategy"),
        exporter("_capture_strategies", "TorchExportStrictStrategy"),
        exporter("_capture_strategies", "TorchExportDraftExportStrategy"),
    ]


def hint(size: torch.SymInt) -> int | None:
    """Returns the size that a symbol has in the example."""
    found = getattr(size.node, "hint", None)
    return None if found is None else int(found)


def expression(size: Any) -> Any:
    """Returns a size as an expression of symbols, or unchanged if it is a number."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def least(number: Any) -> float:
    """Returns the least value of a number or, as far as torch knows, of a symbol."""
    if isinstance(number, (int, float)):
        return number
    environment = number.node.shape_env
    try:
        return float(environment.bound_sympy(number.node.expr).lower)
    except (AttributeError, TypeError):
        return -math.inf


def integer(number: int) -> Any:
    """Converts a number for use in expressions of symbols."""
    return private("sympy", "Integer")(number)


def as_read(number: Any) -> Any:
    """Returns a number that depends on data in its first symbols, before torch fixed any."""
    return getattr(getattr(number, "node", None), "_expr", number)


def is_of_data(number: Any) -> bool:
    """Whether the number depends on data, so that torch knows it only when the model runs."""
    node = getattr(number, "node", None)
    return node is not None and getattr(node, "hint", None) is None


def nameless_dimensions(dynamic_shapes: Any) -> tuple[Any, bool]:
    """Returns the shapes without names of dimensions, which torch.export does not accept, and
    whether there were any names."""
    shapes, is_named = exporter("_dynamic_shapes", "convert_str_to_export_dim")(dynamic_shapes)
    return shapes, bool(is_named)


def is_open_hint(dim: Any) -> bool:
    """Whether the dimension is Dim.AUTO or Dim.DYNAMIC, with or without bounds."""
    hint = private("torch.export.dynamic_shapes", "_DimHint")
    return isinstance(dim, hint) and dim.type.name != "STATIC"


def _interned() -> dict[str, int]:
    """Returns the numbers that stand for names of files in torch's traces, by these names."""
    try:
        return dict(private("torch._logging.structured", "INTERN_TABLE"))
    except Moved:  # the report works without them
        return {}


@dataclass(frozen=True)
class Specialisation:
    """A place where a draft export followed the example."""

    #: For each call the file ("" if unknown), the line and its code, innermost last.
    stack: tuple[tuple[str, int, str], ...]
    #: The same, including the calls inside torch.
    full_stack: tuple[tuple[str, int, str], ...]
    kind: str  #: "data dependent error", "guard added", "missing fake kernel", ...
    expression: str
    result: str  #: the expression's value for the example; "" if unknown
    occurrences: int

    @property
    def is_on_data(self) -> bool:
        """Whether the data decided, rather than the sizes of the arguments."""
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
    """Whether torch.export refused because the example's sizes, or how the model uses them,
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
    """Makes torch use these functions for operators on fake tensors, if it has none itself, and
    these decompositions instead of its own. A correction takes torch's own function and returns the
    one to use instead."""
    composite = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    known = private("torch._subclasses.fake_impls", "op_implementations_dict")
    added = {one: function for one, function in functions.items() if one not in known}
    # Operators in this table are not decomposed to find the shapes of their results.
    whole = private("torch._decomp", "meta_table")
    kept = [one for one in added if one not in whole]
    corrected = {one: known[one] for one in corrections if one in known}
    targets = {**added, **decompositions}
    before = {one: dict(one.py_kernels) for one in targets}
    for target, function in targets.items():
        if target.has_kernel_for_dispatch_key(composite):
            target.py_kernels[composite] = function  # else torch would still decompose it
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
    """Clears the kernels that operators have cached, before and after the block.

    While torch captures or decomposes, it replaces kernels of its own (loops for GRU and LSTM), but
    an operator caches the kernel it last used. Neither the next step nor the user's own calls of
    torch.export may find these."""
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
    """Turns off the torch.func transforms (grad, vmap) that a capture leaves on if it fails inside
    them. They would break everything that follows."""
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
