"""Makes an OrtValue from any array, with an operator that returns it in a separate session.

For strings, from which onnxruntime's Python package cannot make OrtValues, and for the types that
onnxruntime 1.19 lacks.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
import onnxruntime

_local = threading.local()


class Carrier:
    """The operator: no inputs, one output."""

    def compute(self) -> np.ndarray:
        array: np.ndarray = _local.array
        return array


def carry(array: np.ndarray, number: int) -> onnxruntime.OrtValue:
    """Returns an OrtValue with the elements of the array, of the element type `number`."""
    _local.array = array
    try:
        return _session(number).run_with_ort_values(["y"], {})[0]
    finally:
        del _local.array


@cache
def _session(number: int) -> onnxruntime.InferenceSession:
    from opgraft._run._prepare import prepare
    from opgraft._run._session import register

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # it runs in the calling thread
    options.log_severity_level = 4
    register(options, allow=[__name__])
    prepared = prepare(_model(number))
    return onnxruntime.InferenceSession(prepared.bytes, options, providers=["CPUExecutionProvider"])


def _model(number: int) -> bytes:
    """Returns a serialised ModelProto with one PyOp. Does not need the package onnx."""

    def text(name: str, value: str) -> bytes:
        return _message(5, _message(1, name) + _message(4, value) + _integer(20, 3))

    types = _message(5, _message(1, "output_types") + _integer(8, number) + _integer(20, 7))
    node = _message(2, "y") + _message(3, "carrier") + _message(4, "PyOp") + _message(7, "opgraft")
    node += text("module", __name__) + text("class_name", "Carrier") + types
    output = _message(1, "y") + _message(2, _message(1, _integer(1, number)))
    graph = _message(1, node) + _message(2, "carrier") + _message(12, output)
    return _integer(1, 8) + _message(7, graph) + _message(8, _message(1, "") + _integer(2, 17))


def _integer(field: int, value: int) -> bytes:
    return bytes(_varint(field << 3)) + bytes(_varint(value))


def _message(field: int, value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return bytes(_varint(field << 3 | 2)) + bytes(_varint(len(content))) + content


def _varint(value: int) -> list[int]:
    digits: list[Any] = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return [*digits, value]
