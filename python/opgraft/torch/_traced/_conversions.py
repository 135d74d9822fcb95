"""Watches a model while torch traces it: each tensor that becomes a Python value is a guard.

A trace has the value as a constant. The graph that has been traced so far shows what the value
depends on: the data of the arguments, only their sizes, or neither.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opgraft.torch import _private
from opgraft.torch._capture import _guards, _lines
from opgraft.torch._capture._contents import are_equal
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line, line_at
from opgraft.torch._capture._printed import is_shown
from opgraft.torch._capture._touched import writes_to
from opgraft.torch._traced._sources import Source, Sources

#: Functions that return Python values without a warning from torch.
_SILENT = frozenset({"equal", "allclose", "is_nonzero", "__dlpack__"})
#: Functions that make a tensor from a tensor or from numbers, and functions that call these.
_COPIES = frozenset({"tensor", "as_tensor", "asarray", "interpolate"})
_COPIED = "torch.tensor results are registered as constants"
#: Methods of tensors that return Python values.
_METHODS = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__array__"),
    *("__contains__", "__dlpack__", "item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
    "__hash__",
)
#: Methods of tensors that expose their memory, or let Python write to it. A trace does not show
#: what happens to that memory.
_MEMORY = (
    *("storage", "untyped_storage", "_typed_storage", "data_ptr", "__dlpack__"),
    *("apply_", "map_", "map2_"),
)
#: Methods that depend on sizes, not on data.
_OF_SIZES = frozenset({"__len__", "__iter__", "__reversed__"})

#: The getter of `tensor.data`, whose result is a constant in a trace.
_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]

#: Functions whose conditions on data choose between ways to compute the same result, by review of
#: torchvision 0.28. Only conditions in the function itself are accepted, not those in its callees:
#: - batched_nms handles more than 1000 boxes one class at a time. For fewer boxes, and always in a
#:   trace, it moves the boxes of each class apart and handles all classes at once. Both ways keep
#:   the same boxes for any number of them, given the contract of batched_nms that no coordinate is
#:   negative; detectors ensure that by clipping to the image. Moving rounds coordinates: with 90
#:   classes and 1000 pixels, to 1/128 of a pixel. Boxes whose overlap is within rounding of the
#:   threshold may therefore be decided differently, as in torchvision itself below 1000 boxes. The
#:   check for no boxes at all is in TorchScript, so it stays in the graph.
#: - _multiscale_roi_align counts the regions to make a tensor of zeros that it fills in eager mode.
#:   A trace does not use that tensor, and the graph knows the size of the merged result. Levels
#:   without a region are fine. Its scales come from sizes, in another function, and are watched.
_AGREEING = frozenset(
    {"torchvision.ops.boxes.batched_nms", "torchvision.ops.poolers._multiscale_roi_align"}
)


#: Functions that turn a tensor into text.
_PRINTING = frozenset({"torch._tensor.__repr__", "torch._tensor.__format__"})


@dataclass(frozen=True)
class Conversion:
    """A tensor that became a Python value while a model was traced."""

    guard: Guard
    source: Source


class Watch(TorchFunctionMode):
    """Records conversions while it is active.

    `begin` says which tensors are the arguments of the model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conversions: list[Conversion] = []
        self._sources = Sources(())
        self._kept: list[tuple[torch.Tensor, int, torch.Tensor]] = []
        #: Guards on tensors that the model keeps, not on its arguments.
        self._by_kept: list[Guard] = []
        self._warned: list[warnings.WarningMessage] = []
        self._contexts = contextlib.ExitStack()

    def __enter__(self) -> Watch:
        warned = self._contexts.enter_context(warnings.catch_warnings(record=True))
        assert warned is not None
        self._warned = warned
        warnings.simplefilter("always")
        names = tuple(dict.fromkeys((*_METHODS, *_MEMORY)))
        self._contexts.enter_context(_private.patched_methods(names, self._patched))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._contexts.close()
        # These are warnings that torch gave when it examined its own trace, and conversions in
        # places that no mode sees.
        for one in self._warned:
            if not issubclass(one.category, _private.TracerWarning):
                is_ours = one.filename == __file__  # caused by the tracer, not by the user
                if not is_ours and not issubclass(one.category, DeprecationWarning):
                    warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            elif one.filename not in (__file__, ""):
                line = line_at(one.filename, one.lineno)
                self._note(Conversion(_guards.at(line), "data"))

    def begin(self, tensors: Collection[torch.Tensor], kept: Collection[torch.Tensor]) -> None:
        """Call when the model starts, with its arguments and the tensors that it keeps."""
        self._sources = Sources({_private.traced_value(one).unique() for one in tensors})
        with _private.pausing_trace():
            self._kept = [(one, writes_to(one), one.detach().clone()) for one in kept]

    def end(self) -> None:
        """Call when the model is done. If it wrote to a tensor that it keeps, every guard on kept
        tensors counts: the next call may decide differently, and tensors may share memory."""
        with _private.pausing_trace():
            is_written = any(
                writes_to(one) != count or not are_equal(one.detach(), before)
                for one, count, before in self._kept
            )
        self._kept = []
        for guard in self._sources.raising():
            self._note(Conversion(guard, "data"))
        for guard in self._by_kept if is_written else ():
            self._note(Conversion(guard, "data"))

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func == _DATA and _private.is_tracing():
            return args[0].detach()  # the same memory, but the trace knows its source
        if func == _SET_DATA and _private.is_tracing():
            self._sources.taint(_private.traced_value(args[0]))
        count = len(self._warned)
        if name == "unbind" and count and _is_of_iteration(self._warned[-1]):
            name, count = "__iter__", count - 1  # torch warns about it before this call
        return self._watched(name, count, func, args, kwargs or {})

    def _patched(self, name: str, method: Any) -> Any:
        """Returns a replacement for a tensor method. Torch's own Python functions call methods
        without asking a mode."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._watched(name, len(self._warned), method, args, kwargs)

        def hashed(tensor: torch.Tensor) -> Any:
            if not tensor.dim() and not tensor.is_floating_point():
                self._looked_up(tensor)
            return method(tensor)

        return hashed if name == "__hash__" else call

    def _looked_up(self, tensor: torch.Tensor) -> None:
        """Records a size that is looked up in a dictionary or a set. In a trace it is a tensor,
        which is never found there."""
        caller: Any = sys._getframe(1)
        while caller is not None and caller.f_code.co_filename.startswith(_private.OURS):
            caller = caller.f_back
        if caller is None or caller.f_code.co_filename.startswith(_private.OF_TORCH):
            return
        value = _private.traced_value(tensor)
        source = self._sources.of(value)
        if source == "sizes" or str(value.node().kind()) == "prim::NumToTensor":
            stack = _stack()
            self._note(Conversion(_guards.at(stack.line, callers=stack.callers), source or "sizes"))

    def _watched(self, name: str, count: int, function: Any, args: Any, kwargs: Any) -> Any:
        """Calls a function and records what torch warns about, beyond the first `count` warnings
        recorded so far."""
        if name in _MEMORY and _private.is_tracing():
            self._given_away(name, args)
        result = function(*args, **kwargs)
        if isinstance(kwargs.get("out"), (torch.Tensor, tuple, list)) and _private.is_tracing():
            self._written(kwargs["out"])
        if name == "_pack_padded_sequence" and _private.is_tracing():
            self._packed(args[1])
        told = [
            str(one.message)
            for one in self._warned[count:]
            if issubclass(one.category, _private.TracerWarning)
        ]
        if (told or name in _SILENT) and _private.is_tracing():
            is_copied = all(one.startswith(_COPIED) for one in told)
            self._converted(name, (args, kwargs), result, is_copied=is_copied)
            # The tracer's warnings are handled here; all others are for the user.
            self._warned[count:] = [
                one
                for one in self._warned[count:]
                if not issubclass(one.category, _private.TracerWarning)
            ]
        return result

    def _given_away(self, name: str, args: Any) -> None:
        tensors = [one for one in _private.tree_leaves(args) if isinstance(one, torch.Tensor)]
        values = [_private.traced_value(one) for one in tensors]
        if any(self._sources.of(one) == "data" for one in values):
            stack = _stack()
            if not stack.innermost.file.startswith(
                _private.OF_TORCH
            ):  # torch itself compares addresses
                self._note(Conversion(_guards.at(stack.line, callers=stack.callers), "data"))
        if name != "data_ptr":
            for one in values:
                self._sources.taint(one)

    def _written(self, tensors: Any) -> None:
        """Records a write to `out=`, which the graph does not always tell from other arguments."""
        values = [_private.traced_value(one) for one in _private.tree_leaves(tensors)]
        if any(self._sources.of(one) == "data" for one in values):
            self._sources.is_written = True

    def _packed(self, lengths: Any) -> None:
        """Adds a guard on the order of the lengths. `pack_padded_sequence` raises unless the
        longest comes first; its translation to ONNX takes them in any order."""
        value = _private.traced_value(lengths)
        if self._sources.of(value) == "data" and not _is_sorted(value):
            stack = _stack()
            condition = "the lengths are sorted, the longest first"
            guard = Guard(stack.line, condition, is_asserted=True)
            self._note(Conversion(_guards.unless_caught(guard, stack.callers), "data"))

    def _converted(self, name: str, given: Any, result: Any, *, is_copied: bool) -> None:
        tensors = [one for one in _private.tree_leaves(given) if isinstance(one, torch.Tensor)]
        sources, is_of_kept = set(), False
        for value in map(_private.traced_value, tensors):
            is_size = name in _OF_SIZES
            sources.add(self._sources.of_size(value) if is_size else self._sources.of(value))
            is_of_kept |= not is_size and self._sources.is_of_kept
        source: Source = "data" if "data" in sources else "sizes" if "sizes" in sources else ""
        if not source and not is_of_kept:
            return
        # The result of torch.tensor(tensor) is still in the graph, although torch warns about it.
        if is_copied and name in _COPIES and self._sources.of(_private.traced_value(result)):
            return
        stack = _stack()
        if _AGREEING.intersection(stack.functions):
            return
        if _PRINTING.intersection(stack.functions) and stack.frame and is_shown(stack.frame):
            return  # no result depends on it
        taken = result if isinstance(result, bool) else None
        guard = _guards.at(stack.line, taken, callers=stack.callers)
        if stack.innermost != stack.line and _lines.is_assertion(stack.innermost):
            if _lines.asks_sizes(stack.innermost):
                return  # the operators check sizes as well
            # A layer of torch checks its arguments.
            inner = replace(_guards.at(stack.innermost), line=stack.line)
            guard = _guards.unless_caught(inner, stack.callers)
        if is_of_kept and source != "data":
            self._by_kept.append(guard)
        if source:
            self._note(Conversion(guard, source))

    def _note(self, conversion: Conversion) -> None:
        if conversion not in self.conversions:
            self.conversions.append(conversion)


def _is_of_iteration(warning: warnings.WarningMessage) -> bool:
    is_tracers = issubclass(warning.category, _private.TracerWarning)
    return is_tracers and str(warning.message).startswith("Iterating over a tensor")


def _is_sorted(value: Any) -> bool:
    """Whether the model itself sorted the value, as `enforce_sorted=False` does."""
    node = value.node()
    while str(node.kind()) in ("aten::to", "aten::cpu", "aten::detach"):
        node = next(node.inputs()).node()
    return str(node.kind()) == "aten::sort"


@dataclass(frozen=True)
class _Stack:
    """The place in the model that runs now."""

    line: Line = field(default_factory=Line)  #: the innermost line of neither torch nor Opgraft
    innermost: Line = field(default_factory=Line)  #: the innermost line outside Opgraft
    callers: tuple[Line, ...] = ()  #: the lines of the model that lead to `line`
    #: "module.function", from the innermost line to the line of the model.
    functions: tuple[str, ...] = ()
    frame: FrameType | None = None  #: the frame of `line`


def _stack() -> _Stack:
    found: list[Line] = []
    innermost, frame, functions = None, None, []
    at: Any = sys._getframe(1)
    while at is not None:
        file = at.f_code.co_filename
        if not file.startswith(_private.OURS):
            line = line_at(file, at.f_lineno)
            innermost = innermost or line
            if not found:
                functions.append(f"{at.f_globals.get('__name__', '')}.{at.f_code.co_name}")
            if not file.startswith(_private.OF_TORCH):
                frame = frame or at
                found.append(line)
        elif found:
            break  # the caller that traces the model
        at = at.f_back
    line = found[0] if found else innermost or Line()
    return _Stack(line, innermost or line, tuple(found[1:]), tuple(functions), frame)
