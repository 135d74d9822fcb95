"""Distinguishes results that differ only by rounding from results that are wrong."""

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

    #: Relative to the element.
    relative: float
    #: Near zero. Limited to `relative` times the largest element, but at least `least`.
    absolute: float
    least: float
    #: The size of a rounding.
    rounding: float
    #: A result may differ by as much as this many roundings of the inputs change it.
    of_inputs: float = 50
    #: The roundings of a sum add up as this power of their number: 1 if all go the same way, 0.5 if
    #: they are random. Coarse types have 0.5, since 1 would allow any result. None for types in
    #: which no sums are computed.
    power: float | None = 1


_TOLERANCES = {
    torch.float64: _Tolerance(1e-6, 1e-8, 1e-10, 1e-14),
    torch.float32: _Tolerance(1e-3, 1e-5, 1e-6, 1e-6),
}


@functools.cache
def _tolerance(dtype: torch.dtype) -> _Tolerance:
    """In a coarse type an element may be a few steps off, in a type of 8 bits a single one."""
    known = _TOLERANCES.get(dtype)
    if known is not None:
        return known
    step = torch.finfo(dtype).eps
    if dtype in (torch.float16, torch.bfloat16):
        return _Tolerance(3 * step, step / 10, 1e-6, step, of_inputs=4, power=0.5)
    least = 2 * torch.finfo(dtype).smallest_normal * step
    return _Tolerance(step, least, least, step, of_inputs=1, power=None)


#: How often inputs are disturbed: all elements down, all elements up, then at random.
_DRAWS = 5
_DIRECTIONS = torch.Generator()  # our own, so that the process's random state is unchanged
_ALL_ONE_WAY = {0: -1, 1: 1}
#: An element that rounding may change by more than this fraction of the largest proves nothing.
_MUCH = 0.01
#: In a table with at least this many rows, each column has its own largest element.
_ROWS = 8
#: The tolerance, in roundings of the largest element, for a zero that rounding does not change in
#: torch, such as the imaginary part of a sum.
_OF_ZEROS = 10
#: Inputs are disturbed this many times as much, to see whether a result changes at least this many
#: times as much too. If it does not, it has jumped.
_FURTHER, _ALONG = 8, 3
#: An output is not verified if more than this fraction of its elements proves nothing.
MOST = 0.5

#: Repeats a computation with inputs that differ from the original by rounding.
Disturbed = Callable[[], Sequence[Any]]


@dataclass
class Comparison:
    """The outcome of comparing results."""

    #: What is wrong; empty if nothing is.
    problem: str = ""
    #: How many elements differ, but may still be right: rounding of the inputs changes them by as
    #: much, because the example lies on a jump, such as 2.0 for `floor`.
    excused: int = 0
    #: The number of all elements.
    total: int = 0
    #: A description of the worst excused element.
    worst: str = ""
    #: Whether most elements of each output are not excused.
    is_decided: bool = True


def difference(
    expected: Sequence[Any],
    got: Sequence[Any],
    disturbed: Disturbed | None = None,
    *,
    roundings: int = 0,
    wholly_disturbed: Disturbed | None = None,
) -> str:
    """Returns what `compare` finds wrong; empty if nothing is."""
    return compare(
        expected, got, disturbed, roundings=roundings, wholly_disturbed=wholly_disturbed
    ).problem


