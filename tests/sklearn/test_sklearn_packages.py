"""What is said where a package that opgraft.sklearn needs is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hidden_packages import refusal, without

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALL = 'which is not installed: pip install "opgraft[sklearn]"'


@pytest.mark.parametrize("module, package", [("sklearn", "scikit-learn"), ("skops", "skops")])
def test_without_what_runs_models(module: str, package: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    told = f"{module}; opgraft.sklearn needs {package}, {INSTALL}"
    for name in ("opgraft.sklearn", "opgraft.sklearn.operators"):
        assert without(module, refusal(f"import {name}")) == told


@pytest.mark.parametrize("package", ["onnx", "skl2onnx"])
def test_without_what_converts(package: str) -> None:
    pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
    names = ("to_onnx", "convert_sklearn", "add_pyop")
    statements = [f"from opgraft.sklearn import {name}" for name in names]
    told = [f"{package}; opgraft.sklearn.{name} needs {package}, {INSTALL}" for name in names]
    printed = without(package, "import opgraft.sklearn\n" + "".join(map(refusal, statements)))
    assert printed.splitlines() == told


def test_models_are_read_without_skl2onnx() -> None:
    pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
    code = """
import onnx, opgraft.sklearn, opgraft.sklearn.operators
print(opgraft.sklearn.python_steps(onnx.ModelProto()))
"""
    assert without("skl2onnx", code) == "[]"


def test_a_process_without_torch_stays_so() -> None:
    """skops looks through all packages of scikit-learn, one of which imports torch."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
    code = """if True:
        import sys
        import opgraft.sklearn.operators
        import skops.io._trusted_types as trusted
        print("torch" in sys.modules, sorted(trusted.SKLEARN_ESTIMATOR_TYPE_NAMES))
        import sklearn.externals.array_api_compat.torch
        print("torch" in sys.modules)
    """
    plain = "import skops.io._trusted_types as t; print(sorted(t.SKLEARN_ESTIMATOR_TYPE_NAMES))"
    ours, all_known = (
        subprocess.run([sys.executable, "-c", one], capture_output=True, text=True, check=True)
        for one in (code, plain)
    )
    assert ours.stdout.splitlines() == [f"False {all_known.stdout.strip()}", "True"]


def test_the_documentation_says_what_to_install() -> None:
    for page in ("docs/start/install.md", "docs/sklearn.md"):
        assert 'pip install "opgraft[sklearn]"' in (REPOSITORY / page).read_text(), page
