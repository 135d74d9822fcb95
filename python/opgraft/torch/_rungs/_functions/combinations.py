"""combinations: all choices of r elements of a vector."""

from __future__ import annotations

import itertools

import numpy as np

from opgraft.torch._rungs._functions import Call, Value, function


def _is_counted(call: Call) -> bool:
    return isinstance(call.example(0).shape[0], int) and call.argument("r") > 0


@function("aten::combinations", when=_is_counted)
def combinations(call: Call, x: Value, r: int = 2, with_replacement: bool = False) -> Value:
    """Gathers them by their indices, which depend only on the size."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(call.example(0).shape[0]), r))
    return call.op.Gather(x, call.constant(np.reshape(places, (-1, r)), np.int64))
