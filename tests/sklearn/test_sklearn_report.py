"""The report of a conversion: which steps are native, which Python, why, and the way out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

for needed in ("sklearn", "skops", "skl2onnx"):
    pytest.importorskip(needed)

from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.decomposition import NMF  # noqa: E402
from sklearn.ensemble import StackingClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler  # noqa: E402

import opgraft.sklearn  # noqa: E402

X = np.abs(np.random.default_rng(0).normal(size=(40, 4))).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


def nmf() -> Any:
    return NMF(2, max_iter=500, tol=0.1)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    pipeline = make_pipeline(MinMaxScaler(clip=True), nmf(), LogisticRegression()).fit(X, Y)
    return opgraft.sklearn.to_onnx(pipeline, X)


def kinds(model: Any) -> dict[str, str]:
    return {row.name: row.kind for row in opgraft.sklearn.report(model).rows}


def test_the_table(model: onnx.ModelProto) -> None:
    report = opgraft.sklearn.report(model)
    lines = str(report).splitlines()
    assert lines[0].split() == ["step", "estimator", "runs", "native", "with"]
    assert lines[2].split()[:3] == [
        "minmaxscaler", "sklearn.preprocessing._data.MinMaxScaler", "native",
    ]  # fmt: skip
    assert lines[3].split()[:3] == ["nmf", "sklearn.decomposition._nmf.NMF", "Python"]
    assert "a newer skl2onnx that has one" in lines[3]
    assert any(line.startswith("nmf: skl2onnx") and "no converter" in line for line in lines)
    assert lines[-1] == "to run it: opgraft.InferenceSession(model, allow=['sklearn'])"
    given = json.loads(report.to_json())
    assert given["is_portable"] is False and given["allow"] == ["sklearn"]
    assert [row["kind"] for row in given["rows"]] == ["native", "python", "native"]


def test_a_native_model(tmp_path: Path) -> None:
    made = opgraft.sklearn.to_onnx(make_pipeline(MinMaxScaler(), LogisticRegression()).fit(X, Y), X)
    onnx.save(made, tmp_path / "model.onnx")
    report = opgraft.sklearn.report(tmp_path / "model.onnx")
    assert report.is_portable and report.allow == []
    assert str(report).endswith("to run it: any ONNX Runtime")
    assert "native with" not in str(report)


def test_names_inside(tmp_path: Path) -> None:
    """As in scikit-learn's parameters; clones that were never fitted are not listed."""
    columns = make_column_transformer(
        (MinMaxScaler(), [0, 1]), (make_pipeline(MinMaxScaler(clip=True), nmf()), [2, 3])
    )
    made = opgraft.sklearn.to_onnx(make_pipeline(columns, LogisticRegression()).fit(X, Y), X)
    inside = "columntransformer__pipeline__"
    assert kinds(made) == {
        "columntransformer__minmaxscaler": "native",
        f"{inside}minmaxscaler": "native",
        f"{inside}nmf": "python",
        "logisticregression": "native",
    }


def test_a_stack() -> None:
    stack = StackingClassifier(
        [("a", make_pipeline(MinMaxScaler(clip=True), nmf(), LogisticRegression())),
         ("b", LogisticRegression())], cv=2,
    ).fit(X, Y)  # fmt: skip
    found = kinds(opgraft.sklearn.to_onnx(stack, X))
    assert found["a__nmf"] == "python"
    assert {found["b"], found["final_estimator_"], found["a__minmaxscaler"]} == {"native"}


def test_methods_that_are_asked_for() -> None:
    fitted = make_pipeline(MinMaxScaler(), LogisticRegression()).fit(X, Y)
    made = opgraft.sklearn.to_onnx(fitted, X, methods=["predict", "predict_log_proba"])
    (row,) = [one for one in opgraft.sklearn.report(made).rows if one.kind == "python"]
    assert row.name == "logisticregression"
    assert row.advice.startswith("other methods")


def test_a_function() -> None:
    made = opgraft.sklearn.to_onnx(FunctionTransformer(np.log1p).fit(X), X)
    (row,) = opgraft.sklearn.report(made).rows
    assert (row.name, row.kind) == ("", "python")
    assert row.advice == "scikit-learn's own steps instead of a function"
    assert str(opgraft.sklearn.report(made)).splitlines()[2].startswith("FunctionTransformer ")


def test_models_that_say_nothing_or_lie(model: onnx.ModelProto) -> None:
    """The nodes are what runs: without metadata, or against it, they are what is told."""
    for text in (None, "[]", "no json", '[{"name": "all", "estimator": "e", "kind": "native"}]'):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for entry in list(changed.metadata_props):
            if entry.key == "opgraft.sklearn.steps":
                changed.metadata_props.remove(entry)
                if text is not None:
                    changed.metadata_props.add(key=entry.key, value=text)
        (row,) = opgraft.sklearn.report(changed).rows
        assert (row.estimator, row.kind) == ("sklearn.decomposition._nmf.NMF", "python")
        assert "no converter" in row.because


def test_the_doctor_names_the_steps(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")

    def doctor(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "opgraft", "doctor", "model.onnx", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    shown = doctor("--allow", "sklearn").stdout
    assert "nmf                 sklearn.decomposition._nmf.NMF" in shown
    assert "nmf: skl2onnx" in shown
    report = json.loads(doctor("--json").stdout)  # not allowed: the steps are told all the same
    assert [one["name"] for one in report["steps"]] == ["minmaxscaler", "nmf", "logisticregression"]
    packages = json.loads(doctor("--json", "--allow", "sklearn").stdout)["ship"]
    assert {"scikit-learn", "skops"} <= {one["name"] for one in packages}
