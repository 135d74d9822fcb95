"""Operators of torch that one operator of ONNX is by definition, for all numbers.

Where a translation is that one node, there is nothing to find at hard numbers, and nobody tries.
What stands here is tried by a test instead, for each of the types.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from opgraft.torch._dispatch import STANDARD, Choice
from opgraft.torch._graph import operator_name

TYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
EXACT = {
    "aten::abs": "Abs",
    "aten::add.Tensor": "Add",
    "aten::ceil": "Ceil",
    "aten::cos": "Cos",
    "aten::div.Tensor": "Div",
    "aten::eq.Scalar": "Equal",
    "aten::eq.Tensor": "Equal",
    "aten::exp": "Exp",
    "aten::floor": "Floor",
    "aten::ge.Scalar": "GreaterOrEqual",
    "aten::ge.Tensor": "GreaterOrEqual",
    "aten::gt.Scalar": "Greater",
    "aten::gt.Tensor": "Greater",
    "aten::le.Scalar": "LessOrEqual",
    "aten::le.Tensor": "LessOrEqual",
    "aten::log": "Log",
    "aten::logical_and": "And",
    "aten::logical_not": "Not",
    "aten::logical_or": "Or",
    "aten::lt.Scalar": "Less",
    "aten::lt.Tensor": "Less",
    "aten::maximum": "Max",
    "aten::mean.dim": "ReduceMean",
    "aten::minimum": "Min",
    "aten::mul.Tensor": "Mul",
    "aten::neg": "Neg",
    "aten::reciprocal": "Reciprocal",
    "aten::relu": "Relu",
    "aten::round": "Round",
    "aten::sigmoid": "Sigmoid",
    "aten::sin": "Sin",
    "aten::softmax.int": "Softmax",
    "aten::sqrt": "Sqrt",
    "aten::sub.Tensor": "Sub",
    "aten::sum.dim_IntList": "ReduceSum",
    "aten::tanh": "Tanh",
    "aten::where.self": "Where",
}


def is_exact(choice: Choice) -> bool:
    """Whether an operator became the one node that it is by definition, and nothing else."""
    wanted = EXACT.get(operator_name(choice.node.target))
    if choice.kind != STANDARD or wanted is None or choice.kwargs:
        return False
    if not all(one.meta["val"].dtype in TYPES for one in choice.node.all_input_nodes):
        return False
    made = choice.outputs.producer() if isinstance(choice.outputs, ir.Value) else None
    if made is None or made.op_type != wanted or made.domain:
        return False
    return all(
        one is None or any(one is given for given in choice.args) or _is_constant(one)
        for one in made.inputs
    )


def _is_constant(value: ir.Value) -> bool:
    """Whether a value is made of constants alone, as the axes of a reduction are."""
    producer = value.producer()
    if producer is None:
        return value.const_value is not None
    return all(one is None or _is_constant(one) for one in producer.inputs)
