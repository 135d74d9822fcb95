"""Cumulative operators, which go along an axis element by element: cumprod and logcumsumexp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from opgraft.torch._rungs._functions import Call, Value, function

#: Makes the nodes of one step, from the result so far and the next elements; the last node
#: computes the new result.
_Step = Callable[[ir.Value, ir.Value], list[ir.Node]]


@function("aten::cumprod")
def cumprod(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    """Multiplies one after the other in doubles, like torch, so that zeros, signs and infinities
    are the same."""

    return _along(call, x, dim, 1, _multiply)


@function("aten::logcumsumexp", "aten::_logcumsumexp", replaces_torchs=True)
def logcumsumexp(call: Call, x: Value, dim: int) -> Value:
    """Factors out the larger exponential of each sum, so that none underflows or overflows."""

    def add(so_far: ir.Value, item: ir.Value) -> list[ir.Node]:
        larger = ir.node("Max", [so_far, item])
        smaller = ir.node("Min", [so_far, item])
        distance = ir.node("Sub", [smaller.outputs[0], larger.outputs[0]])
        # The difference of equal infinities is NaN.
        is_same = ir.node("Equal", [so_far, item])
        zero = ir.node("Constant", [], {"value": ir.tensor(np.array(0.0))})
        one = ir.node("Constant", [], {"value": ir.tensor(np.array(1.0))})
        chosen = [is_same.outputs[0], zero.outputs[0], distance.outputs[0]]
        finite = ir.node("Where", chosen)
        power = ir.node("Exp", [finite.outputs[0]])
        sum = ir.node("Add", [power.outputs[0], one.outputs[0]])
        tail = ir.node("Log", [sum.outputs[0]])
        result = ir.node("Add", [larger.outputs[0], tail.outputs[0]])
        nodes = [larger, smaller, distance, is_same, zero, one, finite, power, sum, tail, result]
        for number, node in enumerate(nodes):
            node.outputs[0].name = f"step_{number}"
        return nodes

    return _along(call, x, dim, -math.inf, add)


def whole_product(call: Call, x: Value, rank: int, axis: int) -> Value:
    """Computes the product of integers along an axis, which may be empty."""
    last, _ = _scanned(call, x, rank, axis, 1, _multiply, is_open=True)
    return last


def _multiply(so_far: ir.Value, item: ir.Value) -> list[ir.Node]:
    return [ir.node("Mul", [so_far, item])]


def _along(call: Call, x: Value, dim: int, first: float, step: _Step) -> Value:
    shape = call.example(0).shape
    if not shape or any(isinstance(size, int) and size == 0 for size in shape):
        return call.as_result(x)
    axis = dim % len(shape)
    is_open = not isinstance(shape[axis], int)
    _, results = _scanned(call, x, len(shape), axis, first, step, is_open=is_open)
    return call.as_result(results)


def _scanned(
    call: Call, x: Value, rank: int, axis: int, first: float, step: _Step, *, is_open: bool
) -> tuple[Value, Value]:
    """Returns the last result, and the result at each step. `is_open`: the axis may be empty."""
    op = call.op
    wide = torch.float64 if call.result.dtype.is_floating_point else torch.int64
    # The `dtype` argument rounds the elements, not only the results.
    x = call.cast(call.as_result(x), wide)
    others = [place for place in range(rank) if place != axis]
    sizes = op.Gather(op.Shape(x), call.constant(others, np.int64))
    start = ir.tensor(np.array([first], np.float64 if wide == torch.float64 else np.int64))
    starts = op.ConstantOfShape(sizes, value=start)
    if is_open:  # ONNX Runtime's Scan does not take an empty input
        x = op.Concat(op.Unsqueeze(starts, call.constant([axis], np.int64)), x, axis=axis)
    last, results = call.append(
        "Scan",
        [starts, x],
        2,
        body=_body(wide, rank - 1, step),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
    )
    if is_open:
        begin, end, place = ([1], [np.iinfo(np.int64).max], [axis])
        bounds = (call.constant(one, np.int64) for one in (begin, end, place))
        results = op.Slice(results, *bounds)
    return last, results


def _body(dtype: torch.dtype, rank: int, step: _Step) -> ir.Graph:
    """Makes the body of the loop: from the result so far and the next elements to the result."""
    element = ir.DataType.DOUBLE if dtype == torch.float64 else ir.DataType.INT64

    def value(name: str) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(element), shape=ir.Shape([None] * rank))

    so_far, item = value("so_far"), value("item")
    nodes = step(so_far, item)
    result = nodes[-1].outputs[0]
    result.name = "result"
    result.type, result.shape = so_far.type, so_far.shape
    copy = ir.Node("", "Identity", [result], outputs=[value("copy")])
    return ir.Graph([so_far, item], [result, copy.outputs[0]], nodes=[*nodes, copy], name="step")
