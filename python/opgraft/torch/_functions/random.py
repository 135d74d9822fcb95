"""Random operators that torch's own exporter lacks."""

from __future__ import annotations

from typing import Any

from opgraft.torch._functions import Call, Value, function


@function("aten::uniform")
def uniform(call: Call, like: Value, low: float = 0.0, high: float = 1.0, **others: Any) -> Value:
    """Numbers between `low` and `high`, as many as `like` has."""
    return call.op.RandomUniformLike(like, low=low, high=high)


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
