"""Polynomials, distances, transforms and others as standard ONNX, in plain ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

NAN, INFINITY = float("nan"), float("inf")
POLYNOMIALS = sorted(name for name in dir(torch.special) if "_polynomial_" in name)
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def portable(
    function: Callable[..., Any], *examples: torch.Tensor, **more: Any
) -> Callable[..., list[torch.Tensor]]:
    """Exports to nodes of standard ONNX alone, for a session without Opgraft."""
    program = opgraft.torch.export(
        function, examples, verify=False, fallback="function", progress=False, **more
    )
    assert program.report.is_portable
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [one.name for one in session.get_inputs()]

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        feed = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
        return [torch.from_numpy(one) for one in session.run(None, feed)]

    return run


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_orthogonal_polynomials(dtype: torch.dtype) -> None:
    """By the recurrence of torch, and by angles for Chebyshev's of higher orders."""
    few = [0.0, -0.0, 1, -1, 10, -10, 0.5, -3, 1e10, 1e-10, 1e30, 0.999, INFINITY, -INFINITY, 0.3]
    orders = torch.tensor([0.0, 1, 2, 3, 5, 7, 9, 20, 130, -1, 2.7], dtype=dtype)
    x, n = torch.meshgrid(torch.tensor(few, dtype=dtype), orders, indexing="ij")

    def model(x: torch.Tensor, n: torch.Tensor) -> Any:
        return [getattr(torch.special, name)(x, n) for name in POLYNOMIALS]

    assert len(POLYNOMIALS) == 12
    run = portable(model, x, n, dynamic_shapes=({0: "rows"}, {0: "rows"}))
    rounding = 1e-3 if dtype == torch.float32 else 1e-10
    # Where torch computes zeros by angles, they have the error of the angle.
    near = {"rtol": rounding, "atol": 1e-4 if dtype == torch.float32 else 1e-12}
    for got, wanted in zip(run(x, n), model(x, n), strict=True):
        torch.testing.assert_close(got, wanted, **near, equal_nan=True)
    for got in run(x[:0], n[:0]):
        assert got.shape == (0, len(orders)) and got.dtype == dtype


def test_an_order_without_end() -> None:
    """At 1 and -1 the recurrence would go on and on; elsewhere it ends with NaN, or by angles."""
    x, n = torch.tensor([1.0, -1.0, 0.5, 3.0]), torch.tensor([1e10])
    chebyshev = [getattr(torch.special, name) for name in POLYNOMIALS if "chebyshev" in name]
    assert len(chebyshev) == 8

    def model(x: torch.Tensor, n: torch.Tensor) -> Any:
        return [one(x, n) for one in chebyshev]

    for got, wanted in zip(portable(model, x, n)(x, n), model(x, n), strict=True):
        torch.testing.assert_close(got[:2], wanted[:2], equal_nan=True)
        assert torch.equal(got.isnan(), wanted.isnan())


def test_polynomials_of_numbers() -> None:
    """The order or the argument may be a number, and orders may be integers."""
    x, n = torch.tensor([0.3, -1.7, 4.0]), torch.tensor([0, 4, 11])

    def model(x: torch.Tensor, n: torch.Tensor) -> Any:
        return (
            torch.special.legendre_polynomial_p(x, 5),
            torch.special.hermite_polynomial_h(0.5, n),
            torch.special.laguerre_polynomial_l(x, n),
            torch.special.chebyshev_polynomial_t(x[:, None], n),
        )

    for got, wanted in zip(portable(model, x, n)(x, n), model(x, n), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16], ids=str)
