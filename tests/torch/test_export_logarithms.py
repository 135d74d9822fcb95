"""Logarithms and exponentials of numbers that no example has: in plain ONNX Runtime."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

torch.set_num_threads(1)
INFINITY, NAN = float("inf"), float("nan")
MAGNITUDES = torch.cat(
    [torch.logspace(-37, 37, 700, dtype=torch.float64), torch.rand(300).double()]
)
WIDE = torch.cat([MAGNITUDES, -MAGNITUDES, torch.linspace(-200, 200, 401).double()])
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, -2.0, INFINITY, -INFINITY, NAN], dtype=torch.float64)
X = torch.cat([WIDE, SPECIAL])
# Each of the special ones with each.
A, B = (torch.cat([WIDE, one.flatten()]) for one in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
B[: len(WIDE)] = WIDE.flip(0)

FUNCTIONS = {
    "log1p": (torch.log1p, (X,)),
    "expm1": (torch.expm1, (X,)),
    "logsigmoid": (torch.nn.functional.logsigmoid, (X,)),
    "logaddexp": (torch.logaddexp, (A, B)),
    "near": (torch.logaddexp, (A, A + 0.5)),
    "logaddexp2": (torch.logaddexp2, (A, B)),
}
ROUNDINGS = {torch.float64: 1e-15, torch.float32: 6e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", ROUNDINGS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_wide(name: str, dtype: Any) -> None:
    function, args = FUNCTIONS[name]
    args = tuple(one.to(dtype) for one in args)
    example = tuple(torch.full((len(one),), 0.7, dtype=dtype) for one in args)
    program = opgraft.torch.export(function, example)
    assert program.report.is_portable
    assert [row.kind for row in program.report.rows] == ["function"]
    got = program(*args)[0].double()
    wanted = function(*args).double()
    # Sums that cancel out have the digits of their parts; numbers too small to be normal few.
    absolute = ROUNDINGS[dtype] if "2" in name else 2 * torch.finfo(dtype).smallest_normal
    torch.testing.assert_close(got, wanted, rtol=ROUNDINGS[dtype], atol=absolute, equal_nan=True)


def test_plain_onnx_runtime_and_integers() -> None:
    program = opgraft.torch.export(torch.log1p, (torch.arange(3),))
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (got,) = session.run(None, {session.get_inputs()[0].name: torch.arange(3).numpy()})
    torch.testing.assert_close(torch.from_numpy(got), torch.log1p(torch.arange(3)))


def test_torchs_own_where_functions_are_forbidden_or_the_user_says_otherwise() -> None:
    x = torch.rand(3)
    report = opgraft.torch.export(torch.log1p, (x,), fallback="aten").report
    assert [row.kind for row in report.rows] == ["standard"]

    from onnxscript import opset18

    table = {torch.ops.aten.log1p.default: lambda x: opset18.Log(opset18.Add(x, 1.0))}
    report = opgraft.torch.export(torch.log1p, (x,), custom_translation_table=table).report
    assert [row.kind for row in report.rows] == ["user"]
