"""Watches a model while torch traces it: each tensor that becomes a value of Python's is a guard.

The trace holds the value, not how it came about. What it came from, the graph that is traced so far
tells: the data of the arguments, their sizes alone, or neither.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode

from opgraft.torch import _guards, _private
from opgraft.torch._guards import Guard, Line

Source = Literal["data", "sizes", ""]

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OF_TORCH = os.path.dirname(torch.__file__) + os.sep
#: Those that give values of Python's, and torch does not warn of.
_SILENT = frozenset({"equal", "allclose", "is_nonzero"})
#: Those that make a tensor of one, or of numbers, and what calls them.
_COPIES = frozenset({"tensor", "as_tensor", "asarray", "interpolate"})
_COPIED = "torch.tensor results are registered as constants"
#: Methods of tensors that give values of Python's.
_METHODS = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__array__"),
    *("__contains__", "item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
)
#: Those that tell sizes, whatever the data.
_OF_SIZES = frozenset({"__len__", "__iter__", "__reversed__"})

#: Functions that decide by data between ways to compute the same, by review of torchvision 0.28;
#: what is asked in the function itself counts, not what it calls:
#: - batched_nms does beyond 1000 boxes one class after the other, and else moves the boxes of
#:   each class apart and does all at once; while it is traced always the latter. Both keep the
#:   same boxes for any number of them, under the contract of batched_nms that no coordinate is
#:   negative, which detectors see to by clipping to the image. Moving rounds coordinates: with 90
#:   classes and 1000 pixels to 1/128 of one, so that boxes that overlap by the threshold but for
#:   rounding may fare otherwise, as they do in torchvision itself below 1000 boxes. That there may
#:   be no box at all is asked in TorchScript, which stays in the graph.
#: - _multiscale_roi_align counts the regions for a tensor of zeros that it fills in eager mode; in
#:   a trace that tensor goes unused, and what is merged has a size that the graph knows. Levels
#:   without a region are fine. Its scales come from sizes, in another function, and are watched.
_AGREEING = frozenset(
    {"torchvision.ops.boxes.batched_nms", "torchvision.ops.poolers._multiscale_roi_align"}
)


@dataclass(frozen=True)
class Conversion:
    """A tensor that became a value of Python's while a model was traced."""

    guard: Guard
    source: Source


class Watch(TorchFunctionMode):
    """Notes the conversions while it is active.

    `begin` says which tensors are the arguments of the model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conversions: list[Conversion] = []
        self._arguments: set[str] = set()
        self._warned: list[warnings.WarningMessage] = []
        self._contexts = contextlib.ExitStack()

    def __enter__(self) -> Watch:
        warned = self._contexts.enter_context(warnings.catch_warnings(record=True))
        assert warned is not None
        self._warned = warned
        warnings.simplefilter("always")
        self._contexts.enter_context(_private.patched_methods(_METHODS, self._patched))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._contexts.close()
        # What torch says as it looks at its own trace, and what came from where no mode looks.
        for one in self._warned:
            if not issubclass(one.category, _private.TracerWarning):
                is_ours = one.filename == __file__  # not the user's call, then, but the tracer's
                if not is_ours and not issubclass(one.category, DeprecationWarning):
                    warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            elif one.filename not in (__file__, ""):
                line = Line(one.filename, one.lineno, _code(one.filename, one.lineno))
                self._note(Conversion(_guards.at(line), "data"))

    def begin(self, tensors: Collection[torch.Tensor]) -> None:
        """Called as the model is, with what it is called with."""
        self._arguments = {str(_private.traced_value(one).debugName()) for one in tensors}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        count = len(self._warned)
        if name == "unbind" and count and _is_of_iteration(self._warned[-1]):
            name, count = "__iter__", count - 1  # which torch warns of before it comes here
        return self._watched(name, count, func, args, kwargs or {})

    def _patched(self, name: str, method: Any) -> Any:
        """What stands for a method of tensors. Inside functions of torch's that are written in
        Python no mode is asked."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._watched(name, len(self._warned), method, args, kwargs)

        return call

    def _watched(self, name: str, count: int, function: Any, args: Any, kwargs: Any) -> Any:
        """Calls a function, and notes what torch warns of from the first `count` warnings on."""
        result = function(*args, **kwargs)
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
            # They are dealt with; those of others are for the user.
            self._warned[count:] = [
                one
                for one in self._warned[count:]
                if not issubclass(one.category, _private.TracerWarning)
            ]
        return result

    def _packed(self, lengths: Any) -> None:
        """`pack_padded_sequence` raises where lengths are not sorted, the longest first; what it
        becomes in ONNX takes them in any order."""
        value = _private.traced_value(lengths)
        graph = _Graph(self._arguments)
        if graph.source(value) == "data" and not _is_sorted(value):
            line, *_ = _lines()
            condition = "the lengths are sorted, the longest first"
            self._note(Conversion(Guard(line, condition, is_asserted=True), "data"))

    def _converted(self, name: str, given: Any, result: Any, *, is_copied: bool) -> None:
        tensors = [one for one in _private.tree_leaves(given) if isinstance(one, torch.Tensor)]
        graph = _Graph(self._arguments)
        sources = {
            graph.source_of_size(value) if name in _OF_SIZES else graph.source(value)
            for value in map(_private.traced_value, tensors)
        }
        source: Source = "data" if "data" in sources else "sizes" if "sizes" in sources else ""
        if not source:
            return
        # What torch.tensor makes of a tensor is still in the graph, though torch warns of it.
        if is_copied and name in _COPIES and graph.source(_private.traced_value(result)):
            return
        where, innermost, functions = _lines()
        if _AGREEING.intersection(functions):
            return
        taken = result if isinstance(result, bool) else None
        guard = _guards.at(where, taken)
        if _guards.raises_otherwise(innermost):
            if innermost.file.startswith(_OF_TORCH):
                return  # torch's layers look at what they are given
            guard = replace(guard, is_asserted=True)
        self._note(Conversion(guard, source))

    def _note(self, conversion: Conversion) -> None:
        if conversion not in self.conversions:
            self.conversions.append(conversion)


