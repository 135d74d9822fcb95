"""pad with negative amounts, which cut elements off, where ONNX Runtime cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, axes, function


def _is_cut(call: Call) -> bool:
    amounts = call.argument("pad")
    return (
        call.argument("mode") == "replicate"
        and all(map(axes.known, amounts))
        and any(one < 0 for one in amounts)
    )


@function("aten::pad", when=_is_cut, replaces_torchs=lambda call, _: _is_cut(call), is_kept=_is_cut)
def pad(call: Call, x: Value, pad: Sequence[int], mode: str = "", value: Any = None) -> Value:
    """Gathers each element from its place, or from the nearest end."""
    op = call.op
    zero, one = call.constant(0, np.int64), call.constant(1, np.int64)
    rank = call.example(0).dim()
    for number, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = rank - 1 - number
        size = op.Squeeze(axes.size(call, x, axis))
        end = op.Add(size, call.constant(after, np.int64))
        places = op.Range(call.constant(-before, np.int64), end, one)
        places = op.Min(op.Max(places, zero), op.Sub(size, one))
        x = op.Gather(x, places, axis=axis)
    return op.Identity(x)
