"""Decides which operators can be tried alone, with numbers that are not in the examples."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._verify._hard_numbers import shape, tensors

#: With more elements, a run would take too long.
MOST_ELEMENTS = 1 << 20
#: Reductions that torch does not tag as such.
_REDUCING = frozenset(
    f"aten::{name}"
    for name in (
        "_fused_rms_norm _log_softmax _softmax cumsum cumprod group_norm layer_norm "
        "log_sigmoid_forward log_softmax logcumsumexp native_group_norm native_layer_norm rms_norm "
        "softmax"
    ).split()
)
#: Operators that return indices of elements, or elements in another order.
_CHOOSING = frozenset(
    f"aten::{name}"
    for name in (
        "argmax argmin argsort cummax cummin kthvalue max median min mode msort nanmedian sort topk"
    ).split()
)
_OTHERS = (
    torch.bool,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.complex64,
    torch.complex128,
)
#: In torch they take as many steps as one of their numbers says.
_ENDLESS = frozenset(
    f"aten::special_{name}"
    for name in (
        "laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
        "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w"
    ).split()
)
_COPYING = frozenset(("aten::clone", "aten::detach", "aten::alias", "aten::copy"))


@functools.cache
def _is_of_a_kind(target: Any) -> bool:
    """Whether an operator is elementwise, reduces or chooses."""
    if not isinstance(target, _private.OpOverload):
        return False
    name = operator_name(target)
    base = name.partition(".")[0]
    is_reducing = torch.Tag.reduction in target.tags or base in _REDUCING or base in _CHOOSING
    if name in _COPYING or base in _ENDLESS:
        return False
    return bool(_graph.is_pointwise(target) or is_reducing)


def is_choosing(node: torch.fx.Node) -> bool:
    """Whether it returns indices of elements, so that no two elements may be equal."""
    results = tensors(node.meta.get("val"))
    if _graph.is_pointwise(node.target) or all(one.is_floating_point() for one in results):
        return False
    return operator_name(node.target).partition(".")[0] in _CHOOSING


def can_be_tried(node: torch.fx.Node) -> bool:
    if not _is_of_a_kind(node.target) or _graph.is_random(node):
        return False
    inputs = [one for node in node.all_input_nodes for one in tensors(node.meta.get("val"))]
    results = tensors(node.meta.get("val"))
    if not results or not inputs or len(inputs) < len(node.all_input_nodes):
        return False
    if not all(_is_known(one.dtype) for one in (*inputs, *results)):
        return False
    if min(math.prod(shape(one)) for one in inputs) == 0:
        return False
    if is_choosing(node):
        # float16 has too few values for all to be distinct; unsorted results have any order.
        return (
            all(one.dtype in (torch.float32, torch.float64) for one in inputs)
            and _graph.arguments(node).get("sorted") is not False
        )
    # A conversion to an integer type that cannot represent the number is undefined.
    loses = any(one.dtype.is_floating_point for one in inputs) and any(
        not one.dtype.is_floating_point and one.dtype != torch.bool for one in results
    )
    return not loses


def _is_known(dtype: torch.dtype) -> bool:
    is_float = dtype.is_floating_point and dtype.itemsize > 1
    return is_float or dtype in _OTHERS


def is_large(node: torch.fx.Node) -> bool:
    """Whether it has too many elements to be tried with its own sizes."""
    values = [one for node in node.all_input_nodes for one in tensors(node.meta["val"])]
    return max(math.prod(shape(one)) for one in values) > MOST_ELEMENTS
