"""Random operators that torch's own exporter lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opgraft.torch._functions import Call, Value, function


@function("aten::uniform")
def uniform(call: Call, like: Value, low: float = 0.0, high: float = 1.0, **others: Any) -> Value:
    """Numbers between `low` and `high`, as many as `like` has."""
    return call.op.RandomUniformLike(like, low=low, high=high)


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
