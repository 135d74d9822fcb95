"""The code of docs/sklearn.md and of the docstrings, run as it stands."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")

from sklearn.decomposition import NMF

import opgraft
import opgraft.sklearn

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_guide(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    page = (REPOSITORY / "docs" / "sklearn.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    files = [block for block in blocks if block.startswith("# own_steps.py")]
    code = "\n".join(block for block in blocks if block not in files)
    result = re.compile(r"^(\[.*?)  # (\[.*)$", re.M)
    assert len(result.findall(code)) == 2 and len(files) == 1
    (tmp_path / "own_steps.py").write_text(files[0])
    (tmp_path / "guide.py").write_text(result.sub(r"assert repr(\1) == '''\2''', \1", code))
    done = subprocess.run(
        [sys.executable, "guide.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_readme(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)
    (code,) = (one for one in blocks if "opgraft.sklearn" in one)
    (tmp_path / "readme.py").write_text(code + "assert len(probabilities) == len(X)\n")
    done = subprocess.run(
        [sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_docstrings() -> None:
    X = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    names = {"np": np, "opgraft": opgraft, "NMF": NMF, "X": X, "W": X}
    names["add_pyop"] = opgraft.sklearn.add_pyop
    found = 0
    for name in ("_convert._to_onnx", "_convert._report", "_convert._convert_sklearn"):
        module = importlib.import_module(f"opgraft.sklearn.{name}")
        runner = doctest.DocTestRunner()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs=names):
                found += len(test.examples)
                runner.run(test)
        assert runner.summarize(verbose=False).failed == 0
    assert found >= 4


def test_what_runs_a_model_needs_neither_skl2onnx_nor_onnxruntime() -> None:
    """A C++ program has an ONNX Runtime of its own."""
    code = """
import sys, opgraft.sklearn.operators
print({"onnx", "onnxruntime", "skl2onnx", "pandas"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "onnxruntime" not in done.stdout and "skl2onnx" not in done.stdout
