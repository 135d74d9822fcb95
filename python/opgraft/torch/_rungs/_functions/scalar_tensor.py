"""scalar_tensor: a number as a tensor, with all digits of a double."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch._rungs._functions import Call, Value, function


def _is_double(call: Call) -> bool:
    return isinstance(call.argument("s"), float) and call.result.dtype == torch.float64


@function(
    "aten::scalar_tensor",
    when=_is_double,
    replaces_torchs=lambda call, opset: _is_double(call),
)
def scalar_tensor(call: Call, number: float, **_: Any) -> Value:
    """Torch's exporter makes a float32 of it on the way: 0.3 becomes 0.30000001."""
    return call.constant(number)