def compare(
    expected: Sequence[Any],
    got: Sequence[Any],
    disturbed: Disturbed | None = None,
    *,
    roundings: int = 0,
    wholly_disturbed: Disturbed | None = None,
) -> Comparison:
    """Compares `got` with what is expected.

    If elements differ by more than the tolerance, `disturbed` shows how much rounding changes them:
    an ill-conditioned result is not an error. Elements that are computed from many, as in a sum or
    a transform, may differ by this many `roundings` of the largest element; but by no more than
    rounding of all inputs and weights changes them, if `wholly_disturbed` is given to show that.
    """
    unlike = unlikeness(expected, got)
    if unlike:
        return Comparison(unlike)
    result = Comparison(total=sum(plain(one).numel() for one in expected))
    noise = _Noise(expected, disturbed)
    whole = _Noise(expected, wholly_disturbed)
    for index, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        wanted, found = plain(wanted), plain(found)
        if _are_surely_near(wanted, found):
            continue
        wrong = _far(wanted, found, 0 if wholly_disturbed else roundings)
        gap = _gap(wanted, found)
        if bool(wrong.any()) and (moved := noise.of(index)) is not None:
            excused = wrong & (gap <= moved) & (moved > 0)
            wrong &= ~excused
            excused &= (moved > _MUCH * largest_of_columns(wanted)) | noise.jumps(index, excused)
            if bool(excused.any()):
                result.excused += int(excused.sum())
                result.worst = result.worst or _worst(wanted, found, excused)
                result.is_decided &= int(excused.sum()) <= MOST * excused.numel()
        if wholly_disturbed and roundings and bool(wrong.any()):
            near = ~_far(wanted, found, roundings)
            if bool((wrong & near).any()):
                moved = whole.of(index)
                # If nothing changes, or the shape does, the limit is not known.
                if moved is not None and bool(moved.any()):
                    # An exact zero in torch may be a difference of large numbers elsewhere.
                    is_zero = (wanted == 0) & ~_far(wanted, found, min(roundings, _OF_ZEROS))
                    near &= (gap <= moved) | is_zero
                wrong &= ~near
        if bool(wrong.any()):
            return Comparison(f"output {index}: {_describe(wanted, found, wrong)}")
    return result


class _Noise:
    """How far rounding may move results; computed when needed."""

    def __init__(self, expected: Sequence[Any], disturbed: Disturbed | None) -> None:
        self._expected = expected
        self._disturbed = disturbed
        self._directions = _DIRECTIONS.get_state()
        self._by_times: dict[int, list[Any]] = {}

    def of(self, index: int, times: int = 1) -> torch.Tensor | None:
        """Returns it for each element of an output; None if it is not known."""
        if self._disturbed is None:
            return None
        if times not in self._by_times:
            # The same directions, so that only the amount differs.
            _DIRECTIONS.set_state(self._directions)
            self._by_times[times] = _noise(self._expected, self._disturbed, times)
        moved: torch.Tensor | None = self._by_times[times][index]
        return moved

    def jumps(self, index: int, asked: torch.Tensor) -> torch.Tensor:
        """Returns which of the `asked` elements do not change in proportion to the inputs."""
        near = self.of(index)
        if not bool(asked.any()) or near is None:
            return torch.zeros_like(asked)
        if not plain(self._expected[index]).is_floating_point():
            return asked
        far = self.of(index, _FURTHER)
        return asked if far is None else asked & (far < _ALONG * near)


