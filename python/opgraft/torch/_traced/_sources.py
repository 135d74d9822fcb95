"""What the values of a graph that is being traced come from: the data of the arguments, their sizes
alone, or neither."""

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
#: Operators that make a tensor of sizes that they are given as numbers.
_OF_GIVEN_SIZE = frozenset(
    """aten::arange aten::empty aten::expand aten::eye aten::full aten::linspace aten::new_full
    aten::new_ones aten::new_zeros aten::ones aten::rand aten::randn aten::range aten::repeat
    aten::reshape aten::view aten::zeros aten::slice aten::narrow""".split()
)
#: Operators that give memory as they find it, which is another each time.
_UNINITIALISED = frozenset(
    """aten::empty aten::empty_like aten::empty_permuted aten::empty_strided aten::new_empty
    aten::new_empty_strided""".split()
)
#: Operators that write to all of their first argument, whatever it was.
_OVERWRITING = frozenset({"aten::copy", "aten::fill", "aten::zero"})
_SIZES = frozenset(
    """aten::_shape_as_tensor aten::len aten::numel aten::size aten::sym_size
    prim::shape""".split()
)


#: Functions and methods of TorchScript, and of Python, which do whatever they do.
_OPAQUE = frozenset({"prim::CallFunction", "prim::CallMethod", "prim::PythonOp"})
_NORMS = frozenset({"aten::batch_norm", "aten::instance_norm"})
#: In a schema, what gives the memory of an argument, or writes to it.
_LENT = re.compile(r"Tensor\([a-z]")


_FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): ", re.MULTILINE)


def user_lines(stack: str) -> list[Line]:
    """The lines of the model in a stack of torch's, the innermost first: "model.py(3): forward"."""
    found = [(one["file"], int(one["line"])) for one in _FRAME.finditer(stack)]
    lines: list[Line] = []
    for file, number in found:
        if file.startswith((_private.OF_TORCH, _private.OURS)):
            if lines and file.startswith(_private.OURS):
                break  # who traces the model
            continue
        lines.append(line_at(file, number))
    return lines


class Sources:
    """Of the values of a graph that is being traced. They are told apart by their numbers: torch
    names values after variables of Python's, and renames them as others get the name."""

    def __init__(self, arguments: Collection[int]) -> None:
        self._arguments = arguments
        self._looked_at: set[int] = set()
        #: Whose memory others than operators may have written data to.
        self._tainted: set[int] = set()
        #: Whether data was written to memory that had none. Whose it is, views may hide: whatever
        #: is asked later may depend on it.
        self.is_written = False
        #: Whether what was asked for last comes from tensors that are older than the trace.
        self.is_of_kept = False
        #: Whether others may have its memory, or that of what it was made of, and write to it.
        self._is_lent = False

    def taint(self, value: Any) -> None:
        """Says that data may be written to its memory, past the graph."""
        self._tainted.add(value.unique())
        self.is_written = True

    def raising(self) -> Iterator[Guard]:
        """What operators so far would raise for."""
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
        """Of the sizes of a tensor, not of its elements."""
        return self._find(value, of_size=True)

    def _has_written(self) -> bool:
        """Looks at the nodes that came since it was asked last."""
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
        if kind in _OPAQUE and is_data:  # memory that has data already tells so itself
            tensors = [one for one in written if _private.is_tensor_value(one)]
            return any(self._find(one, of_size=False) != "data" for one in tensors)
        is_chance = kind.endswith("_") and _is_random(kind.removesuffix("_"))
        return is_data or is_chance

    def _find(self, value: Any, *, of_size: bool) -> Source:
        """Goes back through the graph, without recursion: models are deep."""
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
        """What a value itself says of the source, and the values to look at next."""
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
            if kind.startswith("prim::"):  # lists, and what takes them apart
                return "", [(one, True) for one in inputs]
            # Numbers that a shape is made of count themselves, of tensors the sizes alone.
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
    """Whether an operator takes a tensor, or a list of them, and may give their memory, or write to
    it."""
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
    """Those of a block, and of the modules that are called in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _written(node: Any) -> list[Any]:
    """What a node writes, where it does: whatever it is given but the memory that it writes to."""
    kind = str(node.kind())
    inputs = list(node.inputs())
    if kind.endswith("_") and not kind.endswith("__"):
        return inputs[1:]
    if kind in _OPAQUE:
        return inputs
    if kind in _NORMS:  # in training they write to the means and variances that they keep
        return inputs if inputs[5].toIValue() is not False else []
    return inputs if "!" in str(node.schema()) else []  # as with out=


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
    is_sizes = list(node.outputs())[1].unique() == inputs[0].unique()
    return is_sizes and all(one.toIValue() == 0 for one in inputs[1:])
