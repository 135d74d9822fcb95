"""torch operators that are by definition the same as one ONNX operator, for all numbers.

A translation to that one node is not tried with hard numbers. A test does that instead, for each
operator and each of its types.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._program._dispatch import STANDARD, Choice

_FLOATS = (torch.float32, torch.float64)
_NUMBERS = (*_FLOATS, torch.int64)
# For doubles, torch translates these to operators on two tensors.
_OF_A_NUMBER = (torch.float32, torch.int64)
_BOOL = (torch.bool,)
_ALL = (*_NUMBERS, *_BOOL)
#: For each torch operator, the ONNX operator and the input types for which they are the same.
EXACT = {
    "aten::abs": ("Abs", _NUMBERS),
    "aten::add.Tensor": ("Add", _NUMBERS),
    "aten::ceil": ("Ceil", _FLOATS),
    "aten::cos": ("Cos", _FLOATS),
    "aten::div.Tensor": ("Div", _FLOATS),
    "aten::eq.Scalar": ("Equal", _OF_A_NUMBER),
    "aten::eq.Tensor": ("Equal", _ALL),
    "aten::exp": ("Exp", _FLOATS),
    "aten::floor": ("Floor", _FLOATS),
    "aten::ge.Scalar": ("GreaterOrEqual", _OF_A_NUMBER),
    "aten::ge.Tensor": ("GreaterOrEqual", _NUMBERS),
    "aten::gt.Scalar": ("Greater", _OF_A_NUMBER),
    "aten::gt.Tensor": ("Greater", _NUMBERS),
    "aten::le.Scalar": ("LessOrEqual", _OF_A_NUMBER),
    "aten::le.Tensor": ("LessOrEqual", _NUMBERS),
    "aten::log": ("Log", _FLOATS),
    "aten::logical_and": ("And", _BOOL),
    "aten::logical_not": ("Not", _BOOL),
    "aten::logical_or": ("Or", _BOOL),
    "aten::lt.Scalar": ("Less", _OF_A_NUMBER),
    "aten::lt.Tensor": ("Less", _NUMBERS),
    "aten::maximum": ("Max", _NUMBERS),
    "aten::mean.dim": ("ReduceMean", _FLOATS),
    "aten::minimum": ("Min", _NUMBERS),
    "aten::mul.Tensor": ("Mul", _NUMBERS),
    "aten::neg": ("Neg", _NUMBERS),
    "aten::reciprocal": ("Reciprocal", _FLOATS),
    "aten::relu": ("Relu", _FLOATS),
    "aten::round": ("Round", _FLOATS),
    "aten::sigmoid": ("Sigmoid", (torch.float64,)),
    "aten::sin": ("Sin", _FLOATS),
    "aten::softmax.int": ("Softmax", _FLOATS),
    "aten::sqrt": ("Sqrt", _FLOATS),
    "aten::sub.Tensor": ("Sub", _NUMBERS),
    "aten::sum.dim_IntList": ("ReduceSum", _FLOATS),
    "aten::tanh": ("Tanh", _FLOATS),
    "aten::where.self": ("Where", _NUMBERS),
}


def is_exact(choice: Choice) -> bool:
    """Whether an operator became just the one node that is the same by definition."""
    wanted, types = EXACT.get(operator_name(choice.node.target), ("", ()))
    if choice.kind != STANDARD or choice.kwargs or type_of(choice.node) not in types:
        return False
    made = choice.outputs.producer() if isinstance(choice.outputs, ir.Value) else None
    if made is None or made.op_type != wanted or made.domain:
        return False
    return all(
        one is None or any(one is given for given in choice.args) or _is_constant(one)
        for one in made.inputs
    )


def type_of(node: torch.fx.Node) -> torch.dtype | None:
    """Returns the type of an operator's inputs, except a condition; None if they have several."""
    is_choice = operator_name(node.target) == "aten::where.self"
    given = [one for one in node.args[is_choice:] if isinstance(one, torch.fx.Node)]
    types = {one.meta["val"].dtype for one in given}
    return types.pop() if len(types) == 1 else None


def _is_constant(value: ir.Value) -> bool:
    """Whether a value is computed only from constants, such as the axes of a reduction."""
    producer = value.producer()
    if producer is None:
        return value.const_value is not None
    return all(one is None or _is_constant(one) for one in producer.inputs)
