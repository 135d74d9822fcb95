"""linspace with an open number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function


def _is_open(call: Call) -> bool:
    steps, start, end = (call.argument(name) for name in ("steps", "start", "end"))
    is_taken = call.result.is_floating_point() and all(
        isinstance(one, (int, float)) for one in (start, end)
    )
    return bool(is_taken) and not isinstance(steps, int)


@function("aten::linspace", when=_is_open, replaces_torchs=lambda call, _: _is_open(call))
def linspace(call: Call, start: float, end: float, steps: Any, **_: Any) -> Value:
    """Computes from both ends, like torch. torch's exporter divides by 0 if there is one step."""
    op = call.op
    zero, one, two = (call.constant(number, np.int64) for number in (0, 1, 2))
    count = op.Squeeze(call.cast(steps, torch.int64))
    places = op.Range(zero, count, one)
    gaps = op.Sub(count, one)
    step = op.Div(call.constant(float(end) - float(start)), call.double(op.Max(gaps, one)))
    up = op.Add(call.constant(float(start)), op.Mul(step, call.double(places)))
    down = op.Sub(call.constant(float(end)), op.Mul(step, call.double(op.Sub(gaps, places))))
    is_first = op.Or(op.Less(places, op.Div(count, two)), op.Equal(count, one))
    return call.as_result(op.Where(is_first, up, down))
