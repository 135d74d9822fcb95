"""Torch operators as functions of standard ONNX: in plain ONNX Runtime, against torch."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch._rungs import _functions  # noqa: E402

INFINITY, NAN = float("inf"), float("nan")
# How far off a result may be, relative to itself: some roundings.
ROUNDINGS = {torch.float64: 2e-15, torch.float32: 3e-7, torch.float16: 1e-3}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def run(function: Any, *args: torch.Tensor, **more: Any) -> torch.Tensor:
    """By nodes of standard ONNX alone, in a session without Opgraft."""
    program = opgraft.torch.export(function, args, verify=False, **more)
    assert {row.kind for row in program.report.rows} <= {"function", "standard"}, program.report
    assert "function" in {row.kind for row in program.report.rows}
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [one.name for one in session.get_inputs()]
    feed = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
    return torch.from_numpy(session.run(None, feed)[0])


def assert_near(got: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(got, wanted, rtol=ROUNDINGS[dtype], atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lgamma(dtype: torch.dtype) -> None:
    """From the smallest numbers to those where it overflows; near its zeros 1 and 2 as well."""
    positive = torch.cat(
        [
            torch.logspace(-320, 308, 1500, dtype=torch.float64),
            torch.linspace(1e-3, 20, 3000, dtype=torch.float64),
            *(
                zero + sign * torch.logspace(-15, -1, 99, dtype=torch.float64)
                for zero in (1, 2)
                for sign in (1, -1)
            ),
            torch.tensor([0.5, 1.5, 2.5, 8.0, 2.55e305, 2.56e305, 4e36, 5e36]).double(),
            torch.linspace(-0.4999, -1e-300, 200, dtype=torch.float64),
        ]
    ).to(dtype)
    assert_near(run(torch.lgamma, positive), torch.lgamma(positive), dtype)
    # Below -0.5 it has a zero between any two poles: there the terms that cancel out count.
    negative = torch.linspace(-60.01, -0.5, 3000, dtype=dtype)
    got, wanted = run(torch.lgamma, negative), torch.lgamma(negative)
    assert ((got - wanted).abs() <= ROUNDINGS[dtype] * torch.lgamma(-negative).abs().clamp(1)).all()
    special = torch.tensor([0.0, -0.0, -1, -2, -1e20, INFINITY, -INFINITY, NAN, 1, 2], dtype=dtype)
    assert_near(run(torch.lgamma, special), torch.lgamma(special), dtype)


def test_lgamma_of_integers_and_halves() -> None:
    integers = torch.arange(-3, 40)
    assert_near(run(torch.lgamma, integers), torch.lgamma(integers), torch.float32)
    halves = torch.linspace(0.1, 20, 50).half()
    assert_near(run(torch.lgamma, halves), torch.lgamma(halves), torch.float16)
    assert_near(run(torch.special.gammaln, integers), torch.lgamma(integers), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hypot(dtype: torch.dtype) -> None:
    """Where a square overflows or vanishes, and with infinities, which beat what is no number."""
    largest, smallest = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    numbers = [0.0, -0.0, 1, -3, 4, 1e-20, 1e20, largest, -largest / 2, smallest, smallest / 64]
    sides = torch.tensor([*numbers, INFINITY, -INFINITY, NAN], dtype=dtype)
    x, y = torch.meshgrid(sides, sides, indexing="ij")
    assert_near(run(torch.hypot, x, y), torch.hypot(x, y), dtype)
    random = torch.randn(200, dtype=dtype) * 10 ** torch.linspace(-30, 30, 200).to(dtype)
    got = run(torch.hypot, random, random.flip(0)[:, None])  # broadcast
    assert_near(got, torch.hypot(random, random.flip(0)[:, None]), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_cumprod(dtype: torch.dtype) -> None:
    """To the last bit: the order is that of torch."""
    x = torch.randn(3, 40, 4, generator=torch.Generator().manual_seed(0))
    x = (x * 2).to(dtype)
    if dtype.is_floating_point:
        x[0, 3, 1], x[1, 2, 2], x[2, 9, 0], x[2, 5, 3] = 0, INFINITY, NAN, -INFINITY
    for axis in (0, 1, -1):
        got = run(lambda x, axis=axis: torch.cumprod(x, axis), x)
        wanted = torch.cumprod(x, axis)
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


def test_cumprod_of_odd_shapes() -> None:
    for x in (torch.tensor(3.0), torch.zeros(0, 2), torch.ones(2, 0), torch.rand(1)):
        torch.testing.assert_close(run(lambda x: torch.cumprod(x, 0), x), torch.cumprod(x, 0))
    x = torch.rand(5) * 3
    got = run(lambda x: torch.cumprod(x, 0, dtype=torch.int32), x)
    torch.testing.assert_close(got, torch.cumprod(x, 0, dtype=torch.int32))
    x = torch.rand(40, dtype=torch.float64) * 3  # of which each element is rounded first
    got = run(lambda x: torch.cumprod(x, 0, dtype=torch.float32), x)
    torch.testing.assert_close(got, torch.cumprod(x, 0, dtype=torch.float32), rtol=0, atol=0)
    program = opgraft.torch.export(
        lambda x: torch.cumprod(x, 0), (torch.rand(4, 2),), dynamic_shapes=({0: "n"},)
    )
    for rows in (0, 1, 9):
        x = torch.rand(rows, 2)
        torch.testing.assert_close(program(x)[0], torch.cumprod(x, 0))


def test_random_functions() -> None:
    x = -torch.ones(20_000)
    got = run(lambda x: x.clone().uniform_(2, 5), x)
    assert 2 <= got.min() < 2.1 and 4.9 < got.max() <= 5 and abs(got.mean() - 3.5) < 0.1
    got = run(lambda x: torch.nn.functional.rrelu(x, 0.25, 0.75, True), x)
    assert -0.75 <= got.min() < -0.7 and -0.3 < got.max() <= -0.25
    x = torch.linspace(-1, 1, 9)
    torch.testing.assert_close(
        run(lambda x: torch.nn.functional.rrelu(x, 0.25, 0.75), x), torch.where(x < 0, x / 2, x)
    )


def test_complex_numbers_are_left_to_others() -> None:
    z = torch.complex(torch.rand(4), torch.rand(4))
    program = opgraft.torch.export(lambda z: torch.cumprod(z, 0).abs(), (z,))
    assert {row.operator: row.kind for row in program.report.rows}["aten::cumprod"] == "aten"


def test_a_function_may_say_when_it_is_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one is added by a decorator alone."""
    monkeypatch.setattr(_functions, "_functions", dict(_functions._known()))
    monkeypatch.setattr(_functions, "_known", lambda: _functions._functions)

    @_functions.function("aten::geqrf", when=lambda call: call.example(0).shape[0] == 1)
    def factors(call: Any, x: Any) -> Any:
        return [call.op.Identity(x), call.op.Sub(x, x)]

    for size, kind in ((1, "function"), (3, "aten")):
        x = torch.rand(size, 1)
        program = opgraft.torch.export(lambda x: torch.geqrf(x)[0].abs(), (x,), verify=False)
        assert {row.operator: row.kind for row in program.report.rows}["aten::geqrf"] == kind
        torch.testing.assert_close(program(x)[0], torch.geqrf(x)[0].abs())
