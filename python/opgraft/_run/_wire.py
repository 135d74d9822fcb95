"""Finds the files in which a model keeps its weights, and its metadata, without loading it.

Reads the protobuf wire format itself: the package onnx is not needed to run a model, and would
load all that the file holds.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from typing import Any

from opgraft._base._errors import ModelError

#: The fields that may hold external data, by message: field number to message.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_DEEPEST = 100


_METADATA = 14  #: the field of a model


def external_files(path: str) -> list[str]:
    """Returns the locations that a model names, relative to its folder, each once."""
    with _mapped(path) as data:
        return list(dict.fromkeys(_locations(data, "model", 0, len(data), 0)))


def metadata_of(path: str, key: str) -> str:
    """Returns an entry of a model's metadata, or ""."""
    with _mapped(path) as data:
        return metadata_in(data, key)


def metadata_in(data: Any, key: str) -> str:
    """Like `metadata_of`, for the bytes of a model."""
    for number, begin, end in _fields(data, 0, len(data)):
        if number == _METADATA:
            entry = {field: data[first:last] for field, first, last in _fields(data, begin, end)}
            if entry.get(1) == key.encode():
                return bytes(entry.get(2, b"")).decode(errors="replace")
    return ""


@contextlib.contextmanager
def _mapped(path: str) -> Iterator[Any]:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            try:
                yield mapped
            except (IndexError, ValueError) as error:
                raise ModelError(f"'{path}' is not an ONNX model: {error}") from error


def _locations(data: Any, message: str, at: int, end: int, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise ValueError("its graphs are nested too deeply")
    inner = _FIELDS[message]
    for number, begin, stop in _fields(data, at, end):
        kind = inner.get(number)
        if kind == "entry":
            entry = {key: data[first:last] for key, first, last in _fields(data, begin, stop)}
            if entry.get(1) == b"location":
                yield entry.get(2, b"").decode()
        elif kind is not None:
            yield from _locations(data, kind, begin, stop, depth + 1)


def _fields(data: Any, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields the number of each field that has a length, and where its content lies."""
    while at < end:
        key, at = _number(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _number(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == 2:
            size, at = _number(data, at)
            if at + size > end:
                raise ValueError("it is cut short")
            yield key >> 3, at, at + size
            at += size
        else:
            raise ValueError(f"it has a field of the unknown kind {kind}")


def _number(data: Any, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("it has a number of more than 64 bits")
