"""Models that ask for what is no operator: `opgraft doctor` must not hand out the line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from conftest import pyop_model
from opgraft import _pyop
from opgraft._doctor import _doctor, _doctor_report, _vouching

CLASS = "class Op:\n    def compute(self, x): return x + x\n"
DECLARATION = """
import opgraft

@opgraft.op("far::Twice")
def twice(x):
    return x + x
"""
MARK = "open('imported', 'w').close()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, and beside it one for packages that are installed."""
    installed = tmp_path / "site-packages"
    (tmp_path / "here").mkdir()
    installed.mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "here"), str(installed), *sys.path])
    return tmp_path


def declared_model(module: str) -> onnx.ModelProto:
    model = pyop_model("unused")
    node = onnx.helper.make_node("Twice", ["x"], ["y"], "node", domain="far")
    model.graph.node[0].CopyFrom(node)
    model.opset_import.add(domain="far", version=1)
    model.metadata_props.add(key="opgraft.module.far::Twice", value=module)
    return model


def examine(model: onnx.ModelProto, *allow: str) -> tuple[str, dict[str, Any]]:
    """The report for people, and what the one for programs has of the operator."""
    onnx.save(model, "model.onnx")
    diagnosis = _doctor.diagnose("model.onnx", onnxruntime.__version__, allow=allow)
    assert diagnosis.status == "missing"
    text, report = _doctor.render(diagnosis), _doctor_report.as_json(diagnosis)
    assert not Path("imported").exists()
    (operator,) = report["operators"]
    if operator["is_doubtful"]:
        for said in (text, json.dumps(report)):
            assert "--allow" not in said
            assert "allow=[" not in said
            assert "OPGRAFT_ALLOW" not in said
        assert "WARNING" in text.splitlines()[0]
        assert "do not allow" in operator["remedy"]
        assert operator["stub"] is None
    return text, operator


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("subprocess", "Popen"), ("os.path", "join")]
)
def test_the_standard_library(folder: Path, module: str, name: str) -> None:
    text, operator = examine(pyop_model(module, name))
    assert operator["is_doubtful"]
    assert f"WARNING: this model asks to run {module}.{name}, of Python's standard" in text
    assert "can run programs" in text


def test_the_standard_library_by_metadata(folder: Path) -> None:
    _, operator = examine(declared_model("runpy"))
    assert operator["is_doubtful"]
    assert "standard library" in operator["problem"]


def test_what_an_allowed_module_brings_along(folder: Path) -> None:
    """The module is allowed, the class in it is another's; the session says so."""
    Path("brings_along.py").write_text("from subprocess import Popen as Op\n")
    model = pyop_model("brings_along", compute="communicate")
    _, operator = examine(model, "brings_along")
    assert operator["is_doubtful"]
    assert operator["permissions"] == ["subprocess"]


def test_a_module_of_ones_own_that_is_no_operator(folder: Path) -> None:
    Path("deploy.py").write_text(MARK + "def everything(): pass\n")
    for model in (pyop_model("deploy"), declared_model("deploy")):
        _, operator = examine(model)
        assert operator["is_doubtful"]
        assert "deploy.py has nothing of that name" in operator["problem"]


def test_a_module_of_ones_own(folder: Path) -> None:
    """The line, and in the same report what it means."""
    Path("ones_own.py").write_text(MARK + CLASS + DECLARATION)
    for model in (pyop_model("ones_own"), declared_model("ones_own")):
        text, operator = examine(model)
        assert not operator["is_doubtful"]
        assert "  Fix: --allow ones_own (in a program" in text
        assert "you trust this file as you trust a program" in text


def test_an_installed_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class proves nothing: the model chooses class and method. A declaration does."""
    (folder / "site-packages" / "installed_one.py").write_text(MARK + CLASS)
    _, operator = examine(pyop_model("installed_one"))
    assert operator["is_doubtful"]
    assert "of the installed package 'installed_one'" in operator["problem"]
    target = folder / "target"  # as pip install --target makes one
    (target / "one-1.0.dist-info").mkdir(parents=True)
    (target / "targeted").mkdir()
    (target / "targeted" / "__init__.py").write_text(MARK + CLASS)
    monkeypatch.setattr(sys, "path", [str(target), *sys.path])
    assert examine(pyop_model("targeted"))[1]["is_doubtful"]
    onnx.save(pyop_model("installed_one"), "model.onnx")
    named = _doctor.diagnose("model.onnx", onnxruntime.__version__, imports=["installed_one"])
    assert (
        named.operators[0].remedy == '--allow installed_one (in a program allow=["installed_one"])'
    )
    Path("imported").unlink()
    (folder / "site-packages" / "installed_two.py").write_text(MARK + DECLARATION)
    text, operator = examine(declared_model("installed_two"))
    assert not operator["is_doubtful"]
    assert "  Fix: --allow installed_two" in text


@pytest.mark.parametrize(
    "name",
    "posix.system builtins.eval pickle pty _posixsubprocess importlib.util ctypes numpy.f2py "
    "numpy.not_there onnxruntime opgraft._run pytest aten::from_file image::write_file".split(),
)
def test_names_that_get_no_line(name: str) -> None:
    doubt = _vouching.doubt_of(name, name)
    assert doubt is not None
    assert "do not allow" in doubt.remedy


def test_only_operators_of_ours_are_vouched_for() -> None:
    assert all(_vouching.doubt_of(name, name) is None for name in _pyop.OUR_MODULES)
    assert _vouching.doubt_of("nowhere_to_be_found.inner", "it") is None


def estimator_model(stored: bytes, version: str) -> onnx.ModelProto:
    held = numpy_helper.from_array(np.frombuffer(stored, np.uint8))
    model = pyop_model(
        "opgraft.sklearn.operators", "Estimator", input_types=[1], estimator=held,
        methods=["transform"], dtypes=["float32"], ranks=[2], scikit_learn=version,
    )  # fmt: skip
    model.graph.node[0].domain = "ai.opgraft.sklearn"
    return model


def test_a_stored_estimator(folder: Path) -> None:
    """It is allowed by the name "sklearn", and the report says what that lets in."""
    text, operator = examine(estimator_model(b"anything", "1.0"))
    assert not operator["is_doubtful"]
    assert operator["permissions"] == ["sklearn"]
    assert "it holds a stored scikit-learn estimator, which can do anything that a program" in text
    assert '  Fix: --allow sklearn (in a program allow=["sklearn"])' in text
    assert "only if you trust this file as you trust a program" in text


def test_a_stored_estimator_that_is_allowed(folder: Path) -> None:
    """What it holds beyond scikit-learn is asked for by its own name, and not vouched for."""
    skops_io = pytest.importorskip("skops.io", reason="skops is not installed")
    import sklearn
    from sklearn.preprocessing import FunctionTransformer

    stored = skops_io.dumps(FunctionTransformer(func=os.system))
    _, operator = examine(estimator_model(stored, sklearn.__version__), "sklearn")
    assert operator["is_doubtful"]
    assert (operator["allowed"], operator["permissions"]) == (True, ["posix.system"])


@pytest.mark.parametrize(("module", "name"), [("os", "system"), ("numpy", "Foo")])
def test_no_file_of_pythons_or_of_a_package_is_to_be_changed(
    folder: Path, module: str, name: str
) -> None:
    """Where the user has allowed it already, too: there is no stub to write into os.py."""
    text, operator = examine(pyop_model(module, name), module)
    assert operator["problem"].startswith("WARNING")
    assert operator["stub"] is None and "write it into" not in text
