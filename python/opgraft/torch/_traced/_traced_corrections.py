"""Symbolic functions in the place of torch's own, where those leave something out.

They are written for TorchScript's graph, as those that register_custom_op_symbolic takes.
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
    """torch's own gives as many steps as were packed, whatever the longest sequence has, pads with
    zeros alone, and knows no total length."""
    padding = float(symbolic_helper._parse_arg(padding_value, "f"))
    # Where none is given, torch hands over how many steps were packed.
    total = symbolic_helper._maybe_get_const(total_length, "i")
    total = total if isinstance(total, int) else 0

    def numbers(*values: int) -> Any:
        return g.op("Constant", value_t=torch.tensor(values))

    # Where the sequence comes packed as an argument, nobody knows its lengths.
    packed = batch_sizes.node()
    if packed.kind() != "prim::PackPadded":
        raise errors.SymbolicValueError("its argument is not packed in the model", batch_sizes)
    # Not from the second output: torch's passes know no use of that.
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
        # Behind the end of the time axis alone.
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
#: From which opset on the operators are there that they use.
LOWEST_OPSET = 15
