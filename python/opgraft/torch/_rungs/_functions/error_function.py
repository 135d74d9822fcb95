"""erfc and sigmoid, with full precision for small results."""

from __future__ import annotations

import torch

from opgraft.torch._rungs._functions import Call, Value, function

#: log(erfc(x) exp(x * x) / t) for t = 2 / (2 + x), as a polynomial in 2 t - 1: fitted at 200
#: Chebyshev nodes to torch's erfcx, with an error of 1e-15.
_COEFFICIENTS = (
    -0.671794084056692,
    0.6726432239776685,
    0.04734330684184397,
    -0.046895610232135246,
    -0.009872689364211809,
    0.008824938583261756,
    0.0017589335270230125,
    -0.0023458128215872215,
    -0.00014624660865261778,
    0.0006736809363510465,
    -9.373652581288112e-05,
    -0.0001743114683387865,
    7.14076046765074e-05,
    3.176610897670419e-05,
    -3.020932151478914e-05,
    1.0704169005447017e-07,
    8.612325917199751e-06,
    -2.926734678598241e-06,
    -1.3521216735032584e-06,
    1.2575367310545309e-06,
    -8.245407205469628e-08,
    -2.7917207339223203e-07,
    9.413643233568286e-08,
    2.798645502826923e-08,
    -1.572558712614535e-08,
)


@function("aten::erfc", "aten::special_erfc", replaces_torchs=True)
def erfc(call: Call, x: Value) -> Value:
    """Computes in doubles. torch's exporter writes 1 - erf(x), which is 0 from 4 on in float32."""
    op = call.op
    x = call.double(x)
    one, two = call.constant(1.0), call.constant(2.0)
    size = op.Abs(x)
    t = op.Div(two, op.Add(two, size))
    exponent = call.horner(op.Sub(op.Mul(two, t), one), _COEFFICIENTS)
    value = op.Mul(t, op.Exp(op.Sub(exponent, op.Mul(size, size))))
    is_negative = op.Less(x, call.constant(0.0))
    return call.as_result(op.Where(is_negative, op.Sub(two, value), value))


def _is_read(call: Call, _: int) -> bool:
    """Whether the precision of small results matters; it does not for a gate in a product."""
    is_gate = bool(call.node.users) and all(
        str(one.target).startswith("aten.mul.") for one in call.node.users
    )
    return call.result.dtype in (torch.float32, torch.bfloat16) and not is_gate


@function("aten::sigmoid", "aten::special_expit", replaces_torchs=_is_read)
def sigmoid(call: Call, x: Value) -> Value:
    """Computes 1 / (1 + exp(-x)). ONNX Runtime's kernel returns 0 below about -18 in float32."""
    op = call.op
    x = call.working(x)
    one = call.working_constant(1.0)
    return call.as_result(op.Reciprocal(op.Add(one, op.Exp(op.Neg(x)))))
