"""Golden models: what `opgraft prepare` writes, and what every later Opgraft must still run.

The files of a format are never changed. A new format gets a folder of its own.
"""

from __future__ import annotations

from pathlib import Path

import fake_gpu
import numpy as np
import onnx
import onnxruntime
import pytest
from fake_gpu import needs_plugins

import opgraft
from conftest import floats

HERE = Path(__file__).parent


def golden(name: str, format: int = 1) -> onnx.ModelProto:
    return onnx.load(HERE / f"format_{format}" / f"{name}.textproto", format="textproto")


@pytest.mark.parametrize("format", [1, 2, 3])
def test_what_is_written(format: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    imports = {1: [], 2: ["golden_declarations"], 3: ["golden_gpu_declarations"]}[format]
    prepared = opgraft.prepare(
        golden("original", format), runtime="1.24.4" if format == 3 else "1.19.2", imports=imports
    )
    assert onnx.ModelProto.FromString(prepared.bytes) == golden("prepared", format)


def test_a_kept_file_of_format_2_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=["golden_declarations"])
    session = onnxruntime.InferenceSession(golden("prepared", 2).SerializeToString(), options)
    v, p, h = session.run(["v", "p", "h"], {"x": floats(3, 2), "i": np.int64([4, 1, 0])})
    assert v.tolist() == [4, 1] and v.dtype == np.float64 and p.tolist() == [4, 1]
    np.testing.assert_array_equal(h, floats(3, 2) / 2)


@needs_plugins
def test_a_kept_file_of_format_3_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the fake GPU, with arrays that stand in for torch's."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.syspath_prepend(HERE.parent / "cuda")
    fake_gpu.start()
    import stand_in

    from opgraft._cuda import _gpu_arrays

    monkeypatch.setitem(_gpu_arrays.LIBRARIES, "torch", stand_in.Library)
    session = opgraft.InferenceSession(
        golden("prepared", 3), providers=fake_gpu.PROVIDERS, allow=["golden_gpu_declarations"]
    )
    v, p, s = session.run(["v", "p", "s"], {"x": floats(3, 2), "i": np.int64([4, 1, 0])})
    np.testing.assert_array_equal(v, floats(3, 2))
    assert p.tolist() == [4, 1, 0] and s == floats(3, 2).sum()


def test_a_kept_file_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=["golden_operators"])
    session = onnxruntime.InferenceSession(golden("prepared").SerializeToString(), options)
    x = floats(3, 2)
    y, n = session.run(["y", "n"], {"x": x})
    np.testing.assert_array_equal(y, np.concatenate([2.5 * x - 7 + 3 + 0.75, x]))
    assert n == 6
