"""Finds what the values of a graph that is being traced depend on: the data of the arguments, only
their sizes, or neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _raising
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line, line_at

Source = Literal["data", "sizes", ""]

#: Operators whose results have sizes that depend on data.
_OF_DATA_SIZE = frozenset(
    """aten::nonzero aten::nonzero_numpy aten::masked_select aten::unique aten::_unique
    aten::_unique2 aten::unique_dim aten::unique_consecutive aten::argwhere aten::bincount
    aten::combinations aten::one_hot aten::repeat_interleave aten::_pack_padded_sequence
    aten::_pad_packed_sequence torchvision::nms
    prim::CallFunction prim::CallMethod prim::If prim::Loop prim::PythonOp""".split()
)
#: Operators that take the sizes of their result as numbers.
_OF_GIVEN_SIZE = frozenset(
    """aten::arange aten::empty aten::expand aten::eye aten::full aten::linspace aten::new_full
    aten::new_ones aten::new_zeros aten::ones aten::rand aten::randn aten::range aten::repeat
    aten::reshape aten::view aten::zeros aten::slice aten::narrow""".split()
)
#: Operators that return uninitialised memory, which differs each time.
_UNINITIALISED = frozenset(
    """aten::empty aten::empty_like aten::empty_permuted aten::empty_strided aten::new_empty
    aten::new_empty_strided""".split()
)
#: Operators that overwrite all of their first argument.
_OVERWRITING = frozenset({"aten::copy", "aten::fill", "aten::zero"})
_SIZES = frozenset(
    """aten::_shape_as_tensor aten::len aten::numel aten::size aten::sym_size
    prim::shape""".split()
)


#: Functions and methods of TorchScript and of Python: the graph does not show what they do.
_OPAQUE = frozenset({"prim::CallFunction", "prim::CallMethod", "prim::PythonOp"})
_NORMS = frozenset({"aten::batch_norm", "aten::instance_norm"})
#: Marks, in a schema, an argument whose memory is returned or written to.
_LENT = re.compile(r"Tensor\([a-z]")


_FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): ", re.MULTILINE)


def user_lines(stack: str) -> list[Line]:
    """The lines of the model in a stack printed by torch, the innermost first. Torch writes them as
    "model.py(3): forward"."""
    found = [(one["file"], int(one["line"])) for one in _FRAME.finditer(stack)]
    lines: list[Line] = []
    for file, number in found:
        if file.startswith((_private.OF_TORCH, _private.OURS)):
            if lines and file.startswith(_private.OURS):
                break  # the caller that traces the model
            continue
        lines.append(line_at(file, number))
    return lines


class Sources:
    """The sources of the values of a graph that is being traced. Values are identified by their
    numbers: torch names values after Python variables, and renames them when another value gets
    the name."""

    def __init__(self, arguments: Collection[int]) -> None:
        self._arguments = arguments
        self._looked_at: set[int] = set()
        #: Values whose memory may have been written to by something other than an operator.
        self._tainted: set[int] = set()
        #: Whether data was written to memory that held none. Views may hide which tensors share
        #: that memory, so every later question may depend on it.
        self.is_written = False
        #: Whether the value of the last question comes from tensors older than the trace.
        self.is_of_kept = False
        #: Whether that value, or one that it was made from, may share memory that is written to.
        self._is_lent = False

    def taint(self, value: Any) -> None:
        """Says that data may be written to the memory of a value without the graph showing it."""
        self._tainted.add(value.unique())
        self.is_written = True

    def raising(self) -> Iterator[Guard]:
        """The guards of operators, traced so far, that raise for some data."""
        for node in _nodes(_private.traced_graph()):
            kind = str(node.kind())
            if _raising.may_raise(kind):
                lines = user_lines(str(node.sourceRange()))
                guard = _raising.guard(kind, lines[0] if lines else Line(), lines)
                if guard is not None:
                    yield guard

    def of(self, value: Any) -> Source:
        self.is_of_kept = self._is_lent = False
        found = self._find(value, of_size=False)
        if found == "data" or not self._is_lent:
            return found
        is_of_kept = self.is_of_kept
        is_written = self.is_written or self._has_written()
        self.is_of_kept = is_of_kept
        return "data" if is_written else found

    def of_size(self, value: Any) -> Source:
        """The source of the sizes of a tensor, not of its elements."""
        return self._find(value, of_size=True)

    def _has_written(self) -> bool:
        """Whether data was written; looks only at the nodes added since the last call."""
        for node in _nodes(_private.traced_graph()):
            outputs = list(node.outputs())
            if not outputs or outputs[0].unique() in self._looked_at:
                continue
            self._looked_at.add(outputs[0].unique())
            if self._writes_data(node):
                self.is_written = True
        return self.is_written

    def _writes_data(self, node: Any) -> bool:
        kind = str(node.kind())
        if kind.startswith("prim::") and kind not in _OPAQUE:
            return False
        written = _written(node)
        is_data = any(self._find(one, of_size=False) == "data" for one in written)
        if kind in _OPAQUE and is_data:  # a tensor that already has data shows that itself
            tensors = [one for one in written if _private.is_tensor_value(one)]
            return any(self._find(one, of_size=False) != "data" for one in tensors)
        is_chance = kind.endswith("_") and _is_random(kind.removesuffix("_"))
        return is_data or is_chance

    def _find(self, value: Any, *, of_size: bool) -> Source:
        """Goes back through the graph, without recursion because models are deep."""
        waiting = [(value, of_size)]
        found: Source = ""
        seen = set()
        while waiting:
            one, of_size = waiting.pop()
            key = one.unique(), of_size
            if key in seen:
                continue
            seen.add(key)
            self._is_lent |= not of_size and _is_lent(one)
            own, others = self._step(one, of_size=of_size)
            if own == "data":
                return "data"
            found = own or found
            waiting += others
        return found

    def _step(self, value: Any, *, of_size: bool) -> tuple[Source, list[tuple[Any, bool]]]:
        """The source as far as the value itself shows it, and the values to look at next."""
        if value.unique() in self._tainted and not of_size:
            return "data", []
        if value.unique() in self._arguments:
            return ("sizes" if of_size else "data"), []
        node = value.node()
        kind = str(node.kind()).removesuffix("_")
        inputs = list(node.inputs())
        if kind in ("prim::Param", "prim::Constant", "prim::GetAttr"):
            self.is_of_kept |= not of_size and _private.is_tensor_value(value)
            return "", []
        if of_size:
            is_places = kind == "aten::where" and len(inputs) == 1
            is_masked = kind == "aten::index" and _has_mask(inputs)
            if kind in _OF_DATA_SIZE or is_places or is_masked:
                return "data", []
            if kind.startswith("prim::"):  # packs or unpacks a list
                return "", [(one, True) for one in inputs]
            # Of numbers that make up a shape the value counts, of tensors only the sizes.
            return "", [(one, not _is_number(one, kind, inputs)) for one in inputs]
        if _is_random(kind) or kind in _UNINITIALISED:
            return "data", []
        if kind in _OVERWRITING and str(node.kind()).endswith("_"):
            return "", [(one, False) for one in inputs[1:]]
        if kind in _SIZES:
            return "", [(inputs[0], True)]
        if kind == "aten::select" and _is_count_of_sequences(inputs):
            return "", [(next(inputs[0].node().inputs()), True)]
        return "", [(one, False) for one in inputs]


def _is_random(kind: str) -> bool:
    overloads = _private.functional_overloads(kind)
    return any(torch.Tag.nondeterministic_seeded in one.tags for one in overloads)


def _is_lent(value: Any) -> bool:
    """Whether an operator takes this tensor, or list of tensors, and may return its memory or write
    to it."""
    return _has_memory(value) and any(
        any(map(_is_lent, use.user.outputs()))
        if str(use.user.kind()) in ("prim::ListConstruct", "prim::TupleConstruct")
        else _may_lend(use.user)
        for use in value.uses()
    )


def _has_memory(value: Any) -> bool:
    type_ = value.type()
    if str(type_.kind()) == "ListType":
        return str(type_.getElementType().kind()) in ("TensorType", "OptionalType")
    return str(type_.kind()) in ("TensorType", "TupleType")


def _may_lend(node: Any) -> bool:
    kind = str(node.kind())
    if kind in _OPAQUE or kind in _NORMS or _LENT.search(str(node.schema())):
        return True
    is_given = any(map(_has_memory, node.outputs()))
    return is_given and any(map(_private.is_composite, _private.functional_overloads(kind)))


def _nodes(block: Any) -> Iterator[Any]:
    """The nodes of a block, and of the modules that are called in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _written(node: Any) -> list[Any]:
    """What a node writes, if it writes: all its inputs except the memory that it writes to."""
    kind = str(node.kind())
    inputs = list(node.inputs())
    if kind.endswith("_") and not kind.endswith("__"):
        return inputs[1:]
    if kind in _OPAQUE:
        return inputs
    if kind in _NORMS:  # in training mode they write to the running means and variances
        return inputs if inputs[5].toIValue() is not False else []
    return inputs if "!" in str(node.schema()) else []  # as with out=


def _has_mask(inputs: list[Any]) -> bool:
    masks = [one for given in inputs[1:] for one in given.node().inputs()]
    dtypes = [_private.dtype_of_value(one) for one in masks]
    return any(one in (torch.bool, torch.uint8) for one in dtypes)


def _is_number(value: Any, kind: str, inputs: list[Any]) -> bool:
    """Whether an argument of an operator is a number or a list of numbers."""
    type_ = value.type()
    if str(type_.kind()) == "ListType":
        return str(type_.getElementType().kind()) not in ("TensorType", "OptionalType")
    if str(type_.kind()) != "TensorType":
        return True
    return kind in _OF_GIVEN_SIZE and value is not inputs[0]


def _is_count_of_sequences(inputs: list[Any]) -> bool:
    """Whether the inputs select the first batch size of a packed sequence. That is the number of
    sequences, since torch packs no empty ones."""
    node = inputs[0].node()
    if str(node.kind()) != "aten::_pack_padded_sequence":
        return False
    is_sizes = list(node.outputs())[1].unique() == inputs[0].unique()
    return is_sizes and all(one.toIValue() == 0 for one in inputs[1:])
