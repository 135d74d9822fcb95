"""Operators that torch translates rightly for the example alone: other data, other sizes, rows of
nothing and small results come out right too."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402


def exported(function: Any, *args: Any, **more: Any) -> Any:
    """As standard ONNX alone."""
    program = opgraft.torch.export(function, args, progress=False, **more)
    assert {row.kind for row in program.report.rows} <= {"standard", "function"}, program.report
    return program


def check(program: Any, function: Any, *args: Any) -> None:
    wanted = function(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, one in zip(program(*args), wanted, strict=True):
        torch.testing.assert_close(got, one, equal_nan=True, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("wanted", "size"), [((5, 7), (8, 9)), ((None, 1), (7, 7)), ((2, 2), (14, 14))]
)
def test_adaptive_pools_of_open_sizes(wanted: Any, size: Any) -> None:
    pool = torch.nn.AdaptiveAvgPool2d(wanted)
    sizes = ({2: "h", 3: "w"},)
    program = exported(pool, torch.rand(1, 2, *size), dynamic_shapes=sizes)
    for other in ((7, 7), (10, 11), (14, 14), (9, 20), (21, 5), (3, 3)):
        check(program, pool, torch.rand(1, 2, *other))


def test_interpolation_by_area_and_pools_of_other_ranks() -> None:
    def model(x):
        image = torch.nn.functional.interpolate(x, scale_factor=0.5, mode="area")
        return image, torch.nn.functional.adaptive_avg_pool1d(x[0], 3)

    program = exported(model, torch.rand(1, 2, 8, 9), dynamic_shapes=({2: "h", 3: "w"},))
    for other in ((7, 7), (10, 11), (4, 21)):
        check(program, model, torch.rand(1, 2, *other))


def test_adaptive_pools_of_fixed_sizes_stay_as_they_are() -> None:
    program = exported(torch.nn.AdaptiveAvgPool2d((2, 2)), torch.rand(1, 2, 8, 8))
    assert {row.kind for row in program.report.rows} == {"standard"}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scattered_means(include_self: bool, dtype: torch.dtype) -> None:
    def model(x, index, source):
        return x.scatter_reduce(0, index, source, "mean", include_self=include_self)

    x, source = torch.tensor([1, 2, 3, 4], dtype=dtype), torch.tensor([-1, 4, 5], dtype=dtype)
    program = exported(model, x, torch.tensor([0, 1, 2]), source)
    for index in ([3, 3, 0], [1, 1, 1], [0, 1, 2]):
        check(program, model, x, torch.tensor(index), source)


def test_a_sample_without_replacement_has_nothing_twice() -> None:
    weights = torch.tensor([0.0, 1, 2, 5]).repeat(400, 1)
    program = exported(lambda p: torch.multinomial(p, 3), weights)
    drawn = program(weights)[0]
    assert torch.equal(drawn.sort(1).values, torch.tensor([1, 2, 3]).repeat(400, 1))
    one = exported(lambda p: torch.multinomial(p, 1), weights[0])(weights[0])[0]
    assert one.shape == (1,)
    # The first is drawn by its weight: 5 of 8, and 400 draws are within 0.1 of that.
    assert abs((drawn[:, 0] == 3).float().mean() - 5 / 8) < 0.1


def test_means_of_nothing() -> None:
    def selected(x):
        chosen = x[x > 1]
        loss = torch.nn.functional.mse_loss(chosen, chosen + 1)
        return chosen.mean(), chosen.var(), chosen.std(), loss

    x = torch.tensor([1.0, 2, 3])
    program = exported(selected, x)
    for given in (x, -x, torch.tensor([0.0, 7, 1])):
        check(program, selected, given)

    def rows(x):
        return x.mean(0), x.var(0), x.mean(), x.mean((0, 1), keepdim=True), x.var(1)

    program = exported(rows, torch.rand(4, 2), dynamic_shapes=({0: "n"},))
    for count in (0, 1, 2, 5):
        check(program, rows, torch.rand(count, 2))


@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
def test_reductions_of_nothing_along_the_last_axis(dynamo: bool) -> None:
    def reduced(x):
        most = x.amax(-1), x.argmax(-1), x.max(-1)[0]
        return x.sum(-1), x.mean(-1), x.sum((0, -1)), (x > 0).all(-1), x.norm(dim=-1), *most

    program = exported(reduced, torch.rand(4, 2), dynamic_shapes=({0: "n"},), dynamo=dynamo)
    for count in (0, 1, 2, 5):
        check(program, reduced, torch.rand(count, 2))


def test_a_number_has_a_last_axis() -> None:
    program = exported(lambda x: x.sum(-1) + x, torch.tensor(2.0))
    check(program, lambda x: x * 2, torch.tensor(3.0))


@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
def test_nothing_is_not_any(dynamo: bool) -> None:
    def selected(x):
        chosen = x[x > 0]
        return (chosen > 1).any(), (chosen > 1).all(), chosen.any(), chosen.isnan().any()

    x = torch.tensor([1.0, 2, -3])
    program = exported(selected, x, dynamo=dynamo)
    for given in (x, -x, -x.abs()):
        check(program, selected, given)

    def rows(x):
        mask = x > 0.5
        return mask.any(), mask.any(0), mask.any(1), mask.any(0, keepdim=True), mask.any((0, 1))

    program = exported(rows, torch.rand(4, 2), dynamic_shapes=({0: "n"},), dynamo=dynamo)
    for count in (0, 1, 2, 5):
        check(program, rows, torch.rand(count, 2))


def test_means_of_fixed_sizes_are_one_node() -> None:
    program = exported(lambda x: x.mean(1), torch.rand(4, 2), dynamic_shapes=({0: "n"},))
    assert [node.op_type for node in program.model_proto.graph.node] == ["ReduceMean"]


@pytest.mark.parametrize(
    "function",
    [
        torch.sigmoid,
        lambda x: torch.log(torch.sigmoid(x)),
        torch.erfc,
        lambda x: torch.log(torch.erfc(x)),
        torch.special.ndtr,
    ],
    ids=["sigmoid", "log sigmoid", "erfc", "log erfc", "ndtr"],
)
def test_small_results_keep_their_digits(function: Any) -> None:
    program = exported(function, torch.rand(9))
    check(program, function, torch.tensor([-20.0, -30, 3.5, 5, 7, 0, -0.5, -math.inf, math.nan]))


def test_log_ndtr_keeps_its_digits() -> None:
    program = opgraft.torch.export(torch.special.log_ndtr, (torch.rand(3),), progress=False)
    check(program, torch.special.log_ndtr, torch.tensor([7.0, 3.5, -20]))


def test_erfc_of_doubles() -> None:
    x = torch.linspace(-6, 26, 2000, dtype=torch.float64)
    torch.testing.assert_close(exported(torch.erfc, x)(x)[0], torch.erfc(x), rtol=1e-12, atol=0)


def test_a_gate_stays_one_node() -> None:
    program = exported(lambda x, y: y * torch.sigmoid(x), torch.rand(3), torch.rand(3))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Sigmoid", "Mul"]


def test_unique_with_nan() -> None:
    def model(x):
        return torch.unique(x, return_inverse=True, return_counts=True)

    program = exported(model, torch.rand(2, 3))
    for given in ([[1.0, math.nan, 2], [0, math.nan, 1]], [[1.0, 1, 2], [2, 2, 1]]):
        check(program, model, torch.tensor(given))
    check(program, model, torch.full((2, 3), math.nan))
    flat = exported(torch.unique, torch.rand(6))
    check(flat, torch.unique, torch.tensor([1.0, math.nan, 2, 0, 3, 1]))


def test_linspace_of_one_step_in_a_trace() -> None:
    def model(x):
        return x * torch.linspace(-1, 3, x.shape[0])

    program = exported(model, torch.ones(6), dynamic_shapes=({0: "n"},), dynamo=False)
    for count in (1, 2, 5, 8):
        check(program, model, torch.ones(count))


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_renorm_in_a_trace(p: float) -> None:
    def model(x):
        return torch.renorm(x, p, 1, 1.5)

    x = torch.tensor([[3.0, -4, 0], [1, 0.5, 0]])
    check(exported(model, x, dynamo=False), model, x / 2)


def test_trapezoid_of_bfloat16() -> None:
    x = torch.tensor([[1.0, 2, 4], [0, -3, 8]], dtype=torch.bfloat16)
    program = exported(lambda x: torch.trapezoid(x, dx=0.5), x)
    assert torch.equal(program(x)[0], torch.trapezoid(x, dx=0.5))


def test_a_row_that_is_padding_alone_is_told() -> None:
    """In eval mode torch's fast path gives NaN there, and the way that is captured does not."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    x, mask = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    kwargs = {"src_key_padding_mask": mask}
    program = opgraft.torch.export(encoder, (x,), kwargs=kwargs, progress=False)
    (told,) = program.report.not_numbers
    assert "hides a whole row" in told
    plain = opgraft.torch.export(encoder, (x,), progress=False)
    assert not plain.report.not_numbers
