"""Conversions to narrower integers, of what was no integer before."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs._functions import Call, Value, function

_CONVERSIONS = frozenset(("aten::_to_copy", "aten::to.dtype", "prims::convert_element_type"))


def _is_merged(call: Call) -> bool:
    """x.long().int(): ONNX Runtime makes one conversion of the two, which holds what is too large
    at the largest integer, where torch takes the lower bits."""
    source: Any = call.node.args[0]
    if not isinstance(source, torch.fx.Node) or operator_name(source.target) not in _CONVERSIONS:
        return False
    wide, narrow = call.example(0), call.result
    first = source.args[0].meta.get("val") if isinstance(source.args[0], torch.fx.Node) else None
    is_from_float = isinstance(first, torch.Tensor) and first.is_floating_point()
    return is_from_float and (wide.dtype, narrow.dtype) in _MERGED


_MERGED = {(torch.int64, torch.int32), (torch.int64, torch.int16)}


@function("aten::_to_copy", when=_is_merged, replaces_torchs=lambda call, _: _is_merged(call))
def narrowed(call: Call, x: Value, **_: Any) -> Value:
    """With an operator between the two that changes nothing."""
    return call.as_result(call.op.BitwiseAnd(x, call.constant(-1, np.int64)))
