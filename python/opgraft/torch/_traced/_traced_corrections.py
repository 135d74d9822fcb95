"""Symbolic functions that replace torch's own where those are incomplete.

They work on TorchScript's graph, like those that register_custom_op_symbolic takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.onnx import errors, symbolic_helper

_INT64 = torch.onnx.TensorProtoDataType.INT64


def pad_packed_sequence(
    g: Any, data: Any, batch_sizes: Any, batch_first: Any, padding_value: Any, total_length: Any
) -> tuple[Any, Any]:
    """Torch's own function returns as many steps as were packed, even if the longest sequence is
    shorter, pads only with zeros, and ignores the total length."""
    padding = float(symbolic_helper._parse_arg(padding_value, "f"))
    # If no total length is given, torch passes the number of packed steps.
    total = symbolic_helper._maybe_get_const(total_length, "i")
    total = total if isinstance(total, int) else 0

    def numbers(*values: int) -> Any:
        return g.op("Constant", value_t=torch.tensor(values))

    # If the sequence is packed outside the model, its lengths are unknown.
    packed = batch_sizes.node()
    if packed.kind() != "prim::PackPadded":
        raise errors.SymbolicValueError("its argument is not packed in the model", batch_sizes)
    # The second output has them too, but torch's passes do not support a use of it.
    lengths = g.op("Cast", list(packed.inputs())[1], to_i=_INT64)
    data, _ = g.op("prim::PadPacked", data, batch_sizes, outputs=2)  # time comes first
    longest = g.op("Unsqueeze", g.op("ReduceMax", lengths, keepdims_i=0), numbers(0))
    data = g.op("Slice", data, numbers(0), longest, numbers(0))
    if padding:
        zero, one = (g.op("Constant", value_t=torch.tensor(number)) for number in (0, 1))
        steps = g.op("Range", zero, g.op("Squeeze", longest, numbers(0)), one)
        is_there = g.op("Less", g.op("Unsqueeze", steps, numbers(1, 2)), _column(g, lengths))
        data = g.op("Where", is_there, data, _like(g, data, padding))
    if total > 0:
        # Pad only at the end of the time axis.
        missing = g.op("Sub", numbers(total), longest)
        pads = g.op("Concat", numbers(0, 0, 0), missing, numbers(0, 0), axis_i=0)
        data = g.op("Pad", data, pads, _like(g, data, padding))
    if symbolic_helper._parse_arg(batch_first, "i"):
        data = g.op("Transpose", data, perm_i=[1, 0, 2])
    return data, lengths


def _column(g: Any, lengths: Any) -> Any:
    axes = g.op("Constant", value_t=torch.tensor([0, 2]))
    return g.op("Unsqueeze", lengths, axes)


def _like(g: Any, data: Any, number: float) -> Any:
    value = g.op("Constant", value_t=torch.tensor(number))
    return g.op("CastLike", value, data)


CORRECTIONS: dict[str, Callable[..., Any]] = {"aten::_pad_packed_sequence": pad_packed_sequence}
#: The first opset that has the operators that they use.
LOWEST_OPSET = 15
