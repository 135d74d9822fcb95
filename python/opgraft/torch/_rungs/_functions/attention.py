"""scaled_dot_product_attention. As in torch, a row that is fully masked gives zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function

#: From this opset on ONNX has the operator, and torch's translation uses it.
_HAS_ATTENTION = 23


def _drops_nothing(call: Call) -> bool:
    return bool(call.argument("dropout_p") == 0)


def _is_wrong_in_torch(call: Call, opset: int) -> bool:
    """torch's translation to older opsets returns the mean of all values, or NaN, for a row that is
    fully masked."""
    return opset < _HAS_ATTENTION and call.argument("attn_mask") is not None


@function(
    "aten::scaled_dot_product_attention",
    when=_drops_nothing,
    replaces_torchs=_is_wrong_in_torch,
)
def scaled_dot_product_attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Value:
    """Computes softmax(query key' scale + mask) value in at least float32, like torch's kernel."""
    op = call.op
    query, key, value = map(call.working, (query, key, value))
    if enable_gqa:
        key, value = (_for_all_heads(call, one, query) for one in (key, value))
    query = op.Mul(query, _scale(call, query, scale))
    axes = list(range(call.argument("key").dim()))
    scores = op.MatMul(query, op.Transpose(key, perm=[*axes[:-2], axes[-1], axes[-2]]))
    hidden = call.working_constant(-math.inf)
    if is_causal:  # each query sees at least the first key
        scores = op.Where(_up_to_each(call, scores), scores, hidden)
    if attn_mask is None:
        return call.as_result(op.MatMul(op.Softmax(scores, axis=-1), value))
    if call.argument("attn_mask").dtype == torch.bool:
        scores = op.Where(attn_mask, scores, hidden)
    else:
        scores = op.Add(scores, call.working(attn_mask))
    # A fully masked row has no softmax. Count its keys: a maximum might ignore NaN.
    last, zero = call.constant([-1], np.int64), call.working_constant(0.0)
    seen = call.cast(op.Not(op.Equal(scores, hidden)), torch.int32)
    is_hidden = op.Equal(op.ReduceSum(seen, last, keepdims=1), call.constant(0, np.int32))
    shares = op.Softmax(op.Where(is_hidden, zero, scores), axis=-1)
    return call.as_result(op.MatMul(op.Where(is_hidden, zero, shares), value))


def _scale(call: Call, query: Value, given: Any) -> Value:
    if given is not None:
        is_constant = isinstance(given, (int, float))
        return call.working_constant(given) if is_constant else call.working(given)
    size = call.argument("query").shape[-1]
    if isinstance(size, int):
        return call.working_constant(1 / math.sqrt(size) if size else 1.0)
    length = call.working(call.op.Shape(query, start=-1))
    return call.op.Reciprocal(call.op.Sqrt(length))


def _up_to_each(call: Call, scores: Value) -> Value:
    """Makes the causal mask: a query sees the keys up to its own position."""
    op = call.op
    zero, one, first = (call.constant(number, np.int64) for number in (0, 1, [0]))
    sizes = op.Shape(scores, start=-2)
    rows, columns = (op.Gather(sizes, place) for place in (zero, one))
    down = op.Unsqueeze(op.Range(zero, rows, one), call.constant([1], np.int64))
    return op.LessOrEqual(op.Unsqueeze(op.Range(zero, columns, one), first), down)


def _for_all_heads(call: Call, x: Value, query: Value) -> Value:
    """Repeats each head of keys or values for all query heads that share it."""
    op = call.op
    before, heads, rest = op.Shape(x, end=-3), op.Shape(x, start=-3, end=-2), op.Shape(x, start=-2)
    wanted = op.Shape(query, start=-3, end=-2)
    times = op.Div(wanted, heads)
    many = op.Expand(
        op.Unsqueeze(x, call.constant([-3], np.int64)),
        op.Concat(before, heads, times, rest, axis=0),
    )
    return op.Reshape(many, op.Concat(before, wanted, rest, axis=0), allowzero=1)
