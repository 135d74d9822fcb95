"""`opgraft doctor` on stored estimators of scikit-learn: reports all that they need at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from conftest import pyop_model
from opgraft import _pyop
from opgraft._doctor import _doctor, _doctor_report

onnx = pytest.importorskip("onnx")
for needed in ("sklearn", "skops", "skl2onnx"):
    pytest.importorskip(needed)

OWN = "own_stored_steps"
SOURCE = """
import pathlib

pathlib.Path("imported").touch()


def double(X):
    return X * 2
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of two Python steps; the second holds a function of the user."""
    from sklearn.decomposition import NMF
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    import opgraft.sklearn

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, OWN, raising=False)
    Path(f"{OWN}.py").write_text(SOURCE)
    function = __import__(OWN).double
    X = np.abs(np.random.default_rng(0).normal(size=(20, 4))).astype(np.float32)
    steps = make_pipeline(NMF(2, max_iter=500, tol=0.1), FunctionTransformer(function)).fit(X)
    onnx.save(opgraft.sklearn.to_onnx(steps, X), "model.onnx")
    Path("imported").unlink()
    return "model.onnx"


def examine(model: str, *allow: str) -> tuple[str, dict[str, Any]]:
    diagnosis = _doctor.diagnose(model, onnxruntime.__version__, allow=allow)
    return _doctor.render(diagnosis), _doctor_report.as_json(diagnosis)


def holder(report: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in report["operators"] if one["problem"]]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("is_prepared", [False, True])
def test_one_round_is_enough(model: str, is_prepared: bool) -> None:
    if is_prepared:
        import opgraft

        opgraft.prepare(model).save("prepared.onnx")
        model = "prepared.onnx"
    text, report = examine(model)
    assert not Path("imported").exists()
    assert holder(report)["permissions"] == ["sklearn", f"{OWN}.double"]
    assert f"node 'FunctionTransformer_in_Python' holds '{OWN}.double'" in text
    assert f'Fix: --allow sklearn --allow {OWN}.double (in a program allow=["sklearn", ' in text
    assert "2 things are missing" in text.splitlines()[0]
    text, report = examine(model, "sklearn", f"{OWN}.double")
    assert report["status"] == "ok"


def test_the_node_that_holds_it_is_named(model: str) -> None:
    text, report = examine(model, "sklearn")
    assert holder(report)["problem_nodes"] == [
        {"name": "FunctionTransformer_in_Python", "place": ""}
    ]
    assert "\n  node 'FunctionTransformer_in_Python'\n" in text
    assert "NMF_in_Python" not in text


def test_what_is_allowed_already_is_not_asked_for(model: str) -> None:
    _, report = examine(model, OWN)
    assert holder(report)["permissions"] == ["sklearn"]


def test_a_package_is_not_the_name_that_allows_estimators(model: str) -> None:
    import opgraft

    Path("imported").touch()
    raw = onnx.load(model)
    with pytest.raises(opgraft.PolicyError, match=r"'sklearn\.\*' does not allow it: write 'skl"):
        opgraft.InferenceSession(_elsewhere(raw), allow=["sklearn.*"])


def _elsewhere(model: Any) -> Any:
    """Changes the estimator, since one that this process has written needs no allowance."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "estimator":
                held = np.append(onnx.numpy_helper.to_array(attribute.t), np.uint8(0))
                attribute.t.CopyFrom(onnx.numpy_helper.from_array(held))
    return model


def test_what_is_held_is_said_in_one_place() -> None:
    text = _pyop.held_for("opgraft.sklearn.operators")
    assert text.startswith("a stored scikit-learn estimator") and "crash this one" in text
    assert _pyop.held_for("os") == ""
    assert _pyop.held(pyop_model("any").SerializeToString()) == []


def test_the_steps_of_a_file(model: str) -> None:
    import opgraft
    import opgraft.sklearn

    expected = opgraft.sklearn.python_steps(onnx.load(model))
    assert len(expected) == 2
    assert opgraft.sklearn.python_steps(model) == expected
    assert opgraft.sklearn.python_steps(Path(model)) == expected
    with pytest.raises(TypeError, match="expected a model, or the path of one, not int"):
        opgraft.sklearn.python_steps(3)  # type: ignore[arg-type]
    Path("no.onnx").write_bytes(b"no model at all")
    with pytest.raises(opgraft.ModelError, match=r"'no\.onnx' is not an ONNX model"):
        opgraft.sklearn.python_steps("no.onnx")
