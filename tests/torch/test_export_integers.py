"""Integers come out to the last digit: negative ones, and those that floats do not hold."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

SMALL = torch.tensor([5, 6, 7, 8])
LEAST = torch.iinfo(torch.int64).min
LARGE = torch.tensor([2**53 + 1, -(2**53) - 1, -7, 2**62 + 3, -1, 0, LEAST, 1700000000123])
DIVISORS = torch.tensor([3, 2, -2, 1000, 5, -7, -1, -3])


def rows(program: Any) -> set[str]:
    return {row.kind for row in program.report.rows}


def same(function: Any, example: tuple[Any, ...], given: tuple[Any, ...], **more: Any) -> Any:
    program = opgraft.torch.export(function, example, progress=False, **more)
    assert rows(program) <= {"standard", "function"}, program.report
    got, wanted = program(*given)[0], function(*given)
    assert got.dtype == wanted.dtype
    assert torch.equal(got, wanted), (got, wanted)
    return program


@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
@pytest.mark.parametrize(
    "function",
    [
        functools.partial(torch.div, rounding_mode="floor"),
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
    ],
    ids=["div floor", "floor_divide", "remainder", "fmod"],
)
def test_divisions_of_large_and_negative_integers(function: Any, dynamo: bool) -> None:
    same(function, (SMALL, SMALL.flip(0)), (LARGE[:4], DIVISORS[:4]), dynamo=dynamo)
    # The smallest by -1 ends the process in ONNX Runtime as it stands.
    same(function, (SMALL, SMALL.flip(0)), (LARGE[4:], DIVISORS[4:]), dynamo=dynamo)


def test_division_towards_zero() -> None:
    function = functools.partial(torch.div, rounding_mode="trunc")
    given = LARGE[[0, 1, 2, 7]], DIVISORS[:4]
    same(function, (SMALL, SMALL.flip(0)), given)
    for divisor in (3, -2, 1000):
        same(lambda x, d=divisor: function(x, d), (SMALL,), (LARGE[:4],))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_divisions_by_a_number_in_all_types(dtype: torch.dtype) -> None:
    least = torch.iinfo(dtype).min
    given = torch.tensor([torch.iinfo(dtype).max, least, least + 1, 7], dtype=dtype)
    for divisor in (3, *(() if dtype == torch.uint8 else (-1,))):

        def model(x, divisor=divisor):
            return torch.stack((x // divisor, x % divisor, torch.fmod(x, divisor)))

        same(model, (SMALL.to(dtype),), (given,))


def test_powers_sums_and_products_of_large_integers() -> None:
    same(lambda x: x**7, (SMALL,), (torch.tensor([977, -977, 2, 0]),))
    same(lambda x: x**0, (SMALL,), (torch.tensor([977, -977, 2, 0]),))
    short = torch.tensor([2**31 - 1, 2**31 - 1, -5, 2**30], dtype=torch.int32)
    both = LARGE.reshape(2, 4)
    for function in (torch.sum, torch.prod):
        same(function, (SMALL,), (LARGE[:4],))
        same(function, (SMALL.int(),), (short,))
        for dim, keepdim in ((0, False), (-1, True)):
            whole = functools.partial(function, dim=dim, keepdim=keepdim)
            sizes = {0: "n", 1: "m"}
            program = same(whole, (SMALL.reshape(2, 2),), (both,), dynamic_shapes=(sizes,))
            nothing = torch.zeros(2, 0, dtype=torch.int64)
            assert torch.equal(program(nothing)[0], whole(nothing))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_shifts(dtype: torch.dtype) -> None:
    """Of negative numbers too, and by more than there are bits."""
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.min, 5, limits.max // 3], dtype=dtype)
    x = torch.cat((x, (-x if dtype != torch.uint8 else x)))
    counts = torch.tensor([1, 2, 3, limits.bits - 1, limits.bits, 7, 0, 100], dtype=dtype)
    example = (SMALL.to(dtype), SMALL.to(dtype))
    for given in ((x[:4], counts[:4]), (x[4:], counts[4:])):
        same(lambda x, y: torch.stack((x >> y, x << y)), example, given)
    same(lambda x: torch.stack((x << 1, x >> 1, x >> limits.bits)), example[:1], (x[:4],))
    same(lambda x, y: x >> y, example, (x[:4], counts[:4]), dynamo=False)
    same(torch.bitwise_right_shift, example, (x[:4], counts[:4]))


def test_python_divides_numbers_that_depend_on_data() -> None:
    """Rounded down, as Python does it; sizes, which are never negative, stay one node."""

    def model(x, n):
        a, b = n[0].item(), n[1].item()
        return x * (a // 2), x * (a // -3), x * (a // b), x * (a % b), x * (a % -3)

    x = torch.ones(1, dtype=torch.int64)
    program = opgraft.torch.export(model, (x, torch.tensor([5, 3])), progress=False)
    for n in ([-5, 3], [5, -3], [-5, -3], [-7, 2], [2**53 + 1, -1], [6, 3]):
        got, wanted = program(x, torch.tensor(n)), model(x, torch.tensor(n))
        assert [one.item() for one in got] == [one.item() for one in wanted], n

    def half(x):
        return x[: x.shape[0] // 2] * (x.shape[0] % 3)

    program = opgraft.torch.export(half, (SMALL,), dynamic_shapes=({0: "n"},), progress=False)
    assert rows(program) == {"standard"}


def test_remainders_of_floats_from_data() -> None:
    def model(x, n):
        return x * (n.item() % 2), x * (n.item() % -2.5), x * (n.item() // 2)

    x = torch.ones(1)
    program = opgraft.torch.export(model, (x, torch.tensor(5.0)), progress=False)
    for n in (-5.5, 5.0, -4.0, 7.25):
        got, wanted = program(x, torch.tensor(n)), model(x, torch.tensor(n))
        torch.testing.assert_close(torch.cat(got), torch.cat(wanted))


def test_what_is_too_large_loses_its_upper_bits() -> None:
    """ONNX Runtime makes one conversion of two, unless it is kept from it."""
    given = torch.tensor([2.5e9, -3e9, 300.7, 7])
    for narrow in (torch.int32, torch.int16):
        same(lambda x, t=narrow: x.long().to(t), (torch.tensor([1.5, 2, 3, 4]),), (given,))


@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8], ids=str)
def test_a_number_minus_integers(dtype: Any, dynamo: bool) -> None:
    # torch's exporter fails where the types differ.
    given = LARGE[:4] if dtype is torch.int64 else torch.tensor([0, 1, 100, 3], dtype=dtype)

    def differences(x: Any) -> Any:
        return torch.cat([1.0 - x, torch.rsub(x, 2.5, alpha=2), (7 - x).float()])

    same(differences, (SMALL.to(dtype),), (given,), dynamo=dynamo)
    same(lambda x: 1 - x, (SMALL.to(dtype),), (given,), dynamo=dynamo)


@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
def test_a_factor_of_small_integers(dynamo: bool) -> None:
    # A trace of torch's multiplies in int8, where 3 * 100 is 44.
    example = torch.tensor([1, 2, 3], dtype=torch.int8)
    given = torch.tensor([100, -99, 3], dtype=torch.int8)
    for function in (torch.add, torch.sub):
        for other in (torch.tensor([0.5, 1, 2]), torch.tensor([5, 6, 7])):
            same(
                lambda x, y, f=function: f(y, x, alpha=3),
                (example, other),
                (given, other),
                dynamo=dynamo,
            )
