"""unique of numbers among which there may be NaN, each of which is another."""

from __future__ import annotations

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function


def _takes_floats(call: Call) -> bool:
    return bool(call.example(0).is_floating_point())


@function(
    "aten::_unique2",
    when=_takes_floats,
    replaces_torchs=lambda call, _: _takes_floats(call),
)
def unique(
    call: Call,
    x: Value,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Value]:
    """The numbers by ONNX's Unique, of which NaN is none, then each NaN."""
    op = call.op
    shape = op.Shape(x)
    flat = op.Reshape(call.working(x), call.constant([-1], np.int64))
    is_nan = op.IsNaN(flat)
    is_number = op.Not(is_nan)
    numbers = op.Compress(flat, is_number, axis=0)
    values, _, inverse, counts = call.append("Unique", [numbers], 4, sorted=1)
    zero, first = call.constant(0, np.int64), call.constant([0], np.int64)
    nans = op.Compress(flat, is_nan, axis=0)
    nowhere = op.ConstantOfShape(first)
    results = [call.cast(op.Concat(values, nans, axis=0), call.result[0].dtype)]
    if return_inverse:
        behind = op.Sub(op.CumSum(_whole(call, is_nan), zero), call.constant(1, np.int64))
        behind = op.Add(behind, op.Shape(values))
        places = op.Transpose(op.NonZero(is_number))
        results.append(op.Reshape(op.ScatterND(behind, places, inverse), shape, allowzero=1))
    else:
        results.append(_whole(call, nowhere))
    if return_counts:
        ones = op.Expand(call.constant([1], np.int64), op.Shape(nans))
        results.append(op.Concat(counts, ones, axis=0))
    else:
        results.append(_whole(call, nowhere))
    return results


def _whole(call: Call, value: Value) -> Value:
    return call.op.Cast(value, to=7)
