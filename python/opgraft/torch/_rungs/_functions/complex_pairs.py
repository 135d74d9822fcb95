"""Operators on complex tensors, which are pairs of numbers in ONNX, that transforms need.

torch's exporter has its Fourier transforms, and lacks these: with other sizes than those of the
input, and the inverse ones of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function


def _of_pairs(call: Call) -> bool:
    return bool(call.result.is_complex() and call.result.dtype != torch.complex32)


def _parts(call: Call) -> type:
    return np.float64 if call.result.dtype == torch.complex128 else np.float32


def _adds_zeros(call: Call) -> bool:
    pads, value = call.argument("pad"), call.argument("value")
    is_plain = all(isinstance(one, int) and one >= 0 for one in pads)
    return _of_pairs(call) and is_plain and isinstance(value, (int, float)) and value == 0


@function("aten::constant_pad_nd", when=_adds_zeros, takes_complex=True)
def pad(call: Call, x: Value, pads: Sequence[int], value: float = 0) -> Value:
    """torch counts axes from the last one; ONNX has one more, for the parts."""
    rank = call.example(0).dim()
    begins, ends = [0] * (rank + 1), [0] * (rank + 1)
    for place in range(len(pads) // 2):
        begins[rank - 1 - place], ends[rank - 1 - place] = pads[2 * place : 2 * place + 2]
    zero = call.constant(0.0, _parts(call))
    return call.op.Pad(x, call.constant(begins + ends, np.int64), zero)


@function("aten::_conj_physical", "aten::conj_physical", when=_of_pairs, takes_complex=True)
def conjugate(call: Call, x: Value) -> Value:
    return call.op.Mul(x, call.constant([1.0, -1.0], _parts(call)))
