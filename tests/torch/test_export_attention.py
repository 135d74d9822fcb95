"""scaled_dot_product_attention: whole, and as torch has it where a mask hides a whole row."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
HIDDEN_ROW, NAN_ROW = 2, 3


def tensors(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Queries, keys and values of four heads; more keys than queries."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def bool_mask() -> torch.Tensor:
    mask = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[:, :, HIDDEN_ROW] = False
    return mask


def float_mask(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    mask = torch.where(bool_mask(), 0.5, -torch.inf).to(dtype)
    mask[0, 0, NAN_ROW] = -torch.inf
    mask[0, 0, NAN_ROW, 1] = torch.nan
    return mask


def run_plainly(program: Any, args: Any) -> list[torch.Tensor]:
    """In a session without Opgraft."""
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feed = {one.name: arg.numpy() for one, arg in zip(session.get_inputs(), args, strict=True)}
    return [torch.from_numpy(one) for one in session.run(None, feed)]


def with_few_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> list[Any]:
    return [query, key[:, :2].contiguous(), value[:, :2].contiguous()]


def ours(q: Any, k: Any, v: Any, mask: Any, bias: Any) -> dict[str, Any]:
    """What is a function of ours below opset 23."""
    few = with_few_heads(q, k, v)
    return {
        "bool mask": attention(q, k, v, mask),
        "float mask": attention(q, k, v, bias),
        "mask of two axes": attention(q, k, v, mask[0, 0]),
        "scale, few heads, mask": attention(*few, mask, scale=0.3, enable_gqa=True),
        "three axes": attention(q[0], k[0], v[0]),
        "causal, three axes": attention(q[0], k[0], v[0], is_causal=True),
        "negative": attention(q, k, v, scale=-2.0),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention(dtype: torch.dtype) -> None:
    args = [*tensors(dtype), bool_mask(), float_mask(dtype)]
    program = opgraft.torch.export(ours, tuple(args))
    rows = [row for row in program.report.rows if "attention" in row.operator]
    assert {row.kind for row in rows} == {"function"} and program.report.verified, program.report
    results = run_plainly(program, args)
    for got, (case, wanted) in zip(results, ours(*args).items(), strict=True):
        torch.testing.assert_close(got, wanted, equal_nan=True)
        if "mask" in case:
            assert not wanted[..., HIDDEN_ROW, :].any()


def test_what_torchs_own_translation_has_right_is_left_to_it() -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v), attention(q, k, v, is_causal=True)

    program = opgraft.torch.export(model, tuple(tensors()))
    rows = [row for row in program.report.rows if "attention" in row.operator]
    assert {row.kind for row in rows} == {"standard"} and program.report.verified


def test_a_row_that_is_hidden_only_later() -> None:
    """The example has none; what it is exported to gives zeros for one all the same."""
    args = [*tensors(), torch.ones(2, 1, 5, 7, dtype=torch.bool)]
    program = opgraft.torch.export(attention, tuple(args))
    args[3] = bool_mask()
    torch.testing.assert_close(run_plainly(program, args)[0], attention(*args))


def test_from_opset_23_it_is_onnxs_own_operator() -> None:
    args = [*tensors(), bool_mask()]
    program = opgraft.torch.export(attention, tuple(args), opset_version=23)
    assert "Attention" in {node.op_type for node in program.model.graph}
    assert program.report.verified
    torch.testing.assert_close(run_plainly(program, args)[0], attention(*args))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype: torch.dtype) -> None:
    args = [*tensors(dtype), float_mask(dtype)]
    program = opgraft.torch.export(attention, tuple(args))
    assert program.report.is_portable and program.report.verified, program.report
    got, wanted = program(*args)[0], attention(*args)
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2, equal_nan=True)


def test_open_sizes() -> None:
    def model(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return attention(q, k, v, mask, enable_gqa=True)

    args = [*with_few_heads(*tensors()), bool_mask()]
    sizes = (
        {0: "batch", 2: "queries"},
        {0: "batch", 2: "keys"},
        {0: "batch", 2: "keys"},
        {0: "batch", 2: "queries", 3: "keys"},
    )
    program = opgraft.torch.export(model, tuple(args), dynamic_shapes=sizes)
    assert program.report.is_portable and program.report.verified, program.report
    others = [torch.randn(3, 4, 9, 8), torch.randn(3, 2, 4, 8), torch.randn(3, 2, 4, 6)]
    mask = torch.rand(3, 1, 9, 4) > 0.5
    mask[1, 0, HIDDEN_ROW] = False
    others.append(mask)
    torch.testing.assert_close(run_plainly(program, others)[0], model(*others))


class Biased(torch.nn.Module):
    """Attention with a bias that is learned, as in T5 and BEiT."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(4, 31, generator=torch.Generator()))
        self.to_query = torch.nn.Linear(32, 32)
        places = torch.arange(16)
        self.register_buffer("distances", places[:, None] - places + 15)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.to_query(x).view(1, 16, 4, 8).transpose(1, 2)
        bias = self.table[:, self.distances].unsqueeze(0).contiguous()
        found = attention(query, query, query, attn_mask=bias)
        return found.transpose(1, 2).reshape(1, 16, 32)


def test_a_bias_that_is_learned() -> None:
    """It was "Cannot view a tensor with shape [1, 16, 4, 8] and strides (512, 8, 128, 1)"."""
    model, x = Biased().eval(), torch.randn(1, 16, 32)
    program = opgraft.torch.export(model, (x,))
    assert program.report.is_portable and program.report.verified, program.report
    torch.testing.assert_close(
        run_plainly(program, [x])[0], model(x).detach(), rtol=1e-4, atol=1e-5
    )
