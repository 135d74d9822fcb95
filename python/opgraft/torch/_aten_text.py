"""Reads the arguments of an operator as `_aten.py` writes them; docs/aten.md describes the text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opgraft._errors import ModelError

_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\")|%(?P<input>\d+)"
    r"|(?P<number>-?(?:\d[\w.]*(?:(?<=[eE])[+-]\d+)?|inf\b|nan\b))"
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<mark>[][(),=]))"
)
_NUMBERS, _LISTS = ("int", "float", "bool"), ("ints", "floats", "bools")
_CONSTANTS = {"null": None, "true": True, "false": False}


@dataclass(frozen=True)
class _Input:
    place: int
    kind: str

    def of(self, tensors: Sequence[Any]) -> Any:
        tensor = tensors[self.place]
        if self.kind == "tensor":
            return tensor
        if self.kind == "complex":
            return torch.view_as_complex(tensor.contiguous())
        return tensor.tolist() if self.kind in _LISTS else tensor.item()


@dataclass(frozen=True)
class Arguments:
    """The arguments of an operator, some of which are inputs of the node."""

    positional: list[Any]
    named: dict[str, Any]

    def bind(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments for a call, with these inputs."""
        return (
            [_bind(one, tensors) for one in self.positional],
            {name: _bind(one, tensors) for name, one in self.named.items()},
        )


def _bind(value: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_bind(one, tensors) for one in value]
    return value.of(tensors) if isinstance(value, _Input) else value


def read_arguments(text: str) -> Arguments:
    """Reads such as `(%0, [1, int(%1)], dtype=torch.float32)`."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def read(self) -> Arguments:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        self._expect("(")
        while not self._take(")"):
            if positional or named:
                self._expect(",")
            if self._peek(1) == ("mark", "="):
                name = self._token("name")
                self._expect("=")
                named[name] = self._value()
            else:
                positional.append(self._value())
        if self._next != len(self._tokens):
            raise self._error()
        return Arguments(positional, named)

    def _split(self) -> list[tuple[str, str]]:
        tokens = []
        at = 0
        while at < len(self._text.rstrip()):
            found = _TOKEN.match(self._text, at)
            if found is None or found.lastgroup is None:
                raise self._error()
            tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        return tokens

    def _error(self) -> ModelError:
        return ModelError(
            f"these are no arguments of an operator as docs/aten.md has them: {self._text!r}"
        )

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "")

    def _take(self, mark: str) -> bool:
        if self._peek() != ("mark", mark):
            return False
        self._next += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error()

    def _token(self, kind: str) -> str:
        found, text = self._peek()
        if found != kind:
            raise self._error()
        self._next += 1
        return text

    def _value(self) -> Any:
        kind, text = self._peek()
        if self._take("["):
            return self._list()
        if kind in ("end", "mark"):
            raise self._error()
        self._next += 1
        if kind == "input":
            return _Input(int(text), "tensor")
        if kind == "text":
            return json.loads(text)
        if kind == "number" or text in ("inf", "nan"):
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        if self._take("("):
            return self._call(text)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        value = getattr(torch, text.removeprefix("torch."), None)
        if not isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            raise self._error()
        return value

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while not self._take("]"):
            if values:
                self._expect(",")
            values.append(self._value())
        return values

    def _call(self, name: str) -> Any:
        """`int(%0)`, `complex(1.0, 2.0)`, `device("cpu")`."""
        first = self._value()
        if isinstance(first, _Input) and name in ("complex", *_NUMBERS, *_LISTS):
            self._expect(")")
            return _Input(first.place, name)
        if name == "device" and isinstance(first, str):
            self._expect(")")
            return torch.device(first)
        if name != "complex":
            raise self._error()
        self._expect(",")
        second = self._value()
        self._expect(")")
        return complex(first, second)