def _is_of_iteration(warning: warnings.WarningMessage) -> bool:
    is_tracers = issubclass(warning.category, _private.TracerWarning)
    return is_tracers and str(warning.message).startswith("Iterating over a tensor")


#: Operators whose results have sizes that depend on data.
_OF_DATA_SIZE = frozenset(
    """aten::nonzero aten::nonzero_numpy aten::masked_select aten::unique aten::_unique
    aten::_unique2 aten::unique_dim aten::unique_consecutive aten::argwhere aten::bincount
    aten::combinations aten::one_hot aten::repeat_interleave torchvision::nms
    prim::CallFunction prim::CallMethod prim::If prim::Loop prim::PythonOp""".split()
)
#: Operators that make a tensor of sizes that they are given as numbers.
_OF_GIVEN_SIZE = frozenset(
    """aten::arange aten::empty aten::expand aten::eye aten::full aten::linspace aten::new_full
    aten::new_ones aten::new_zeros aten::ones aten::rand aten::randn aten::range aten::repeat
    aten::reshape aten::view aten::zeros aten::slice aten::narrow""".split()
)
#: Operators whose results may have the memory of their first argument.
_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "alias as_strided chunk detach diagonal expand expand_as flatten movedim narrow permute "
        "reshape select slice split squeeze swapaxes t transpose unbind unfold unsqueeze view "
        "view_as"
    ).split()
)
_SIZES = frozenset(
    """aten::_shape_as_tensor aten::len aten::numel aten::size aten::sym_size
    prim::shape""".split()
)
_RANDOM = frozenset(
    """aten::rand aten::randn aten::randint aten::randperm aten::bernoulli aten::multinomial
    aten::normal aten::rand_like aten::randn_like aten::randint_like aten::dropout""".split()
)


