"""Products of groups of rows with one matrix for each group, as in mixtures of experts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from opgraft.torch._rungs._functions import Call, Value, function

#: Groups are written one by one. A model with more of them would need a loop.
_MOST_GROUPS = 256


def _is_rows_in_groups(call: Call) -> bool:
    """Whether rows are in consecutive groups, with a matrix for each; no columns or batches."""
    rows, matrices = call.example(0), call.example(1)
    count = matrices.shape[0]
    is_plain = call.argument("offs") is not None
    if "out_dtype" in call.arguments:
        is_plain &= call.argument("bias") is None and call.argument("out_dtype") is None
    is_counted = isinstance(count, int) and 0 < count <= _MOST_GROUPS
    return is_plain and is_counted and rows.dim() == 2 and matrices.dim() == 3


# transformers uses its own operator for types that torch's does not take. The body of that is a
# loop whose bounds depend on data, which cannot be traced.
@function("aten::_grouped_mm", "transformers::grouped_mm_fallback", when=_is_rows_in_groups)
def grouped_mm(call: Call, rows: Value, matrices: Value, offs: Value, *others: Any) -> Value:
    """Multiplies the rows up to offs[0] by the first matrix, those up to offs[1] by the second, and
    so on. The results for rows after the last offset are zeros."""
    op = call.op
    rows, matrices = call.working(rows), call.working(matrices)
    ends = call.cast(offs, torch.int64)
    begin = call.constant([0], np.int64)
    parts = []
    for place in range(call.example(1).shape[0]):
        end = op.Slice(ends, *(call.constant([one], np.int64) for one in (place, place + 1, 0)))
        of_group = op.Slice(rows, begin, end, call.constant([0], np.int64))
        matrix = op.Gather(matrices, call.constant(place, np.int64))
        parts.append(op.MatMul(of_group, matrix))
        begin = end
    left = op.Sub(op.Shape(rows, end=1), begin)
    shape = op.Concat(left, op.Shape(matrices, start=-1), axis=0)
    parts.append(op.Expand(call.working_constant(0.0), shape))
    return call.as_result(op.Concat(*parts, axis=0))