def are_surely_near(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    """Whether results are so near that `difference` finds none. A quick check, which may also
    return False for results without a difference."""
    return len(expected) == len(got) and all(
        _are_surely_near(plain(one), plain(two)) for one, two in zip(expected, got, strict=True)
    )


def _are_surely_near(wanted: torch.Tensor, found: torch.Tensor) -> bool:
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return False
    if wanted.dtype not in _TOLERANCES:
        return not wanted.is_floating_point() and torch.equal(wanted, found)
    # Half of the tolerance, because this is computed in the precision of the type.
    relative = _tolerance(wanted.dtype).relative / 2
    return torch.allclose(found, wanted, relative, 0.0, equal_nan=True)


def unlikeness(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """Returns how the count, types or shapes of results differ, without comparing elements."""
    if len(expected) != len(got):
        return f"expected {len(expected)} outputs, got {len(got)}"
    for index, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        wanted, found = plain(wanted), plain(found)
        if wanted.dtype != found.dtype:
            return f"output {index} is {_name(found.dtype)} instead of {_name(wanted.dtype)}"
        if wanted.shape != found.shape:
            shapes = f"{list(found.shape)} instead of {list(wanted.shape)}"
            return f"output {index} has the shape {shapes}"
    return ""


def without_numbers(values: Sequence[Any]) -> list[str]:
    """Lists the results without a finite element, which prove nothing: any two would agree."""
    told = []
    for index, value in enumerate(values):
        tensor = plain(value)
        if tensor.numel() and bool(torch.isfinite(tensor.double()).any()):
            continue
        what = "is NaN or infinite everywhere" if tensor.numel() else "is empty"
        told.append(f"output {index} {what}: no number in it was compared")
    return told


def plain(value: Any) -> torch.Tensor:
    """Returns a dense tensor of real numbers on the CPU."""
    tensor = torch.as_tensor(value).detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def are_near(
    wanted: torch.Tensor,
    found: torch.Tensor,
    *,
    roundings: int = 0,
    largest: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns which elements of tensors of one type differ at most by rounding. `largest` is the
    element that roundings refer to, if the tensors are parts of others."""
    return ~_far(wanted, found, roundings, largest)


def _far(
    wanted: torch.Tensor,
    found: torch.Tensor,
    roundings: int,
    largest: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns which elements differ by more than the type's tolerance."""
    if not wanted.is_floating_point():
        return wanted != found
    allowed = _tolerance(wanted.dtype)
    exact, near = wanted.double(), found.double()
    # If all elements are small, the difference must be small too.
    small = min(allowed.absolute, allowed.relative * _largest(wanted))
    absolute = torch.tensor(max(allowed.least, small), dtype=torch.float64)
    if roundings and allowed.power is not None:
        of = largest_of_columns(wanted) if largest is None else largest
        absolute = absolute.maximum(roundings**allowed.power * allowed.rounding * of)
    same = (exact == near) | (exact.isnan() & near.isnan())
    close = torch.isfinite(exact) & torch.isfinite(near)
    close &= (exact - near).abs() <= absolute + allowed.relative * exact.abs()
    return ~(same | close)


def _largest(tensor: torch.Tensor) -> float:
    size = tensor.double().abs()
    finite = size[torch.isfinite(size)]
    return float(finite.max()) if finite.numel() else 0.0


def largest_of_columns(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the largest element, or that of each column of a table: a table may hold coordinates
    and scores, and a small difference for one is large for the other."""
    size = tensor.double().abs()
    size = torch.where(torch.isfinite(size), size, 0.0)
    if size.dim() > 1 and size.shape[-1] and size.numel() >= _ROWS * size.shape[-1]:
        return size.flatten(0, -2).amax(0)
    return size.max() if size.numel() else size.new_zeros(())


def _gap(wanted: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    one, two = wanted.double(), found.double()
    gap = torch.where((one == two) | (one.isnan() & two.isnan()), 0.0, (one - two).abs())
    return torch.where(gap.isnan(), torch.inf, gap)


def _noise(expected: Sequence[Any], disturbed: Disturbed, times: int) -> list[Any]:
    """Returns how far this many roundings of the inputs may move each element of each output; None
    for outputs where that is not known."""
    noise: list[Any] = [None] * len(expected)
    for draw in range(_DRAWS):
        try:
            with _drawing(draw, times):
                others = disturbed()
        except Exception:  # the model may not take the disturbed inputs
            return noise
        for index, (wanted, other) in enumerate(zip(expected, others, strict=True)):
            one, two = plain(wanted), plain(other)
            if one.shape == two.shape:
                moved = _of_inputs(one.dtype) * _gap(one, two)
                noise[index] = moved if noise[index] is None else torch.maximum(noise[index], moved)
    return noise


def _of_inputs(dtype: torch.dtype) -> float:
    return _tolerance(dtype if dtype.is_floating_point else torch.float32).of_inputs


#: The current draw, and the number of roundings. Only one thread exports at a time.
_draw, _times = _DRAWS, 1


@contextmanager
def _drawing(draw: int, times: int) -> Iterator[None]:
    global _draw, _times
    _draw, _times = draw, times
    try:
        yield
    finally:
        _draw, _times = _DRAWS, 1


def disturb(value: Any, times: float = 1) -> Any:
    """Returns the tensor with each element moved by about `times` its rounding. Other values are
    unchanged."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    if value.layout != torch.strided:
        return value
    step = _tolerance(value.real.dtype if value.is_complex() else value.dtype).rounding
    move: Any = _ALL_ONE_WAY.get(_draw)
    if move is None:
        # Different amounts, so that differences between elements change too.
        move = torch.rand(value.shape, generator=_DIRECTIONS, dtype=torch.float64) * 2 - 1
        move = (move + move.sign() / 2).to(value.device)
    return (value.detach() * (1 + times * _times * step * move)).to(value.dtype)


def _describe(wanted: torch.Tensor, found: torch.Tensor, wrong: torch.Tensor) -> str:
    count = f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    return f"{count}, the worst is {_worst(wanted, found, wrong)}"


def _worst(wanted: torch.Tensor, found: torch.Tensor, wrong: torch.Tensor) -> str:
    gap = _gap(wanted, found)
    gap[~wrong] = -1
    place = int(gap.flatten().argmax())
    return f"{_number(found.flatten()[place])} instead of {_number(wanted.flatten()[place])}"


def _number(element: torch.Tensor) -> str:
    return f"{element.item():.6g}" if element.is_floating_point() else str(element.item())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
