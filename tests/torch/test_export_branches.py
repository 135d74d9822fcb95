"""Operators in the branches of torch.cond and other bodies: they fall back, and are compared."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from torch.nn import functional  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

X = 6 * torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
IMAGE = X.reshape(1, 1, 4, 4)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def cond(taken: Any, other: Any) -> Any:
    return lambda x: torch.cond(x.sum() > 0, taken, other, (x,))


def pool(x):
    return functional.avg_pool2d(x, 2, divisor_override=3)


def clone(x):
    return x.clone()


def kinds_of(program: Any) -> dict[str, str]:
    return {row.operator: row.kind for row in program.report.rows}


def assert_right(program: Any, model: Any, *inputs: Any) -> None:
    for x in inputs:
        wanted = model(x)
        wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
        for one, two in zip(program(x), wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("taken", [True, False])
def test_a_wrong_operator_in_a_branch_falls_back(taken: bool) -> None:
    """Whether the example takes the branch or not, and nothing but that operator does."""
    branches = (torch.special.erfcx, torch.relu)
    model = cond(*branches) if taken else cond(*reversed(branches))
    program = opgraft.torch.export(model, (X,))
    kinds = kinds_of(program)
    assert kinds.pop("aten::special_erfcx") == "aten"
    assert set(kinds.values()) == {"standard"}
    (row,) = (one for one in program.report.rows if one.operator == "aten::special_erfcx")
    assert "its result is wrong" in row.because
    assert_right(program, model, X, -X)


@pytest.mark.parametrize("taken", [True, False])
def test_it_is_named_where_nothing_may_replace_it(taken: bool) -> None:
    model = cond(torch.special.erfcx, clone) if taken else cond(clone, torch.special.erfcx)
    with pytest.raises(opgraft.Error, match="aten::special_erfcx .*its result is wrong: output 0"):
        opgraft.torch.export(model, (X,), fallback="none")


def test_the_report_says_which_branch_was_not_taken() -> None:
    program = opgraft.torch.export(cond(torch.relu, torch.sin), (X,))
    (note,) = program.report.notes
    assert note.startswith("'false_graph_0' of cond (node 'cond') is not taken with the arguments")
    assert "its operators were compared one by one" in note and note in str(program.report)
    rows = {row.operator: row.became for row in program.report.rows}
    assert rows["aten::relu"] == "Relu" and rows["aten::sin"] == "Sin"


def test_a_second_size_may_take_the_other() -> None:
    def model(x):
        return torch.cond(x.sum() > 4.5, torch.relu, torch.sin, (x,))

    program = opgraft.torch.export(model, (torch.ones(5),), dynamic_shapes=({0: "n"},))
    assert program.report.verified == [
        "the given arguments",
        "other sizes (n=11)",
        "other sizes (n=1)",
    ]
    assert not program.report.notes


def test_a_branch_that_cannot_run_with_the_others_inputs() -> None:
    def model(x):
        return torch.cond(
            (x == x.T).all(), torch.linalg.cholesky, lambda x: torch.linalg.inv(x), (x,)
        )

    x = torch.arange(9.0).reshape(3, 3) + torch.diag(torch.tensor([9.0, 9.0, 9.0]))
    x[0, 0] = -5
    program = opgraft.torch.export(model, (x,))
    (note,) = program.report.notes
    assert "'true_graph_0'" in note and "was not compared" in note and "cholesky" in note


def test_branches_in_branches_and_loops() -> None:
    inner = cond(torch.special.erfcx, torch.special.airy_ai)
    nested = cond(lambda x: inner(x - 1), clone)
    program = opgraft.torch.export(nested, (X,))
    kinds = kinds_of(program)
    assert kinds["aten::special_erfcx"] == kinds["aten::special_airy_ai"] == "aten"
    assert_right(program, nested, X, X - 2.5, -X)
    (first, second) = sorted(program.report.notes)
    assert "'false_graph_0' of" in first and "'true_graph_0.false_graph_0' of" in second

    def loop(x):
        return torch.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, torch.special.erfcx(x) * 3),
            (torch.tensor(0), x),
        )

    program = opgraft.torch.export(loop, (X,))
    assert kinds_of(program)["aten::special_erfcx"] == "aten" and not program.report.notes
    assert_right(program, loop, X, -X)


def test_a_body_of_a_scan() -> None:
    scan = _private.private("torch._higher_order_ops.scan", "scan")

    def model(x):
        return scan(lambda c, x: (c + x, torch.special.erfcx(c + x)), torch.zeros(4), x)

    program = opgraft.torch.export(model, (X,))
    assert kinds_of(program)["aten::special_erfcx"] == "aten"
    assert_right(program, model, X, -X)


def test_nodes_of_the_same_name_in_other_bodies() -> None:
    """What they were before decomposition is looked up in their own graph."""

    def model(x):
        return torch.cond(x.sum() > 0, lambda x: x.sum(0), lambda x: x.sum(1), (x,))

    program = opgraft.torch.export(model, (X,))
    assert_right(program, model, X, -X)
    origins = {row.operator: row.part_of for row in program.report.rows}
    assert origins["aten::sum"] == origins["aten::sum.dim_IntList"] == ""


def test_a_wrong_node_in_one_branch_alone() -> None:
    model = cond(pool, lambda x: functional.avg_pool2d(x, 2))
    program = opgraft.torch.export(model, (IMAGE,))
    rows = [row for row in program.report.rows if row.operator == "aten::avg_pool2d"]
    assert sorted((row.kind, row.count) for row in rows) == [("aten", 1), ("standard", 1)]
    assert_right(program, model, IMAGE, -IMAGE)
