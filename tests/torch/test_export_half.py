"""Half types are held to a few of their own roundings, and to what rounding does to a result."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from onnxscript import opset18 as op  # noqa: E402
from torch.nn import functional  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch._verify import _rounding  # noqa: E402

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(4, 64, generator=GENERATOR)
#: By how much a result must not be off: about five steps of the type.
WRONG = {torch.float16: 0.005, torch.bfloat16: 0.04}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def off_by(share: float) -> Any:
    def relu(x: Any) -> Any:
        wide = op.Mul(op.Relu(op.Cast(x, to=1)), op.Constant(value_float=1 + share))
        return op.CastLike(wide, x)

    return {torch.ops.aten.relu.default: relu}


@pytest.mark.parametrize("dtype", WRONG, ids=str)
def test_what_is_a_few_steps_off_is_wrong(dtype: Any) -> None:
    x, wrong = X.to(dtype), WRONG[dtype]
    with pytest.raises(opgraft.Error, match="aten::relu .*its result is wrong"):
        opgraft.torch.export(torch.relu, (x,), custom_translation_table=off_by(wrong))
    program = opgraft.torch.export(torch.relu, (x,), custom_translation_table=off_by(wrong / 10))
    assert program.report.verified


@pytest.mark.parametrize("dtype", WRONG, ids=str)
def test_a_part_of_a_sum_is_missing(dtype: Any) -> None:
    """One that makes a twentieth of the result."""
    x = torch.ones(2, 20, dtype=dtype)

    def total(x: Any, axes: Any, keepdim: bool = False, dtype: Any = None) -> Any:
        end = op.Constant(value_ints=[19])
        first, axis = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
        return op.ReduceSum(op.Slice(x, first, end, axis), axis, keepdims=0)

    table = {torch.ops.aten.sum.dim_IntList: total}
    with pytest.raises(opgraft.Error, match="aten::sum.dim_IntList .*its result is wrong"):
        opgraft.torch.export(lambda x: x.sum(1), (x,), custom_translation_table=table)


@pytest.mark.parametrize("dtype", WRONG, ids=str)
def test_a_result_that_is_converted_at_the_end(dtype: Any) -> None:
    """torch computes it in float32, and its exporter forgets to convert it back."""
    for model in (torch.abs, lambda x: x.sum(1), lambda x: (x.sum(), x.abs())):
        wanted = model(X.to(dtype))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        program = opgraft.torch.export(model, (X.to(dtype),))
        for one, given in zip(wanted, program(X.to(dtype)), strict=True):
            torch.testing.assert_close(given, one)


MODELS = {
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: functional.softmax(x, 1),
    "layer_norm": lambda x: functional.layer_norm(x, (64,)),
    "matmul": lambda x: x @ x.T,
    "gelu": functional.gelu,
    "variance": lambda x: x.var(1),
    "attention": lambda x: functional.scaled_dot_product_attention(*(x.reshape(1, 2, 4, 32),) * 3),
    "ill-conditioned": lambda x: torch.sin(100 * x) / (x + 1.5),
}


@pytest.mark.parametrize("dtype", WRONG, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_right_stays_standard(name: str, dtype: Any, recwarn: Any) -> None:
    program = opgraft.torch.export(MODELS[name], (X.to(dtype),))
    if dtype is torch.float16:  # ONNX Runtime has little for bfloat16
        assert {row.kind for row in program.report.rows} == {"standard"}, program.report
    assert not any("differs from the model" in str(one.message) for one in recwarn)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_types_of_8_bits_may_be_one_step_off(dtype: Any) -> None:
    wanted = torch.tensor([1.0, 0.5, -3.0, 0.0]).to(dtype)
    one, three = ((wanted.view(torch.uint8) + n).view(dtype) for n in (1, 3))
    assert _rounding.difference([wanted], [one]) == ""
    assert "4 of 4 elements differ" in _rounding.difference([wanted], [three], roundings=100)


def test_small_numbers_of_half_types() -> None:
    """They are as far apart as others, of their size."""
    small = torch.tensor([1e-3, 2e-3, -1.5e-3], dtype=torch.float16)
    assert "3 of 3" in _rounding.difference([small], [small * 1.05])
    assert _rounding.difference([small], [small * 1.001]) == ""
