"""Whether any of what may be empty is true: nothing is not.

torch's exporter writes ReduceMax of integers, which gives ONNX Runtime the lowest integer for
nothing, and so true.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function
from opgraft.torch._rungs._functions.means import may_be_empty, reduced_axes


@function(
    "aten::any",
    "aten::any.dim",
    "aten::any.dims",
    when=lambda call: bool(reduced_axes(call)),
    replaces_torchs=lambda call, _: may_be_empty(call),
)
def any_of(call: Call, x: Value, *_: Any, **__: Any) -> Value:
    """Counts those that are."""
    op = call.op
    axes = call.constant(reduced_axes(call), np.int64)
    keep = int(call.arguments.get("keepdim", False))
    true = call.cast(call.cast(x, torch.bool), torch.int64)
    counted = op.ReduceSum(true, axes, keepdims=keep)
    return call.as_result(op.Greater(counted, call.constant(0, np.int64)))
