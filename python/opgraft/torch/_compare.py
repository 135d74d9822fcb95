"""Tells results that are the same but for rounding from results that are wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class _Tolerance:
    """How far off an element of a type may be."""

    #: Relative to itself.
    relative: float
    #: Absolutely, near zero, but not more than relative to the largest one, unless that is tiny.
    absolute: float
    least: float
    #: The size of a rounding.
    rounding: float
    #: A result may differ by what this many roundings of the inputs would make of it.
    of_inputs: float = 50
    #: The roundings of a sum add up as this power of their number. Of coarse ones as they do at
    #: random, since what is allowed for fine ones, that they all go the same way, would be all.
    #: None where nobody computes sums in the type.
    power: float | None = 1


_TOLERANCES = {
    torch.float64: _Tolerance(1e-6, 1e-8, 1e-10, 1e-14),
    torch.float32: _Tolerance(1e-3, 1e-5, 1e-6, 1e-6),
}


@functools.cache
def _tolerance(dtype: torch.dtype) -> _Tolerance:
    """Of a coarse type an element may be a few steps off, and of one of 8 bits a single one."""
    known = _TOLERANCES.get(dtype)
    if known is not None:
        return known
    step = torch.finfo(dtype).eps
    if dtype in (torch.float16, torch.bfloat16):
        return _Tolerance(3 * step, step / 10, 1e-6, step, of_inputs=4, power=0.5)
    least = 2 * torch.finfo(dtype).smallest_normal * step
    return _Tolerance(step, least, least, step, of_inputs=1, power=None)


#: How often inputs are disturbed: each element made less, each made more, then at random.
_DRAWS = 5
_SIGNS = torch.Generator()  # of our own: the process's random numbers are not ours to draw
_ALL_ONE_WAY = {0: -1, 1: 1}
#: What rounding may move by more than this share of the output's largest element, says nothing.
_MUCH = 0.01
#: An output of which more than this share says nothing is not compared at all.
MOST = 0.5

#: What the same computation gives for inputs that differ from the original by rounding.
Disturbed = Callable[[], Sequence[Any]]


@dataclass
class Comparison:
    """What came of holding results against others."""

    #: What is wrong, in words; empty where nothing is.
    problem: str = ""
    #: How many elements differ of which nobody can say whether they are wrong: rounding of the
    #: inputs moves them as far, since the example lies on a jump, as 2.0 does for `floor`.
    excused: int = 0
    #: Of how many.
    total: int = 0
    #: The worst of them, in words.
    worst: str = ""
    #: Whether most elements of each output are not so.
    is_decided: bool = True


def difference(
    expected: Sequence[Any],
    got: Sequence[Any],
    disturbed: Disturbed | None = None,
    *,
    roundings: int = 0,
) -> str:
    """What `compare` finds to be wrong, in words."""
    return compare(expected, got, disturbed, roundings=roundings).problem


def compare(
    expected: Sequence[Any],
    got: Sequence[Any],
    disturbed: Disturbed | None = None,
    *,
    roundings: int = 0,
) -> Comparison:
    """Holds `got` against what is expected.

    Where elements differ more than they should, `disturbed` is asked what rounding does to them:
    an ill-conditioned result cannot be held against anybody. Elements may differ by so many
    `roundings` of the largest one, where each is made of many, as in a sum or a transform.
    """
    unlike = unlikeness(expected, got)
    if unlike:
        return Comparison(unlike)
    result = Comparison(total=sum(plain(one).numel() for one in expected))
    noise: list[Any] | None = None
    for index, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        wanted, found = plain(wanted), plain(found)
        if _are_surely_near(wanted, found):
            continue
        wrong = _far(wanted, found, roundings)
        if disturbed is not None and bool(wrong.any()):
            noise = _noise(expected, disturbed) if noise is None else noise
            if noise[index] is not None:
                excused = wrong & (_gap(wanted, found) <= noise[index])
                wrong &= ~excused
                excused &= noise[index] > _MUCH * _largest(wanted)
                if bool(excused.any()):
                    result.excused += int(excused.sum())
                    result.worst = result.worst or _worst(wanted, found, excused)
                    result.is_decided &= int(excused.sum()) <= MOST * excused.numel()
        if bool(wrong.any()):
            return Comparison(f"output {index}: {_describe(wanted, found, wrong)}")
    return result


def are_surely_near(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    """Whether results are so near that `difference` finds none; a quick question, which may say
    False of those too."""
    return len(expected) == len(got) and all(
        _are_surely_near(plain(one), plain(two)) for one, two in zip(expected, got, strict=True)
    )


def _are_surely_near(wanted: torch.Tensor, found: torch.Tensor) -> bool:
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return False
    if wanted.dtype not in _TOLERANCES:
        return not wanted.is_floating_point() and torch.equal(wanted, found)
    # Half of what is allowed: the question is asked in the type's own precision.
    relative = _tolerance(wanted.dtype).relative / 2
    return torch.allclose(found, wanted, relative, 0.0, equal_nan=True)


def unlikeness(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """In what numbers, types or shapes of results differ, in words; elements aside."""
    if len(expected) != len(got):
        return f"{len(expected)} outputs were expected, but {len(got)} came"
    for index, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        wanted, found = plain(wanted), plain(found)
        if wanted.dtype != found.dtype:
            return f"output {index} is {_name(found.dtype)} instead of {_name(wanted.dtype)}"
        if wanted.shape != found.shape:
            shapes = f"{list(found.shape)} instead of {list(wanted.shape)}"
            return f"output {index} has the shape {shapes}"
    return ""


def plain(value: Any) -> torch.Tensor:
    """A tensor of real numbers, dense, in the host's memory."""
    tensor = torch.as_tensor(value).detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def are_near(wanted: torch.Tensor, found: torch.Tensor, *, roundings: int = 0) -> torch.Tensor:
    """Which elements of tensors of one type are the same but for rounding."""
    return ~_far(wanted, found, roundings)


