"""cov and corrcoef, in doubles."""

from __future__ import annotations

from typing import Any

from opgraft.torch._rungs._functions import Call, Value, axes, function


def _gives_floats(call: Call) -> bool:
    return bool(call.result.is_floating_point())


@function("aten::cov", when=_gives_floats)
def cov(
    call: Call,
    x: Value,
    *,
    correction: int = 1,
    fweights: Value | None = None,
    aweights: Value | None = None,
) -> Value:
    return call.as_result(_covariance(call, x, correction, fweights, aweights))


def _covariance(
    call: Call,
    x: Value,
    correction: int,
    fweights: Value | None = None,
    aweights: Value | None = None,
) -> Value:
    """The rows are variables, the columns observations, which weigh as much as both weights."""
    op = call.op
    rank = call.example(0).dim()
    x = call.double(x)
    rows = x if rank == 2 else op.Reshape(x, axes.integers(call, 1, -1))
    count = call.double(axes.size(call, rows, 1))
    given = [call.double(one) for one in (fweights, aweights) if one is not None]
    given = [axes.flat(call, one) for one in given]
    weights: Any = None
    if given:
        weights = given[0] if len(given) == 1 else op.Mul(*given)
        count = op.ReduceSum(weights, keepdims=1)
    last = axes.integers(call, 1)
    weighed = rows if weights is None else op.Mul(rows, weights)
    mean = op.Div(op.ReduceSum(weighed, last, keepdims=1), count)
    corrected = call.constant(float(correction))
    if aweights is not None and correction:
        of_squares = op.ReduceSum(op.Mul(weights, given[-1]), keepdims=1)
        corrected = op.Div(op.Mul(corrected, of_squares), count)
    divisor = op.Max(op.Sub(count, corrected), call.constant(0.0))
    centred = op.Sub(rows, mean)
    other = centred if weights is None else op.Mul(centred, weights)
    if call.result.dim() < 2:
        return op.Squeeze(op.Div(op.ReduceSum(op.Mul(centred, other)), divisor))
    products = op.MatMul(centred, op.Transpose(other, perm=[1, 0]))
    # As a matrix: ONNX Runtime fuses a product with a number that it takes for a float32.
    return op.Div(products, op.Expand(divisor, op.Shape(products)))


@function("aten::corrcoef", when=_gives_floats)
def corrcoef(call: Call, x: Value) -> Value:
    op = call.op
    found = _covariance(call, x, 1)
    if call.result.dim() == 0:
        return call.as_result(op.Div(found, found))
    count = axes.counted(call, axes.size(call, found, 0))
    column = op.Unsqueeze(count, axes.integers(call, 1))
    deviation = op.Sqrt(op.GatherElements(found, column, axis=1))
    scaled = op.Div(op.Div(found, deviation), op.Transpose(deviation, perm=[1, 0]))
    low, high = call.constant(-1.0), call.constant(1.0)
    return call.as_result(op.Max(op.Min(scaled, high), low))