def test_signs_and_sizes(dtype: torch.dtype) -> None:
    few = torch.tensor([0.0, -0.0, 1, -2, INFINITY, -INFINITY, NAN, 7], dtype=dtype)
    x, y = (one.flatten() for one in torch.meshgrid(few, few, indexing="ij"))

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.copysign(x, y), torch.copysign(x, -1.0), torch.fmax(x, y), torch.fmin(x, y)

    for place, (got, wanted) in enumerate(
        zip(portable(model, x, y)(x, y), model(x, y), strict=True)
    ):
        assert torch.equal(got, wanted) or torch.equal(got.isnan(), wanted.isnan())
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
        if place == 1:
            assert torch.equal(got[~x.isnan()].signbit(), wanted[~x.isnan()].signbit())
        if place == 0:
            known = ~(x.isnan() | y.isnan())
            assert torch.equal(got[known].signbit(), wanted[known].signbit())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mvlgamma(dtype: torch.dtype) -> None:
    x = torch.linspace(2.1, 30, 40, dtype=dtype)

    def model(x: torch.Tensor) -> Any:
        return torch.mvlgamma(x, 1), torch.mvlgamma(x, 3), torch.mvlgamma(x, 5)

    rounding = 1e-6 if dtype == torch.float32 else 1e-13
    for got, wanted in zip(portable(model, x)(x), model(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=rounding, atol=rounding)


def test_zeta() -> None:
    """Below 0 as well, where it is mirrored, and at its poles."""
    few = [1.0, 0.5, 2.0, 3.0, 2.5, 1.0001, 10.0, 20.0, 1.5, 4.0]
    places = [1.0, 0.0, -0.0, -1.0, -2.5, -0.3, -100.7, -3000.25, 0.5, 10.0, 1e-5, 3.7, 1e4]
    pairs = torch.cartesian_prod(torch.tensor(few), torch.tensor(places))
    s, q = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()

    def model(s: torch.Tensor, q: torch.Tensor) -> Any:
        return torch.special.zeta(s, q), torch.special.zeta(s, 2.0), torch.special.zeta(3.0, q)

    run = portable(model, s, q, dynamic_shapes=({0: "n"}, {0: "n"}))
    exact = model(s.double(), q.double())
    for got, wanted in zip(run(s, q), exact, strict=True):
        torch.testing.assert_close(got, wanted.float(), rtol=2e-6, atol=0, equal_nan=True)
    for got in run(s[:0], q[:0]):
        assert got.shape == (0,)


LENGTHS = [0.0, 1.0, 2.0, 3.5, INFINITY]


@pytest.mark.filterwarnings("ignore:the exported model is valid for only some")
def test_distances_of_all_pairs() -> None:
    """Of open sizes, unless they are Euclidean, and of nothing."""

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return [torch.cdist(x, y, p) for p in LENGTHS]

    x, y = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    y[0, 0] = x[0, 0]
    right = [*model(x, y)]
    for got, wanted in zip(portable(model, x, y)(x, y), right, strict=True):
        torch.testing.assert_close(got, wanted)

    def model_of_open_sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
        return [torch.cdist(x, y, p) for p in LENGTHS if p != 2]

    run = portable(model_of_open_sizes, x, y, dynamic_shapes=({1: "rows"}, {1: "others"}))
    for rows, others in ((5, 4), (0, 3), (40, 60)):
        x, y = torch.randn(2, rows, 3), torch.randn(2, others, 3)
        for got, wanted in zip(run(x, y), model_of_open_sizes(x, y), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    near = torch.full((1, 5, 3), 100.0)
    assert portable(lambda x: torch.cdist(x, x), near)(near)[0].max() == 0


def test_distances_within() -> None:
    def model(x: torch.Tensor) -> Any:
        return [torch.pdist(x, p) for p in LENGTHS]

    run = portable(model, torch.randn(5, 3), dynamic_shapes=({0: "rows"},))
    for rows in (0, 1, 2, 9):
        x = torch.randn(rows, 3)
        for got, wanted in zip(run(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_transforms_of_other_sizes(norm: Any) -> None:
    """Padded and cropped, of several axes, of real and of complex numbers."""
    fft = torch.fft
    more = {"norm": norm}

    def model(x: torch.Tensor) -> Any:
        z = fft.fft2(x, s=(4, 9), **more)
        back = fft.ifftn(z, s=(6, 5, 3), dim=(0, 1, 2), **more)
        halves = fft.ihfft2(x, s=(7, 4), **more), fft.ihfftn(x, **more)
        longer = fft.fftn(x, s=(3, 8), dim=(0, 2), **more), fft.ifft2(x, **more)
        real = fft.irfftn(z, s=(4, 6), **more), fft.hfft2(z, s=(5, 7), **more)
        return [torch.view_as_real(one) for one in (z, back, *halves, *longer)] + list(real)

    x = torch.randn(2, 5, 6)
    for got, wanted in zip(portable(model, x)(x), model(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