def _far(wanted: torch.Tensor, found: torch.Tensor, roundings: int) -> torch.Tensor:
    """Which elements differ more than the type's tolerance."""
    if not wanted.is_floating_point():
        return wanted != found
    allowed = _tolerance(wanted.dtype)
    exact, near = wanted.double(), found.double()
    size = exact.abs()
    largest = _largest(wanted)
    # Where all elements are small, so must be the difference.
    summed = 0.0
    if roundings and allowed.power is not None:
        summed = roundings**allowed.power * allowed.rounding * largest
    absolute = max(allowed.least, min(allowed.absolute, allowed.relative * largest), summed)
    same = (exact == near) | (exact.isnan() & near.isnan())
    close = torch.isfinite(exact) & torch.isfinite(near)
    close &= (exact - near).abs() <= absolute + allowed.relative * size
    return ~(same | close)


def _largest(tensor: torch.Tensor) -> float:
    size = tensor.double().abs()
    finite = size[torch.isfinite(size)]
    return float(finite.max()) if finite.numel() else 0.0


def _gap(wanted: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    one, two = wanted.double(), found.double()
    gap = torch.where((one == two) | (one.isnan() & two.isnan()), 0.0, (one - two).abs())
    return torch.where(gap.isnan(), torch.inf, gap)


def _noise(expected: Sequence[Any], disturbed: Disturbed) -> list[Any]:
    """How far rounding may move each element of each output; None where nobody can say."""
    noise: list[Any] = [None] * len(expected)
    for draw in range(_DRAWS):
        try:
            with _drawing(draw):
                others = disturbed()
        except Exception:  # the disturbed inputs may be none that it takes
            return noise
        for index, (wanted, other) in enumerate(zip(expected, others, strict=True)):
            one, two = plain(wanted), plain(other)
            if one.shape == two.shape:
                moved = _of_inputs(one.dtype) * _gap(one, two)
                noise[index] = moved if noise[index] is None else torch.maximum(noise[index], moved)
    return noise


def _of_inputs(dtype: torch.dtype) -> float:
    return _tolerance(dtype if dtype.is_floating_point else torch.float32).of_inputs


#: Which draw this is; exports are for one thread at a time.
_draw = _DRAWS


@contextmanager
def _drawing(draw: int) -> Iterator[None]:
    global _draw
    _draw = draw
    try:
        yield
    finally:
        _draw = _DRAWS


def disturb(value: Any, times: float = 1) -> Any:
    """The tensor with each element moved by about its rounding, so many times; other values as they
    are."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    if value.layout != torch.strided:
        return value
    step = _tolerance(value.real.dtype if value.is_complex() else value.dtype).rounding
    sign: Any = _ALL_ONE_WAY.get(_draw)
    if sign is None:
        sign = torch.randint(0, 2, value.shape, generator=_SIGNS).to(value.device) * 2 - 1
    return (value.detach() * (1 + times * step * sign)).to(value.dtype)


def _describe(wanted: torch.Tensor, found: torch.Tensor, wrong: torch.Tensor) -> str:
    count = f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    return f"{count}, the worst is {_worst(wanted, found, wrong)}"


def _worst(wanted: torch.Tensor, found: torch.Tensor, wrong: torch.Tensor) -> str:
    gap = _gap(wanted, found)
    gap[~wrong] = -1
    place = int(gap.flatten().argmax())
    return f"{found.flatten()[place].item():.6g} instead of {wanted.flatten()[place].item():.6g}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
