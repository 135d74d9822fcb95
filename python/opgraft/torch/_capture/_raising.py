"""Operators that raise for some data: a model that catches the exception decides by data."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._capture import _lines
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._lines import Line, line_at
from opgraft.torch._graphs._graph import operator_name

#: By operator, the data that it accepts.
_TAKEN = {
    **dict.fromkeys(
        ("inverse", "linalg_inv", "linalg_inv_ex", "linalg_solve", "linalg_solve_ex"),
        "the matrix is not singular",
    ),
    **dict.fromkeys(
        ("linalg_tensorinv", "linalg_tensorsolve", "linalg_lu_solve"),
        "the matrix is not singular",
    ),
    **dict.fromkeys(
        ("cholesky", "linalg_cholesky", "linalg_cholesky_ex", "cholesky_inverse"),
        "the matrix is positive definite",
    ),
    **dict.fromkeys(
        """linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_svd linalg_svdvals svd
        linalg_lstsq""".split(),
        "the algorithm converges",
    ),
    **dict.fromkeys(
        """embedding embedding_bag gather index index_add index_copy index_fill index_put
        index_select nll_loss one_hot put scatter scatter_add scatter_reduce select_scatter
        take take_along_dim""".split(),
        "all indices are in range",
    ),
    **dict.fromkeys(
        ("bernoulli", "binomial", "multinomial", "normal", "binary_cross_entropy"),
        "the numbers are valid",
    ),
}
#: Operators that return a result in ONNX where torch raises.
_SILENT = frozenset(("inverse", "linalg_inv"))
#: The exceptions that operators raise.
_RAISED = frozenset(("IndexError", "LinAlgError", "_LinAlgError", "RuntimeError"))
_INSTEAD = (
    "check the data first, with operators (for example, torch.linalg.inv_ex returns `info`), and "
    "choose with torch.where or torch.cond"
)


def may_raise(operator: str) -> bool:
    return _name(operator) in _TAKEN


def _name(operator: str) -> str:
    return operator.removeprefix("aten::").partition(".")[0].removesuffix("_")


def guard(operator: str, line: Line, callers: Sequence[Line]) -> Guard | None:
    """What the call of an operator such as "aten::linalg_inv" in a line assumes about the data, if
    ONNX does not raise or the model catches the exception; otherwise None."""
    name = _name(operator)
    if name not in _TAKEN:
        return None
    condition = f"{_TAKEN[name]}, so that {name} does not raise"
    for one in (line, *callers):
        catching = _lines.caught_at(one, raised=_RAISED)
        if catching is not None:
            advice = (
                f"the exception of {name} may be caught in line {catching.number} "
                f"(`{catching.code}`), and the model goes on: {_INSTEAD}"
            )
            return Guard(line, condition, advice)
    return Guard(line, _TAKEN[name], is_asserted=True) if name in _SILENT else None


@contextmanager
def noted() -> Iterator[list[Guard]]:
    """Collects the guards of such operators while this thread adds them to a graph: torch does not
    always record the line that calls them."""
    found: list[Guard] = []
    graph: Any = torch.fx.Graph
    before, owner = graph.create_node, threading.get_ident()
    outside = _private.callers_of(sys._getframe())

    def create_node(self: Any, op: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        is_called = op == "call_function" and threading.get_ident() == owner
        if is_called and may_raise(name := operator_name(target)):
            frames = _private.lines_below(sys._getframe(1), outside)
            lines = [line_at(*frame) for frame in frames]
            one = guard(name, lines[-1], lines) if lines else None
            if one is not None:
                found.append(one)
        return before(self, op, target, *args, **kwargs)

    graph.create_node = create_node
    try:
        yield found
    finally:
        graph.create_node = before
