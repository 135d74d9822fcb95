"""Decides whether matching a model's regular expression takes a bounded time.

Python's `re` backtracks, so a pattern such as `(a+)+b` takes years for a text of fifty letters.
This module counts from the pattern alone how often `re` may try.
"""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_parse as parser

#: The name that a host allows to accept any pattern.
ALLOWANCE = "re.compile"
#: The most ways to match from one position of a text, not counting the one unlimited repetition.
#: So the time is at most this number times the square of the length of the text.
WAYS = 1000
#: Reviewed by hand: their repetitions cannot match each other's letters.
_REVIEWED = (r"[A-Za-z0-9]+(?=\s+)", r"\b\w+(?:'\w+)?\b", r"(?u)\b\w+(?:[-']\w+)?\b")
#: A repetition of more than this many times counts as unlimited.
_MANY = 64


def is_bounded(pattern: str) -> bool:
    """Whether matching takes at most the time stated above, for any text."""
    if pattern in _REVIEWED:
        return True
    if len(pattern) > 1000:
        return False
    try:
        ways, endless = _ways(parser.parse(pattern))
    except (ValueError, OverflowError, RecursionError, parser.error):
        return False
    return ways <= WAYS and endless <= 1


def _ways(parts: Any) -> tuple[int, int]:
    """Returns in how many ways a sequence can match, apart from its unlimited repetitions, and how
    many of those it has. Raises ValueError for patterns that it cannot count."""
    all_ways, all_endless = 1, 0
    for operation, argument in parts:
        ways, endless = _ways_of(str(operation), argument)
        all_ways, all_endless = all_ways * ways, all_endless + endless
        if all_ways > WAYS:
            raise ValueError("too many ways")
    return all_ways, all_endless


def _ways_of(operation: str, argument: Any) -> tuple[int, int]:
    if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "AT"):
        return 1, 0
    if operation == "SUBPATTERN":
        return _ways(argument[-1])
    if operation == "BRANCH":
        branches = [_ways(branch) for branch in argument[1]]
        return sum(ways for ways, _ in branches), max(endless for _, endless in branches)
    if operation in ("ASSERT", "ASSERT_NOT"):
        return _ways(argument[1])
    if operation == "ATOMIC_GROUP":
        return _ways(argument)
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, repeated = argument
        ways, endless = _ways(repeated)
        if int(most) > _MANY:
            # It must repeat a single character. Otherwise its ways multiply with each repetition.
            if len(repeated) != 1 or ways != 1 or endless or str(repeated[0][0]) == "SUBPATTERN":
                raise ValueError("a repetition in a repetition")
            return 1, 0 if int(least) == int(most) else 1
        if endless:
            raise ValueError("a repetition in a repetition")
        total = sum(ways**count for count in range(int(least), int(most) + 1) if ways**count)
        return total, 0
    raise ValueError(f"{operation} is not counted")
