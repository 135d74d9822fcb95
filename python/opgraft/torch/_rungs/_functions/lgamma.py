"""lgamma: the logarithm of the absolute value of the gamma function; and mvlgamma, of several."""

from __future__ import annotations

import math

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function

# log gamma(1 + u) / (u (u - 1)) for u from -0.5 to 1.5, as a quotient of polynomials in u + 0.5.
# All coefficients are positive, so that the sums lose no precision; the error is below 1e-17.
_UPPER = (
    0.7631532572329335,
    5.4287287763229175,
    15.721486898170802,
    23.955807676310986,
    20.764934091118235,
    10.36496218561996,
    2.8886049441708828,
    0.41616378907897406,
    0.02663347959354615,
    0.0005403326683073451,
    7.203959290795954e-07,
)
_LOWER = (
    1.0,
    7.877404354569129,
    25.677275292344017,
    44.968305277525275,
    46.05275113125072,
    28.209793186329843,
    10.190750357456809,
    2.070421720955095,
    0.21587015236504556,
    0.009714411077082338,
    0.00012660710538094422,
)
# Stirling's series: B(2k) / (2k (2k - 1)).
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
    43867 / 244188,
)
_LARGE = 8.0  # from here on the series is exact enough


@function("aten::lgamma", "aten::special_gammaln")
def lgamma(call: Call, x: Value) -> Value:
    return call.as_result(_lgamma(call, call.double(x)))


@function("aten::mvlgamma", "aten::special_multigammaln")
def mvlgamma(call: Call, x: Value, p: int) -> Value:
    """Adds the lgamma of x, x - 1/2, ..., x - (p - 1)/2."""
    op = call.op
    steps = call.constant([-0.5 * step for step in range(p)])
    terms = op.Add(op.Unsqueeze(call.double(x), call.constant([-1], np.int64)), steps)
    # Counted from the front: from the back ONNX Runtime gets the shape of nothing wrong.
    last = call.constant([call.result.dim()], np.int64)
    total = op.ReduceSum(_lgamma(call, terms), last, keepdims=0)
    offset = p * (p - 1) / 4 * math.log(math.pi)
    return call.as_result(op.Add(total, call.constant(offset)))


def _lgamma(call: Call, x: Value) -> Value:
    """Computes in doubles: near 1 and 2, where lgamma is zero, by a formula with these zeros as
    factors; up to 8 by recurrence; from 8 on by Stirling's series; below -0.5 by reflection."""
    op = call.op
    size = op.Abs(x)
    half, one, two = call.constant(0.5), call.constant(1.0), call.constant(2.0)
    is_small = op.Less(size, half)

    # Reduce to between 1.5 and 2.5, and collect the product of the steps.
    reduced, product = size, one
    for _ in range(6):
        less = op.Sub(reduced, one)
        goes = op.GreaterOrEqual(less, call.constant(1.5))
        product = op.Mul(product, op.Where(goes, less, one))
        reduced = op.Where(goes, less, reduced)
    # log gamma(1 + u), for u = x near zero, or u = x - 1 further up.
    u = op.Where(is_small, x, op.Sub(reduced, one))
    rest = op.Where(is_small, op.Sub(x, one), op.Sub(reduced, two))
    place = op.Add(u, half)
    quotient = op.Div(call.horner(place, _UPPER), call.horner(place, _LOWER))
    near = op.Mul(op.Mul(u, rest), quotient)
    step = op.Log(op.Where(is_small, size, product))
    near = op.Where(is_small, op.Sub(near, step), op.Add(near, step))

    far = _stirling(call, size)
    above = op.Where(op.Less(size, call.constant(_LARGE)), near, far)

    # gamma(x) gamma(-x) = -pi / (x sin(pi x)); only the fraction of x matters for the sine.
    beyond = op.Sub(size, op.Round(size))
    sine = op.Abs(op.Sin(op.Mul(call.constant(math.pi), beyond)))
    below = op.Sub(op.Sub(call.constant(math.log(math.pi)), op.Log(op.Mul(size, sine))), above)
    is_below = op.LessOrEqual(x, op.Neg(half))
    value = op.Where(is_below, below, above)
    infinite = call.constant(float("inf"))
    return op.Where(op.IsInf(x), infinite, value)


def _stirling(call: Call, x: Value) -> Value:
    op = call.op
    half, one = call.constant(0.5), call.constant(1.0)
    inverse = op.Div(one, x)
    series = op.Mul(inverse, call.horner(op.Mul(inverse, inverse), _STIRLING))
    main = op.Mul(op.Sub(x, half), op.Sub(op.Log(x), one))
    offset = call.constant(0.5 * math.log(2 * math.pi) - 0.5)
    return op.Add(main, op.Add(offset, series))
