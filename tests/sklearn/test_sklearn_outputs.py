"""The methods that a converted model can have as outputs, and what it takes and gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from iris_data import LOGISTIC, X, of_a_stranger, y  # noqa: E402
from sklearn.cluster import KMeans, MeanShift  # noqa: E402
from sklearn.compose import ColumnTransformer, make_column_transformer  # noqa: E402
from sklearn.covariance import EllipticEnvelope  # noqa: E402
from sklearn.decomposition import NMF, PCA, MiniBatchSparsePCA, SparsePCA  # noqa: E402
from sklearn.dummy import DummyClassifier, DummyRegressor  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer  # noqa: E402
from sklearn.impute import MissingIndicator, SimpleImputer  # noqa: E402
from sklearn.kernel_ridge import KernelRidge  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from sklearn.model_selection import TunedThresholdClassifierCV  # noqa: E402
from sklearn.multioutput import (  # noqa: E402
    ClassifierChain,
    MultiOutputClassifier,
    RegressorChain,
)
from sklearn.neighbors import (  # noqa: E402
    KernelDensity,
    NearestCentroid,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from conftest import Write  # noqa: E402

NAMES = np.array(["setosa", "versicolor", "virginica"])


def python_steps(model: onnx.ModelProto) -> list[str]:
    return [one.estimator.rpartition(".")[2] for one in opgraft.sklearn.python_steps(model)]


def run(model: onnx.ModelProto, feed: dict[str, Any], allow: Any = ()) -> dict[str, Any]:
    session = opgraft.InferenceSession(model, allow=allow)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


@pytest.mark.parametrize(
    "estimator, in_python",
    [
        (LogisticRegression(**LOGISTIC), []),
        (make_pipeline(StandardScaler(), LogisticRegression(**LOGISTIC)), []),
        (RandomForestClassifier(5, random_state=0), []),
        (SVC(probability=False), None),
        (NearestCentroid(), ["NearestCentroid"]),
        (make_pipeline(StandardScaler(), NearestCentroid()), ["NearestCentroid"]),
        (KMeans(3, random_state=0), None),
        (make_pipeline(PCA(2), GaussianMixture(3, random_state=0)), None),
        (EllipticEnvelope(random_state=0), ["EllipticEnvelope"]),
        (make_pipeline(StandardScaler(), KernelDensity()), ["KernelDensity"]),
        (make_pipeline(StandardScaler(), NMF(2)), None),
        (KernelRidge(), ["KernelRidge"]),
        (PCA(2), None),
    ],
)
def test_every_method(estimator: Any, in_python: list[str] | None) -> None:
    """Asked for alone and together."""
    data = np.abs(X)
    if isinstance(getattr(estimator, "steps", [[None, None]])[-1][1], NMF):
        estimator = make_pipeline(FunctionTransformer(np.sqrt), NMF(2, max_iter=900))
    fitted = estimator.fit(data, y)
    asked = [
        one
        for one in "predict predict_proba decision_function transform score_samples".split()
        if hasattr(fitted, one)
    ]
    for methods in (asked, *([one] for one in asked)):
        model = opgraft.sklearn.to_onnx(fitted, data, methods=methods)
        onnx.checker.check_model(model)
        if in_python is not None:
            assert set(python_steps(model)) <= set(in_python)
        outputs = run(model, {"X": data})
        assert list(outputs) == methods
        for method in methods:
            wanted = getattr(fitted, method)(data)
            got = outputs[method]
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(
                    got.reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max()
                )
            else:
                assert (got.reshape(wanted.shape) == wanted).all()


def test_a_method_that_is_not_there() -> None:
    fitted = Ridge().fit(X, y)
    with pytest.raises(opgraft.Error, match="no method 'predict_proba'.*it has: predict"):
        opgraft.sklearn.to_onnx(fitted, X, methods=["predict_proba"])
    with pytest.raises(opgraft.Error, match="no method '__init__'"):
        opgraft.sklearn.to_onnx(fitted, X, methods=["__init__"])
    with pytest.raises(opgraft.Error, match="each once"):
        opgraft.sklearn.to_onnx(fitted, X, methods=["predict", "predict"])


@pytest.mark.parametrize("labels", [y, y.astype(np.int32) + 5, NAMES[y], y > 0, y.astype(float)])
@pytest.mark.parametrize("classifier", [DummyClassifier(strategy="prior"), NearestCentroid()])
def test_labels(labels: Any, classifier: Any) -> None:
    fitted = make_pipeline(StandardScaler(), classifier).fit(X, labels)
    model = opgraft.sklearn.to_onnx(fitted, X, options={"zipmap": False})
    assert python_steps(model) == [type(classifier).__name__]
    label, probabilities = run(model, {"X": X}).values()
    assert (label == fitted.predict(X)).all()
    assert label.dtype == (object if labels.dtype.kind == "U" else np.int64)
    np.testing.assert_allclose(probabilities, fitted.predict_proba(X), atol=1e-4)
    zipped = opgraft.sklearn.to_onnx(fitted, X)
    _, rows = run(zipped, {"X": X}).values()
    assert list(rows[0]) == list(fitted.classes_)


def test_strings_and_columns_of_a_frame() -> None:
    frame = pandas.DataFrame(
        {
            "length": X[:, 0],
            "kind": NAMES[y],
            "count": (X[:, 1] * 10).astype(np.int64),
            "width": X[:, 2],
        }
    )
    columns = make_column_transformer(
        (OneHotEncoder(), ["kind"]),
        (SplineTransformer(), ["length", "width"]),
        (StandardScaler(), ["count"]),
    )
    fitted = make_pipeline(columns, LogisticRegression(**LOGISTIC)).fit(frame, y)
    model = opgraft.sklearn.to_onnx(fitted, frame, options={"zipmap": False})
    assert python_steps(model) == ["SplineTransformer"]
    assert [one.name for one in model.graph.input] == ["length", "kind", "count", "width"]
    feed = {name: frame[name].to_numpy().reshape(-1, 1) for name in frame}
    feed["kind"] = feed["kind"].astype(object)
    label, probabilities = run(model, feed).values()
    assert (label == fitted.predict(frame)).all()
    np.testing.assert_allclose(probabilities, fitted.predict_proba(frame), atol=1e-4)


FUNCTIONS = """
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    import pandas

    def ratio(X):
        return X / (1 + X.sum(axis=1, keepdims=True))

    def in_place(X):
        X *= 2
        return X

    def from_frame(X):
        result = pandas.DataFrame({"both": X["length"] * X["count"]})
        result["long"] = (X["kind"].str.len() > 6).astype(float)
        return result

    def shout(X):
        return np.array([[text.upper() for text in row] for row in X], dtype=object)

    class Shift(TransformerMixin, BaseEstimator):
        def __init__(self, by=1.0):
            self.by = by
        def fit(self, X, y=None):
            self.mean_ = np.asarray(X).mean(axis=0)
            return self
        def transform(self, X):
            return X - self.mean_ + self.by

    class Nearest(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_, indices = np.unique(y, return_inverse=True)
            self.centres_ = np.stack([X[indices == i].mean(0) for i in range(len(self.classes_))])
            return self
        def decision_function(self, X):
            return -((X[:, None] - self.centres_) ** 2).sum(-1)
        def predict_proba(self, X):
            e = np.exp(self.decision_function(X))
            return e / e.sum(1, keepdims=True)
        def predict(self, X):
            return self.classes_[self.decision_function(X).argmax(1)]
"""


@pytest.fixture
def functions(write_module: Write) -> Any:
    import importlib

    return importlib.import_module(write_module(FUNCTIONS))


def test_a_function_of_a_users(functions: Any) -> None:
    for function in (functions.ratio, functions.in_place):
        steps = (StandardScaler(), FunctionTransformer(function), Ridge())
        fitted = make_pipeline(*steps).fit(X, y)
        model = opgraft.sklearn.to_onnx(fitted, given := X.copy())
        assert (given == X).all()
        (step,) = opgraft.sklearn.python_steps(model)
        assert step.estimator.endswith("FunctionTransformer")
        assert step.allow == ("sklearn", f"{functions.__name__}.{function.__name__}")
        strange = of_a_stranger(model)
        for made, allow in (
            (model, ()),
            (strange, step.allow),
            (strange, ["sklearn", functions.__name__]),
        ):
            given = X.copy()
            (output,) = run(made, {"X": given}, allow).values()
            np.testing.assert_allclose(output.ravel(), fitted.predict(X), rtol=1e-3, atol=1e-3)
            assert (given == X).all()
        for allow in step.allow:
            with pytest.raises(opgraft.PolicyError, match="not allow"):
                opgraft.InferenceSession(strange, allow=[allow])


def test_a_function_that_writes_inside_a_step(functions: Any) -> None:
    """The runtime's memory is nobody's to write to, at whatever depth."""
    inner = make_pipeline(FunctionTransformer(functions.in_place), NearestCentroid())
    fitted = TunedThresholdClassifierCV(inner, cv=2).fit(X.copy(), y > 1)
    given = X.copy()
    model = opgraft.sklearn.to_onnx(fitted, given, options={"zipmap": False})
    assert (given == X).all()
    assert python_steps(model) == ["TunedThresholdClassifierCV"]
    given = X.copy()
    label, _ = run(model, {"X": given}, [functions.__name__]).values()
    assert (given == X).all()
    assert (label == fitted.predict(X.copy())).all()


def test_a_function_of_numpys_asks_nobody() -> None:
    fitted = make_pipeline(FunctionTransformer(np.log1p), Ridge()).fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, X)
    (output,) = run(model, {"X": X}).values()
    np.testing.assert_allclose(output.ravel(), fitted.predict(X), rtol=1e-3)


def test_a_function_of_several_columns(functions: Any) -> None:
    frame = pandas.DataFrame(
        {"length": X[:, 0], "kind": NAMES[y], "count": (X[:, 1] * 10).astype(np.int64)}
    )
    columns = ColumnTransformer(
        [
            ("own", FunctionTransformer(functions.from_frame), ["length", "kind", "count"]),
            ("scaled", StandardScaler(), ["length"]),
        ]
    )
    fitted = make_pipeline(columns, Ridge()).fit(frame, y)
    model = opgraft.sklearn.to_onnx(fitted, frame)
    assert python_steps(model) == ["FunctionTransformer"]
    feed = {name: frame[name].to_numpy().reshape(-1, 1) for name in frame}
    feed["kind"] = feed["kind"].astype(object)
    (output,) = run(model, feed, [functions.__name__]).values()
    np.testing.assert_allclose(output.ravel(), fitted.predict(frame), rtol=1e-3, atol=1e-3)


def test_a_function_of_strings(functions: Any) -> None:
    texts = np.array([["a", "b"], ["c", "a"]] * 3, dtype=object)
    fitted = make_pipeline(FunctionTransformer(functions.shout), OneHotEncoder()).fit(texts)
    model = opgraft.sklearn.to_onnx(fitted, texts)
    assert python_steps(model) == ["FunctionTransformer"]
    (output,) = run(model, {"X": texts}, [functions.__name__]).values()
    np.testing.assert_array_equal(output, fitted.transform(texts).toarray())


def test_estimators_of_a_users(functions: Any) -> None:
    for labels in (y, NAMES[y]):
        steps = (functions.Shift(by=2.0), StandardScaler(), functions.Nearest())
        fitted = make_pipeline(*steps).fit(X, labels)
        model = opgraft.sklearn.to_onnx(fitted, X)
        assert python_steps(model) == ["Shift", "Nearest"]
        label, rows = run(model, {"X": X}, [functions.__name__]).values()
        assert (label == fitted.predict(X)).all()
        probabilities = [[row[one] for one in fitted.classes_] for row in rows]
        np.testing.assert_allclose(probabilities, fitted.predict_proba(X), atol=1e-4)


def test_missing_values() -> None:
    holes = X.copy()
    holes[::5, 1] = np.nan
    for fitted, steps in (
        (MissingIndicator().fit(holes), ["MissingIndicator"]),
        (make_pipeline(SimpleImputer(), SplineTransformer(), Ridge()).fit(holes, y),
         ["SplineTransformer"]),
        (HistGradientBoostingClassifier(max_iter=5).fit(holes, y), []),
    ):  # fmt: skip
        model = opgraft.sklearn.to_onnx(fitted, holes)
        assert python_steps(model) == steps
        output = next(iter(run(model, {"X": holes}).values()))
        method = fitted.predict if hasattr(fitted, "predict") else fitted.transform
        np.testing.assert_allclose(output.reshape(method(holes).shape), method(holes), atol=1e-3)


def test_several_outputs() -> None:
    targets = np.stack([y, 2 * y], 1).astype(float)
    for fitted in (DummyRegressor().fit(X, targets), KernelRidge().fit(X, targets)):
        model = opgraft.sklearn.to_onnx(fitted, X)
        (output,) = run(model, {"X": X}).values()
        np.testing.assert_allclose(output, fitted.predict(X), rtol=1e-3, atol=1e-3)
    labels = np.stack([y, y > 0], 1).astype(np.int64)
    for inner in (DummyClassifier(strategy="prior"), NearestCentroid()):
        fitted = MultiOutputClassifier(inner).fit(X, labels)
        model = opgraft.sklearn.to_onnx(fitted, X)
        label, probabilities = run(model, {"X": X}).values()
        assert (label == fitted.predict(X)).all()
        for got, wanted in zip(probabilities, fitted.predict_proba(X), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-4)
    several = DummyClassifier(strategy="prior").fit(X, labels)
    model = opgraft.sklearn.to_onnx(several, X)
    label, probabilities = run(model, {"X": X}).values()
    assert (label == several.predict(X)).all() and len(probabilities) == 2


@pytest.mark.parametrize("link, in_python", [(Ridge(), []), (KernelRidge(), ["KernelRidge"] * 3)])
def test_a_chain_of_regressors(link: Any, in_python: list[str]) -> None:
    targets = np.stack([y, X[:, 0] + y, 2 * y], 1).astype(float)
    fitted = RegressorChain(link, order=[2, 0, 1]).fit(X, targets)
    model = opgraft.sklearn.to_onnx(fitted, X)
    assert python_steps(model) == in_python
    (output,) = run(model, {"X": X}).values()
    np.testing.assert_allclose(output, fitted.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "link, in_python",
    [
        (LogisticRegression(**LOGISTIC), []),
        (make_pipeline(StandardScaler(), LogisticRegression(**LOGISTIC)), []),
        (make_pipeline(StandardScaler(), NearestCentroid()), ["NearestCentroid"] * 2),
    ],
)
def test_a_chain_of_classifiers(link: Any, in_python: list[str]) -> None:
    labels = np.stack([y > 1, y > 0], 1).astype(np.int64)
    fitted = ClassifierChain(link, order=[1, 0]).fit(X, labels)
    model = opgraft.sklearn.to_onnx(fitted, X)
    assert python_steps(model) == in_python
    label, probabilities = run(model, {"X": X}).values()
    assert (label == fitted.predict(X)).all()
    np.testing.assert_allclose(probabilities, fitted.predict_proba(X), atol=1e-4)
    model = opgraft.sklearn.to_onnx(fitted, X, methods=["predict_proba", "predict"])
    assert python_steps(model) == in_python


def test_texts_and_sparse_results() -> None:
    texts = np.array(["the cat sat", "a dog ran", "the dog sat", "far away"] * 5)
    labels = np.arange(20) % 2
    for vectorizer in (HashingVectorizer(n_features=16), TfidfVectorizer()):
        fitted = vectorizer.fit(texts)
        model = opgraft.sklearn.to_onnx(fitted, texts)
        (output,) = run(model, {"X": texts.astype(object).reshape(-1, 1)}).values()
        np.testing.assert_allclose(output, fitted.transform(texts).toarray(), atol=1e-6)
        pipeline = make_pipeline(vectorizer, LogisticRegression()).fit(texts, labels)
        model = opgraft.sklearn.to_onnx(pipeline, texts, options={"zipmap": False})
        label, _ = run(model, {"X": texts.astype(object).reshape(-1, 1)}).values()
        assert (label == pipeline.predict(texts)).all()
    assert python_steps(opgraft.sklearn.to_onnx(MeanShift().fit(X), X)) == ["MeanShift"]


@pytest.mark.parametrize("kind", [SparsePCA, MiniBatchSparsePCA])
def test_one_row_of_a_sparse_decomposition(kind: Any) -> None:
    """scikit-learn itself gives its values as a vector, so that one row looks like many."""
    fitted = kind(3, max_iter=9, random_state=0).fit(X)
    assert fitted.transform(X[:1]).shape == (3,)
    for sample in (X[:9], X[:1]):
        session = opgraft.InferenceSession(opgraft.sklearn.to_onnx(fitted, sample))
        for rows in (X[:1], X[:2]):
            (values,) = session.run(None, {"X": rows})
            np.testing.assert_allclose(values, fitted.transform(X[:5])[: len(rows)], 1e-5, 1e-5)


@pytest.mark.parametrize("target", [y.astype(np.float64), np.c_[y, y], y])
def test_rows_without_a_neighbour(target: Any) -> None:
    """As scikit-learn has them, also where the rows of the conversion had neighbours all."""
    rows = np.vstack([X[:3], np.full((1, 4), 100, np.float32)])
    with pytest.warns():  # of the lonely row
        fitted = RadiusNeighborsRegressor(50).fit(X, target)
        wanted = fitted.predict(rows)
        model = opgraft.sklearn.to_onnx(fitted, X[:9])
        (values,) = opgraft.InferenceSession(model).run(None, {"X": rows})
        np.testing.assert_allclose(values.reshape(wanted.shape), wanted, 1e-6)
    fitted = RadiusNeighborsClassifier(50, outlier_label=7).fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, X[:9])
    assert opgraft.InferenceSession(model).run(None, {"X": rows})[0].tolist() == [0, 0, 0, 7]
