"""Random operators that torch's own exporter lacks, or writes as ONNX Runtime gets them wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function


@function("aten::uniform")
def uniform(call: Call, like: Value, low: float = 0.0, high: float = 1.0, **others: Any) -> Value:
    """Numbers between `low` and `high`, as many as `like` has."""
    return call.op.RandomUniformLike(like, low=low, high=high)


@function("aten::bernoulli", replaces_torchs=True)
def bernoulli(call: Call, p: Value, **others: Any) -> Value:
    """1 with probability `p`, else 0. ONNX Runtime takes two of ONNX's Bernoulli with one `p` for
    the same draw."""
    op = call.op
    numbers = op.RandomUniformLike(p, dtype=1, low=0.0, high=1.0)
    return call.as_result(op.Less(numbers, op.Cast(p, to=1)))


@function("aten::geometric", is_kept=True)
def geometric(call: Call, like: Value, p: float, **others: Any) -> Value:
    """How often a coin is thrown until it shows what it does with probability `p`. torch decomposes
    it into random numbers of the type of `like`, which integers have none of."""
    op = call.op
    numbers = op.RandomUniformLike(like, dtype=1, low=0.0, high=1.0)
    one = call.constant(1.0, np.float32)
    least = call.constant(np.finfo(np.float32).epsneg, np.float32)  # a number may round to 1
    left = op.Max(op.Sub(one, numbers), least)
    throws = op.Floor(op.Div(op.Log(left), call.constant(math.log1p(-p), np.float32)))
    return call.as_result(op.Add(throws, one))


@function("aten::rrelu")
def rrelu(
    call: Call,
    x: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    **others: Any,
) -> Value:
    """Negative numbers times a random slope in training, the mean one otherwise."""
    op = call.op
    zero = call.cast(call.constant(0.0), call.result.dtype)
    slope = (
        op.RandomUniformLike(x, low=lower, high=upper)
        if training
        else call.cast(call.constant((lower + upper) / 2), call.result.dtype)
    )
    return op.Where(op.Less(x, zero), op.Mul(x, slope), x)


def _is_one(call: Call) -> bool:
    wanted = call.argument("num_samples")
    return isinstance(wanted, int) and wanted == 1


def _draws_new_ones(call: Call) -> bool:
    return not call.argument("replacement") or _is_one(call)


def _is_wrong_in_torch(call: Call, _: int) -> bool:
    """It draws with replacement always, and gives one draw of a vector as a scalar."""
    is_scalar = _is_one(call) and call.example(0).dim() == 1
    return _draws_new_ones(call) and (is_scalar or not _is_one(call))


@function("aten::multinomial", when=_draws_new_ones, replaces_torchs=_is_wrong_in_torch)
def multinomial(
    call: Call, weights: Value, count: Any, replacement: bool = False, **others: Any
) -> Value:
    """Without replacement: the first to come of events that come at these rates, as torch does
    it."""
    op = call.op
    wide = call.cast(weights, torch.float32)
    numbers = op.RandomUniformLike(wide, dtype=1, low=0.0, high=1.0)
    # Neither 0 nor 1, of which the one never comes, and the other comes at a rate of 0 too.
    numbers = op.Clip(
        numbers,
        call.constant(np.finfo(np.float32).tiny, np.float32),
        call.constant(1 - np.finfo(np.float32).epsneg, np.float32),
    )
    speeds = op.Div(wide, op.Neg(op.Log(numbers)))
    last = call.constant([-1], np.int64)
    wanted = (
        call.constant([count], np.int64)
        if isinstance(count, int)
        else op.Reshape(call.cast(count, torch.int64), last)
    )
    _, places = call.append("TopK", [speeds, wanted], 2, axis=-1, largest=1, sorted=1)
    return places
