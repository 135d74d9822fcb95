"""LightGBM and XGBoost in pipelines: native by onnxmltools, or with the line that installs it."""

from __future__ import annotations

import collections
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from iris_data import X, y  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._convert import _boosters  # noqa: E402

FRAME = pandas.DataFrame(X.astype(np.float64), columns=list("abcd")).assign(
    city=np.resize(["u", "v", "w", "u"], len(X))
)


def boosters(package: str, kind: str) -> Any:
    module = pytest.importorskip(package, reason=f"{package} is not installed")
    options = {"n_estimators": 5, "n_jobs": 1}
    if package == "lightgbm":
        return getattr(module, f"LGBM{kind}")(**options, verbose=-1)
    return getattr(module, f"XGB{kind}")(**options)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_native_in_a_pipeline(package: str, kind: str) -> None:
    pytest.importorskip("onnxmltools", reason="onnxmltools is not installed")
    columns = make_column_transformer(
        (StandardScaler(), list("abcd")), (OneHotEncoder(sparse_output=False), ["city"])
    )
    fitted = make_pipeline(columns, boosters(package, kind)).fit(FRAME, y)
    model = opgraft.sklearn.to_onnx(fitted, FRAME)
    assert opgraft.sklearn.python_steps(model) == []
    outputs = opgraft.InferenceSession(model).run(None, FRAME)
    np.testing.assert_allclose(outputs[0].ravel(), fitted.predict(FRAME), 1e-5)


class LGBMClassifier(ClassifierMixin, BaseEstimator):
    """Stands for LightGBM's, by its name and module."""

    def fit(self, X: Any, y: Any) -> LGBMClassifier:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_without_onnxmltools_the_line_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "onnxmltools.convert.lightgbm.operator_converters.LightGbm"
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(LGBMClassifier, "__module__", "lightgbm.sklearn")
    assert "Fix: pip install onnxmltools" in _boosters.remedy(LGBMClassifier)
    monkeypatch.setitem(sys.modules, "lightgbm", sys.modules[__name__])
    monkeypatch.setitem(sys.modules, "lightgbm.sklearn", sys.modules[__name__])
    fitted = make_pipeline(StandardScaler(), LGBMClassifier()).fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, X)
    (step,) = opgraft.sklearn.python_steps(model)
    assert "no converter for it; onnxmltools has one. Fix: pip install onnxmltools" in step.because


class KeepsBest(ClassifierMixin, BaseEstimator):
    """Has what LightGBM's estimators have: a dictionary that makes dictionaries."""

    def fit(self, X: Any, y: Any) -> KeepsBest:
        self.classes_ = np.unique(y)
        self.best_score_: Any = collections.defaultdict(collections.OrderedDict)
        self.best_score_["training"]["loss"] = 0.5
        return self

    def predict(self, X: Any) -> Any:
        assert not self.best_score_["another"]
        return np.full(len(X), self.classes_[0])


def test_a_dictionary_that_makes_dictionaries_is_stored() -> None:
    fitted = KeepsBest().fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, X)
    assert (opgraft.InferenceSession(model).run(None, {"X": X})[0] == 0).all()


def test_fitted_on_categories() -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    frame = FRAME.assign(city=FRAME["city"].astype("category"))
    fitted = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(frame, y)
    model = opgraft.sklearn.to_onnx(fitted, frame)
    label, _ = opgraft.InferenceSession(model).run(None, frame)
    np.testing.assert_array_equal(label, fitted.predict(frame))
