"""Texts with a zero in them: none is cut there, on its way in, out, or in an attribute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import Write, graph_model, pyop_model, run_model
from opgraft._base._library import runner_path, runtime_library

TEXTS = ["a\0b", "\0", "c\0", "\0d", ""]
INSIDE = ["a\0b", "\0d", "e"]  # what arrays of NumPy's U and S can hold


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array(TEXTS, object), TEXTS),
        (np.array(INSIDE), INSIDE),
        (np.array([text.encode() for text in INSIDE]), INSIDE),
        (TEXTS, TEXTS),
    ],
)
def test_an_input(write_module: Write, given: Any, expected: list[str]) -> None:
    module = write_module("class Op:\n    def compute(self, x): return [repr(one) for one in x]")
    session = opgraft.InferenceSession(pyop_model(module, type=TensorProto.STRING), allow=[module])
    (y,) = session.run(None, {"x": given})
    assert y.tolist() == [repr(one) for one in expected]
    with pytest.raises(opgraft.Error, match="is not valid UTF-8 and has a zero byte"):
        session.run(None, {"x": np.array([b"\xff\0a"])})


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (f"np.array({TEXTS}, object)", TEXTS),
        (f"{TEXTS}", TEXTS),
        (f"np.array({INSIDE})", INSIDE),
        ("np.str_('a\\0b\\0')", "a\0b\0"),
        ("'a\\0b\\0'", "a\0b\0"),
    ],
)
def test_a_result(write_module: Write, returned: str, expected: Any) -> None:
    module = write_module(f"class Op:\n    def compute(self, x): return {returned}")
    (y,) = run_model(
        pyop_model(module, type=TensorProto.STRING), np.array("", object), allow=[module]
    )
    assert y.tolist() == expected


def test_attributes_of_a_python_operator(write_module: Write) -> None:
    module = write_module(
        """
        class Op:
            def __init__(self, **attributes):
                self.attributes = attributes
            def compute(self, x):
                values = self.attributes
                return [values["text"], *values["texts"], *values["tensor"].tolist()]
        """
    )
    tensor = TensorProto(data_type=TensorProto.STRING, dims=[len(TEXTS)])
    tensor.string_data.extend(text.encode() for text in TEXTS)
    model = pyop_model(module, type=TensorProto.STRING, text="a\0", texts=TEXTS, tensor=tensor)
    (y,) = run_model(model, np.array("", object), allow=[module])
    assert y.tolist() == ["a\0", *TEXTS, *TEXTS]


def test_a_list_of_texts_of_a_pack(first_pack: opgraft.Pack) -> None:
    model = graph_model("(string[n] x) => (string[n] y) { y = test.packs.Shout (x) }")
    model.opset_import.append(helper.make_opsetid("test.packs", 1))
    model.graph.node[0].attribute.append(helper.make_attribute("ends", ["?\0", "!"]))
    (y,) = run_model(model, np.array(["a\0b"], object))
    assert y.tolist() == ["a\0b?\0!"]


def test_files_of_numpy(write_module: Write, tmp_path: Path, module_folder: Path) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x")
    onnx.save(pyop_model(module, type=TensorProto.STRING), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.array(INSIDE))
    arguments = ["--allow", module, "--input", f"x={tmp_path}/x.npy"]
    arguments += ["--output", f"y={tmp_path}/y.npy", str(tmp_path / "model.onnx")]
    environment = dict(os.environ, PYTHONPATH=str(module_folder), OPGRAFT_PYTHON=sys.executable)
    for command in (
        [runner_path(), "--onnxruntime", runtime_library()],
        [sys.executable, "-m", "opgraft", "run"],
    ):
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert '"a\\u0000b" "\\u0000d" "e"' in done.stdout, done.stderr
        assert np.load(tmp_path / "y.npy").tolist() == INSIDE
