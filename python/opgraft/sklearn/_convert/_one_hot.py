"""Converts OneHotEncoder of real numbers to standard operators; skl2onnx truncates the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from opgraft.sklearn._convert._emit import Nodes


def has_infrequent(step: Any) -> bool:
    """Whether some categories share a column because they are infrequent."""
    if not getattr(step, "_infrequent_enabled", False):
        return False
    return any(one is not None for one in step.infrequent_categories_)


def takes(step: Any) -> bool:
    is_plain = all(one.dtype.kind in "fiu" for one in step.categories_)
    return is_plain and not has_infrequent(step)


def width(step: Any) -> int:
    return int(sum(step._n_features_outs))


def convert(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    """Compares in float64, as NumPy does. It holds every float32 exactly."""
    given = nodes.cast(given, TensorProto.DOUBLE)
    parts = []
    for place, categories in enumerate(step.categories_):
        column = nodes.node("Gather", given, nodes.whole([place]), axis=1)
        found = _find(nodes, column, categories.astype(np.float64))
        if step.handle_unknown == "error":
            found = _refuse_unknown(nodes, found, len(categories))
        drop = None if step.drop_idx_ is None else step.drop_idx_[place]
        if drop is not None:
            left = [one for one in range(len(categories)) if one != drop]
            found = nodes.node("Gather", found, nodes.whole(left), axis=1)
        parts.append(nodes.real(found))
    joined = nodes.node("Concat", *parts, axis=1)
    is_whole = np.issubdtype(step.dtype, np.signedinteger)
    nodes.cast(joined, TensorProto.INT64 if is_whole else nodes.element, outputs[0])


def _find(nodes: Nodes, column: str, categories: Any) -> str:
    """Adds a bool for each number and category: whether the number is that category."""
    element, nodes.element = nodes.element, TensorProto.DOUBLE
    found = nodes.node("Equal", column, nodes.numbers([categories]))
    nodes.element = element
    is_missing = np.isnan(categories)
    if is_missing.any():
        both = nodes.node("And", nodes.node("IsNaN", column), nodes.truths([is_missing]))
        found = nodes.node("Or", found, both)
    return found


def _refuse_unknown(nodes: Nodes, found: str, count: int) -> str:
    """Returns the same through the runtime's operator, which fails for an unknown category."""
    real = nodes.real(found)
    is_known = nodes.cast(
        nodes.node("MatMul", real, nodes.numbers(np.ones((count, 1)))), TensorProto.BOOL
    )
    first = nodes.node("ArgMax", real, axis=1, keepdims=1)
    number = nodes.node("Where", is_known, first, nodes.whole([[-1]]))
    encoded = nodes.node(
        "OneHotEncoder",
        number,
        version=1,
        op_domain="ai.onnx.ml",
        cats_int64s=list(range(count)),
        zeros=0,
    )
    return nodes.node("Reshape", encoded, nodes.whole([-1, count]))
