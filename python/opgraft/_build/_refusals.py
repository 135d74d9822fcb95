"""Finds the messages about wrong declarations in a compiler's output.

The sentences of static_asserts, and of exceptions thrown at compile time, are buried in pages about
types. This collects them, with the lines of the author's sources that caused them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LINE = re.compile(
    r"(?P<file>[^\s:][^:]*?)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc_line>\d+)\)):\s+(?P<text>.*)"
)
# In order: g++ and nvcc; clang++ 16 and newer; older clang++.
_ASSERTIONS = (
    re.compile(r"error: static assertion failed with \"(?P<text>.+)\"$"),
    re.compile(r"error: static assertion failed(?: due to requirement '.*?')?: (?P<text>.+)"),
    re.compile(r"error: static_assert failed(?: due to requirement '.*?')? \"(?P<text>.+)\"$"),
)
_NOT_CONSTANT = re.compile(r"error: .*is not a constant expression")
_THROWN = re.compile(r'throw "(?P<text>(?:[^"\\]|\\.)*)"')
# The lines that caused an error come before it in the output of g++, after it in that of clang++.
_BEFORE = re.compile(r"required from here|in .constexpr. expansion of")
_BEHIND = re.compile(r"note: (?:in instantiation of|while substituting|in call to)")
_ANEW = re.compile(r": (?:In|At) [\w ]+|In file included from ")
# In nvcc's output, such lines end like this, and an empty line follows the last one.
_AT_LINE = re.compile(r"at line (?P<line>\d+) of (?P<file>.+)$")


class Refusal(NamedTuple):
    """An error, and its place in the author's sources: "scale.cc:7", or "" if unknown."""

    place: str
    text: str


def find(said: str, package: str) -> list[Refusal]:
    """Returns the refusals in a compiler's output, without repetitions. `package` is the folder of
    our headers, which are not the author's."""
    found: dict[Refusal, None] = {}
    leading = ""  # the author's line that caused the error; printed once for several errors
    lines = _COLOURS.sub("", said).splitlines()
    for number, line in enumerate(lines):
        parts = _LINE.match(line)
        if _ANEW.search(line):
            leading = ""
        if parts is None:
            continue
        place = _place(parts, package)
        if place and _BEFORE.search(parts["text"]):
            leading = place
        if parts["text"].startswith("error: "):
            stack = [one for one in _notes(lines[number + 1 :]) if _BEHIND.search(one["text"])]
            if parts["nvcc_line"]:
                stack = _nvcc_notes(lines[number + 1 :])
            if stack or parts["nvcc_line"]:
                leading = next(filter(None, (_place(one, package) for one in stack[::-1])), "")
            if text := _sentence(parts["text"], lines[number + 1 :]):
                found[Refusal(place or leading, text)] = None
    return list(found)


def _place(parts: re.Match[str], package: str) -> str:
    if parts["file"].startswith(package):
        return ""
    return f"{parts['file']}:{parts['line'] or parts['nvcc_line']}"


def _notes(lines: list[str]) -> list[re.Match[str]]:
    """Returns the notes up to the next error."""
    found = []
    for line in lines:
        parts = _LINE.match(line)
        if parts is None:
            continue
        if not parts["text"].startswith("note: "):
            break
        found.append(parts)
    return found


def _nvcc_notes(lines: list[str]) -> list[re.Match[str]]:
    found = []
    for line in lines:
        if not line:
            break
        if parts := _AT_LINE.search(line):
            found.append(parts)
    return found


def _sentence(text: str, behind: list[str]) -> str | None:
    for pattern in _ASSERTIONS:
        if found := pattern.match(text):
            return re.sub(r"\\(.)", r"\1", found["text"])
    if _NOT_CONSTANT.match(text):
        for line in behind:
            if ": error: " in line:
                break
            if thrown := _THROWN.search(line):
                return re.sub(r"\\(.)", r"\1", thrown["text"])
    return None