class _Graph:
    """What values of a graph that is traced so far come from."""

    def __init__(self, arguments: Collection[str]) -> None:
        self._arguments = arguments
        self._known: dict[tuple[str, bool], Source] = {}

    def source(self, value: Any) -> Source:
        return self._find(value, of_size=False)

    def source_of_size(self, value: Any) -> Source:
        """Of the sizes of a tensor, not of its elements."""
        return self._find(value, of_size=True)

    def _find(self, value: Any, *, of_size: bool) -> Source:
        """Goes back through the graph, without recursion: models are deep."""
        waiting = [(value, of_size)]
        found: Source = ""
        seen = set()
        while waiting:
            one, of_size = waiting.pop()
            key = str(one.debugName()), of_size
            if key in seen:
                continue
            seen.add(key)
            own, others = self._step(one, of_size=of_size)
            if own == "data":
                return "data"
            found = own or found
            waiting += others
        return found

    def _step(self, value: Any, *, of_size: bool) -> tuple[Source, list[tuple[Any, bool]]]:
        """What a value itself says of the source, and the values to look at next."""
        if str(value.debugName()) in self._arguments:
            return ("sizes" if of_size else "data"), []
        node = value.node()
        kind = str(node.kind()).removesuffix("_")
        inputs = list(node.inputs())
        if kind in ("prim::Param", "prim::Constant", "prim::GetAttr"):
            return "", [] if of_size else [(one, False) for one in _written_to(value)]
        if of_size:
            is_data = kind in _OF_DATA_SIZE or (kind == "aten::index" and _has_mask(inputs))
            if is_data:
                return "data", []
            if kind.startswith("prim::"):  # lists, and what takes them apart
                return "", [(one, True) for one in inputs]
            # Numbers that a shape is made of count themselves, of tensors the sizes alone.
            return "", [(one, not _is_number(one, kind, inputs)) for one in inputs]
        if kind in _RANDOM:
            return "data", []
        if kind in _SIZES:
            return "", [(inputs[0], True)]
        if kind == "aten::select" and _is_count_of_sequences(inputs):
            return "", [(next(inputs[0].node().inputs()), True)]
        return "", [(one, False) for one in (*inputs, *_written_to(value))]


def _written_to(value: Any) -> list[Any]:
    """What operators write into the memory of a value, and the views of it that they may write to
    as well."""
    found = []
    for use in value.uses():
        kind = str(use.user.kind())
        if kind.endswith("_") and not kind.endswith("__") and use.offset == 0:
            found += list(use.user.inputs())[1:]
        elif kind in _VIEWS and use.offset == 0:
            found += list(use.user.outputs())
    return found


def _has_mask(inputs: list[Any]) -> bool:
    masks = [one for given in inputs[1:] for one in given.node().inputs()]
    dtypes = [_private.dtype_of_value(one) for one in masks]
    return any(one in (torch.bool, torch.uint8) for one in dtypes)


def _is_number(value: Any, kind: str, inputs: list[Any]) -> bool:
    """Whether it is a number, or a list of them, in an operator's arguments."""
    type_ = value.type()
    if str(type_.kind()) == "ListType":
        return str(type_.getElementType().kind()) not in ("TensorType", "OptionalType")
    if str(type_.kind()) != "TensorType":
        return True
    return kind in _OF_GIVEN_SIZE and value is not inputs[0]


def _is_count_of_sequences(inputs: list[Any]) -> bool:
    """Whether it is the first of the batch sizes of a packed sequence: how many sequences there
    are, since torch packs none that is empty."""
    node = inputs[0].node()
    if str(node.kind()) != "aten::_pack_padded_sequence":
        return False
    is_sizes = list(node.outputs())[1].debugName() == inputs[0].debugName()
    return is_sizes and all(one.toIValue() == 0 for one in inputs[1:])


def _is_sorted(value: Any) -> bool:
    """Whether the model has sorted it, as `enforce_sorted=False` does."""
    node = value.node()
    while str(node.kind()) in ("aten::to", "aten::cpu", "aten::detach"):
        node = next(node.inputs()).node()
    return str(node.kind()) == "aten::sort"


def _lines() -> tuple[Line, Line, list[str]]:
    """The innermost line that is neither torch's nor ours, the innermost that is not ours, and the
    functions from there to the former, "module.function"."""
    innermost, functions = None, []
    at: Any = sys._getframe(1)
    while at is not None:
        file = at.f_code.co_filename
        if not file.startswith(_HERE):
            line = Line(file, at.f_lineno, _code(file, at.f_lineno))
            innermost = innermost or line
            functions.append(f"{at.f_globals.get('__name__', '')}.{at.f_code.co_name}")
            if not file.startswith(_OF_TORCH):
                return line, innermost, functions
        at = at.f_back
    return innermost or Line(), innermost or Line(), functions


def _code(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()
