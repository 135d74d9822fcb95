"""Golden models: what `opgraft prepare` writes, and what every later Opgraft must still run.

The files of a format are never changed. A new format gets a folder of its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import floats

HERE = Path(__file__).parent


def golden(name: str) -> onnx.ModelProto:
    return onnx.load(HERE / "format_1" / f"{name}.textproto", format="textproto")


def test_what_is_written() -> None:
    prepared = opgraft.prepare(golden("original"), runtime="1.19.2")
    assert onnx.ModelProto.FromString(prepared.bytes) == golden("prepared")


def test_a_kept_file_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=["golden_operators"])
    session = onnxruntime.InferenceSession(golden("prepared").SerializeToString(), options)
    x = floats(3, 2)
    y, n = session.run(["y", "n"], {"x": x})
    np.testing.assert_array_equal(y, np.concatenate([2.5 * x - 7 + 3 + 0.75, x]))
    assert n == 6
