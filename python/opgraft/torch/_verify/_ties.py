"""Compares results whose rows are sorted by a score. Rows whose scores differ only by rounding may
be in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opgraft.torch._verify import _rounding
from opgraft.torch._verify._rounding import plain

#: Longer tables are not matched, because each row is compared with each.
_MOST_ROWS = 20_000


def difference(
    expected: Sequence[Any],
    got: Sequence[Any],
    disturbed: Callable[[float], Sequence[Any]],
    *,
    roundings: int = 0,
    wholly_disturbed: _rounding.Disturbed | None = None,
) -> tuple[str, str]:
    """Returns what is wrong, and how the results were compared. The latter is empty if the results
    agree in their order.

    A sorted result, the score, and all results with as many rows are a table. The scores must
    agree in their order. Rows with tied scores must all be present, in any order. Scores are tied
    if they are as close to each other as the two results are: if these agree to the last digit,
    0.9990 and 0.9991 are not tied. If rounding decides in torch too which rows are present, as in
    the suppression of overlapping boxes, the rows that do not depend on it must be present.
    `disturbed` runs the model with inputs that are off by this many roundings.
    """
    plainly = _rounding.difference(
        expected,
        got,
        lambda: disturbed(1),
        roundings=roundings,
        wholly_disturbed=wholly_disturbed,
    )
    if not plainly:
        return "", ""
    wanted, found = [plain(one) for one in expected], [plain(one) for one in got]
    moved = _moved(wanted, found, roundings)
    if moved is not None:
        return "", f"except the order of {moved} rows, whose scores differ only by rounding"
    by_rows = _by_rows(wanted, found, disturbed, roundings)
    return (plainly if by_rows in ("", UNDECIDED) else ""), by_rows


def _moved(
    wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor], roundings: int
) -> int | None:
    """Returns how many rows are at another place; None if anything else differs."""
    if _rounding.unlikeness(wanted, found):
        return None
    left = set(range(len(wanted)))
    moved = 0
    for key in _scores(wanted):
        if key not in left or _rounding.difference(
            [wanted[key]], [found[key]], roundings=roundings
        ):
            continue
        if not _is_score(found[key]) or _is_constant(wanted[key]):
            continue
        count = len(wanted[key])
        table = [index for index in left if wanted[index].dim() and len(wanted[index]) == count]
        off = float((wanted[key].double() - found[key].double()).abs().max())
        runs = _runs(wanted[key], _tie(wanted[key], off))
        order = _order([wanted[i] for i in table], [found[i] for i in table], runs, roundings)
        if order is None:
            continue
        moved += int((order != torch.arange(count)).sum())
        left -= set(table)
    rest = sorted(left)
    wrong = _rounding.difference(
        [wanted[i] for i in rest], [found[i] for i in rest], roundings=roundings
    )
    return None if wrong or not moved else moved


def _scores(values: Sequence[torch.Tensor]) -> list[int]:
    return [index for index, one in enumerate(values) if _is_score(one)]


#: How results were compared if most rows depend on rounding.
UNDECIDED = "not at all: ties and rounding decide in torch too which rows are present"
#: To find the rows that depend on rounding, the model runs with inputs that are off by this many
#: roundings, this many times.
_TIMES, _DRAWS = 50, 3


def _by_rows(
    wanted: Sequence[torch.Tensor],
    found: Sequence[torch.Tensor],
    disturbed: Callable[[float], Sequence[Any]],
    roundings: int,
) -> str:
    """Describes how many rows do not depend on rounding, if all of them are present; empty if one
    is missing. UNDECIDED if most rows depend on rounding."""
    if not _is_table(wanted) or not _is_table(found) or len(wanted) != len(found):
        return ""
    for one, other in zip(wanted, found, strict=True):
        if one.dtype != other.dtype or one.shape[1:] != other.shape[1:]:
            return ""
    count = len(wanted[0])
    stable = torch.ones(count, dtype=torch.bool)
    key = min(_scores(wanted), key=lambda place: _is_constant(wanted[place]))
    off = 0.0
    for _ in range(_DRAWS):
        try:
            others = [plain(one) for one in disturbed(_TIMES)]
        except Exception:  # the model may not take the disturbed inputs
            return ""
        stable &= _matched(wanted, others, roundings)[0]
        off = max(off, _typical_gap(wanted[key], others[key]))
    there, rest = _matched(wanted, found, roundings)
    # Which of the rows with the last score are cut off is arbitrary, so others may be present.
    tie = _tie(wanted[key], off)
    first, last = _runs(wanted[key], tie)[-1]
    highest, lowest = wanted[key][first].double(), wanted[key][last - 1].double()
    score = found[key][rest].double()
    is_tied = (score <= highest + tie) & (score >= lowest - tie)
    is_extra = int((~is_tied).sum()) > int((~stable).sum())
    stable[first:last] &= last - first == 1
    kept = int(stable.sum())
    if kept == count or is_extra or bool((stable & ~there).any()):
        return ""
    if 2 * kept < count:
        return UNDECIDED
    return (
        f"by {kept} of {count} rows: ties and rounding decide in torch too whether the others are "
        "present"
    )


def _is_table(values: Sequence[torch.Tensor]) -> bool:
    """Whether all results have the same number of rows, and one of them is a score."""
    is_sorted = any(map(_is_score, values))
    return is_sorted and len({len(one) if one.dim() else -1 for one in values}) == 1


def _matched(
    wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor], roundings: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns which wanted rows are among those found, each once; and the indices of the found rows
    that match none."""
    there = torch.zeros(len(wanted[0]), dtype=torch.bool)
    free = torch.arange(len(found[0]))
    for row in range(len(there)):
        places = free[_fitting(wanted, found, row, free, roundings)]
        if len(places):
            there[row] = True
            free = free[free != places[0]]
    return there, free


