"""cumprod: products of all elements up to each one, along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._functions import Call, Value, function


@function("aten::cumprod")
def cumprod(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    """One after the other and in doubles, as torch does it: zeros, signs and infinities come out
    the same."""
    op = call.op
    shape = call.example(0).shape
    if not shape or any(isinstance(size, int) and size == 0 for size in shape):
        return call.as_result(x)
    axis = dim % len(shape)
    wide = torch.float64 if call.result.dtype.is_floating_point else torch.int64
    # A type that was asked for rounds the elements, not only the products.
    x = call.cast(call.as_result(x), wide)
    others = [place for place in range(len(shape)) if place != axis]
    sizes = op.Gather(op.Shape(x), call.constant(others, np.int64))
    one = ir.tensor(np.array([1], np.float64 if wide == torch.float64 else np.int64))
    ones = op.ConstantOfShape(sizes, value=one)
    is_open = not isinstance(shape[axis], int)
    if is_open:  # ONNX Runtime's Scan does not take what is empty
        x = op.Concat(op.Unsqueeze(ones, call.constant([axis], np.int64)), x, axis=axis)
    _, products = call.append(
        "Scan",
        [ones, x],
        2,
        body=_multiply(wide, len(shape) - 1),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
    )
    if is_open:
        first, last, place = ([1], [np.iinfo(np.int64).max], [axis])
        bounds = (call.constant(one, np.int64) for one in (first, last, place))
        products = op.Slice(products, *bounds)
    return call.as_result(products)


def _multiply(dtype: torch.dtype, rank: int) -> ir.Graph:
    """The body of the loop: the product so far, times the next elements."""
    element = ir.DataType.DOUBLE if dtype == torch.float64 else ir.DataType.INT64

    def value(name: str) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(element), shape=ir.Shape([None] * rank))

    so_far, item = value("so_far"), value("item")
    product = ir.Node("", "Mul", [so_far, item], outputs=[value("product")])
    copy = ir.Node("", "Identity", [product.outputs[0]], outputs=[value("copy")])
    return ir.Graph(
        [so_far, item],
        [product.outputs[0], copy.outputs[0]],
        nodes=[product, copy],
        name="multiply",
    )
