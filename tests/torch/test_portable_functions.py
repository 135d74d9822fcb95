"""Functions of standard ONNX against a multi-precision reference, and where numbers end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
pytest.importorskip("mpmath", reason="mpmath is not installed: pip install mpmath")

import opgraft.torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import portable_functions as bench  # noqa: E402

NAN, INFINITY = float("nan"), float("inf")
#: Beside the sizes at which torch's float32 kernels overflow before the exact value does.
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, 8.0, -12.0, NAN, INFINITY, -INFINITY, 1e10, 1e-30, -1e-30]
DTYPES = [torch.float32, torch.float64]
#: How many times as far off as torch a double may be; further down at least one unit.
TIMES = 4.0


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def exported(request: pytest.FixtureRequest) -> tuple[Any, Callable[..., list[Any]], Any]:
    taken = bench.taken(request.param)
    functions = [one.operator for one in taken.values()]
    return request.param, bench.portable(functions, request.param), taken


def assert_as_exact_as_torch(exported: Any, count: int, slack: float = 1.0) -> None:
    """`slack` is for samples that may miss where torch is least exact."""
    dtype, run, taken = exported
    inputs = [bench.numbers(one, count, dtype) for one in taken.values()]
    wrong = []
    for (name, one), x, got in zip(taken.items(), inputs, run(inputs), strict=True):
        assert got.dtype == dtype
        ours, torchs = bench.errors(one, x, [got, one.operator(x)])
        for place in range(len(one.intervals)):
            part = slice(place * count, (place + 1) * count)
            most = slack * max(torchs[part].max() + 1, TIMES * torchs[part].max())
            if not ours[part].max() <= most:
                at = x[part][int(np.argmax(ours[part]))].item()
                wrong.append(f"{name} at {at}: {ours[part].max():.3g} units, torch {most:.3g}")
    assert not wrong, "\n".join(wrong)


def test_a_sample_is_as_exact_as_torch(exported: Any) -> None:
    assert_as_exact_as_torch(exported, 25, slack=1.5)


@pytest.mark.exhaustive
def test_all_are_as_exact_as_torch(exported: Any) -> None:
    assert_as_exact_as_torch(exported, 1000)


def test_what_is_no_number(exported: Any) -> None:
    """NaN, infinities and signs are those of torch; poles too."""
    dtype, run, taken = exported
    x = torch.tensor(ENDS, dtype=dtype)
    wrong = []
    for (name, one), got in zip(taken.items(), run([x] * len(taken)), strict=True):
        wanted = one.operator(x)
        same = (got.isnan() == wanted.isnan()) & (got.isinf() == wanted.isinf())
        same &= (got.sign() == wanted.sign()) | got.isnan() | ((got == 0) & (wanted == 0))
        # Of i1, torch's vectorised kernel and its other one differ in the sign of a zero.
        if "i1" not in name:
            same &= (got.signbit() == wanted.signbit()) | (x != 0) | got.isnan()
        # Waves of large numbers depend on how torch rounds them.
        same |= (x.abs() == 1e10) & got.isfinite() & wanted.isfinite()
        wrong += [f"{name} at {x[i]}: {got[i]}, not {wanted[i]}" for i in torch.where(~same)[0]]
    assert not wrong, "\n".join(wrong)


def test_doubles_are_left_to_others_where_roundings_show() -> None:
    left = set(bench.FUNCTIONS) - set(bench.taken(torch.float64))
    assert "special.erfcx" not in left and {"i0", "erfinv", "polygamma(1)"} <= left
    for name in ("i0", "polygamma(1)"):
        x = torch.rand(3, dtype=torch.float64)
        program = opgraft.torch.export(bench.FUNCTIONS[name].operator, (x,), progress=False)
        assert [row.kind for row in program.report.rows] == ["aten"]
        torch.testing.assert_close(program(x)[0], bench.FUNCTIONS[name].operator(x))


def test_nothing_at_all(exported: Any) -> None:
    dtype, run, taken = exported
    x = torch.zeros(0, dtype=dtype)
    for got in run([x] * len(taken)):
        assert got.shape == (0,) and got.dtype == dtype