def _is_score(tensor: torch.Tensor) -> bool:
    """Whether it is a vector of numbers that never increase."""
    if tensor.dim() != 1 or not tensor.is_floating_point() or not 2 <= len(tensor) <= _MOST_ROWS:
        return False
    return bool((tensor[1:] <= tensor[:-1]).all())


def _is_constant(scores: torch.Tensor) -> bool:
    """Whether they all differ only by rounding: then they define no order."""
    return len(_runs(scores, _tie(scores, 0.0))) == 1


def _order(
    wanted: Sequence[torch.Tensor],
    found: Sequence[torch.Tensor],
    runs: Sequence[tuple[int, int]],
    roundings: int,
) -> torch.Tensor | None:
    """Returns the index of the matching found row for each wanted row, each in the same run; None
    if a row has no match. Keeps the place of a row if possible."""
    order = torch.full((runs[-1][1],), -1)
    for first, last in runs:
        free = torch.arange(first, last)
        for row in range(first, last):
            places = free[_fitting(wanted, found, row, free, roundings)]
            if not len(places):
                return None
            place = row if row in places else int(places[0])  # most rows are at their place
            order[row] = place
            free = free[free != place]
    return order


def _fitting(
    wanted: Sequence[torch.Tensor],
    found: Sequence[torch.Tensor],
    row: int,
    places: torch.Tensor,
    roundings: int,
) -> torch.Tensor:
    """Returns at which of these places a found row matches the wanted row."""
    fits = torch.ones(len(places), dtype=torch.bool)
    for one, other in zip(wanted, found, strict=True):
        there = other[places].flatten(1) if other.dim() > 1 else other[places][:, None]
        own = one[row].reshape(1, -1)
        largest = _rounding.largest_of_columns(own[0] if one.dim() < 2 else one)
        of_row = largest.expand(one.shape[1:]).reshape(1, -1)
        near = _rounding.are_near(
            own.expand_as(there), there, roundings=roundings, largest=of_row.expand(there.shape)
        )
        fits &= near.all(1)
    return fits


def _tie(scores: torch.Tensor, off: float) -> float:
    """Returns the largest distance of tied scores, if each may be off by `off`. Twice that, since
    two scores may move; twice again, since `off` is only what was observed."""
    return max(4 * off, 8 * torch.finfo(scores.dtype).eps * float(scores.abs().max()))


def _typical_gap(scores: torch.Tensor, others: torch.Tensor) -> float:
    """Returns the median distance from a score to the nearest of the others. The median ignores
    rows that are missing there."""
    if not len(others):
        return 0.0
    own, upwards = scores.double(), others.double().sort()[0]
    above = torch.searchsorted(upwards, own).clamp(max=len(upwards) - 1)
    below = (above - 1).clamp(min=0)
    gaps = torch.minimum((own - upwards[above]).abs(), (own - upwards[below]).abs())
    return float(gaps.median())


def _runs(scores: torch.Tensor, tie: float) -> list[tuple[int, int]]:
    """Returns the start and end of each run of scores in which neighbours are tied."""
    near = ((scores[:-1].double() - scores[1:].double()) <= tie).tolist()
    runs, first = [], 0
    for place, is_near in enumerate(near, start=1):
        if not is_near:
            runs.append((first, place))
            first = place
    return [*runs, (first, len(scores))]
