"""Rows unlike those that a model was made with: missing values, zeros, unknown categories."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from iris_data import X, y  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    BaggingClassifier,
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import KNNImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression, SGDClassifier  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._convert import _standard  # noqa: E402

HOLES = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.float32("nan"), X)


def check(fitted: Any, rows: Any, others: Any, *, is_native: bool = True) -> None:
    """Converts with some rows, and compares on others."""
    model = opgraft.sklearn.to_onnx(fitted, rows, options=_without_maps(fitted))
    assert is_native == (opgraft.sklearn.python_steps(model) == [])
    outputs = opgraft.InferenceSession(model).run(None, {"X": others})
    methods = ["predict", "predict_proba"] if hasattr(fitted, "predict") else ["transform"]
    for method, output in zip(methods, outputs, strict=False):
        if not hasattr(fitted, method):
            continue
        wanted = getattr(fitted, method)(others)
        wanted = wanted.toarray() if hasattr(wanted, "toarray") else np.asarray(wanted)
        np.testing.assert_allclose(np.reshape(output, wanted.shape), wanted, 1e-5, 1e-6)


def _without_maps(fitted: Any) -> Any:
    return {"zipmap": False} if hasattr(fitted, "predict_proba") else None


@pytest.mark.parametrize("rows", [X, X.astype(np.float64)], ids=["float32", "float64"])
@pytest.mark.parametrize(
    "trees",
    [
        DecisionTreeClassifier(random_state=0),
        DecisionTreeRegressor(random_state=0),
        RandomForestClassifier(5, random_state=0),
        RandomForestRegressor(5, random_state=0),
        ExtraTreesClassifier(5, random_state=0),
        BaggingClassifier(n_estimators=5, random_state=0),
        IsolationForest(n_estimators=5, random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("is_missing_known", [False, True])
def test_trees_send_what_is_missing_where_scikit_learn_does(
    trees: Any, rows: Any, is_missing_known: bool
) -> None:
    trees.fit(HOLES if is_missing_known else X, y)
    is_native = not (isinstance(trees, IsolationForest) and rows.dtype == np.float64)
    check(trees, rows[:20], HOLES.astype(rows.dtype), is_native=is_native)


@pytest.mark.parametrize(
    "trees",
    [DecisionTreeClassifier(random_state=0), RandomForestClassifier(3, random_state=0)],
    ids=["tree", "forest"],
)
def test_trees_of_several_targets(trees: Any) -> None:
    fitted = trees.fit(X, np.stack([y, y % 2], axis=1))
    model = opgraft.sklearn.to_onnx(fitted, X[:20], options={"zipmap": False})
    label, _ = opgraft.InferenceSession(model).run(None, {"X": HOLES})
    np.testing.assert_array_equal(label, fitted.predict(HOLES))


REAL = pytest.mark.parametrize("real", [np.float32, np.float64])
WHOLE = np.array([[0.0, 5], [1, 6], [2, 5], [1, 7]])
BETWEEN = np.array([[1.5, 5], [0.3, 6.5], [-0.9, 7], [2.99, 5.0]])


@REAL
@pytest.mark.parametrize("options", [{}, {"drop": "first"}, {"dtype": np.int64}])
def test_numbers_between_categories_are_unknown(real: Any, options: Any) -> None:
    encoder = OneHotEncoder(handle_unknown="ignore", **options).fit(WHOLE.astype(real))
    check(encoder, WHOLE.astype(real), np.concatenate([WHOLE, BETWEEN]).astype(real))


@REAL
@pytest.mark.parametrize("categories", [WHOLE, WHOLE / 4], ids=["whole", "parts"])
def test_an_encoder_that_refuses_unknown_numbers(real: Any, categories: Any) -> None:
    encoder = OneHotEncoder().fit(categories.astype(real))
    check(encoder, categories.astype(real), categories[::-1].astype(real))
    session = opgraft.InferenceSession(
        opgraft.sklearn.to_onnx(encoder, categories.astype(real)), _quiet()
    )
    for row in BETWEEN[:1].astype(real), np.full((1, 2), np.nan, real):
        with pytest.raises(Exception, match="Unknown Category"):
            session.run(None, {"X": row})


def _quiet() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


@pytest.mark.parametrize("handle_unknown", ["ignore", "warn", "infrequent_if_exist"])
@pytest.mark.parametrize("is_frame", [False, True])
def test_unknown_categories(handle_unknown: str, is_frame: bool) -> None:
    rows = np.array([["a", "x"], ["b", "y"], ["c", "x"]], dtype=object)
    others = np.array([["a", "z"], ["zz", "y"]], dtype=object)
    given, asked = (
        pandas.DataFrame(one, columns=["p", "q"]) if is_frame else one for one in (rows, others)
    )
    encoder = OneHotEncoder(handle_unknown=handle_unknown, sparse_output=False).fit(given)
    model = opgraft.sklearn.to_onnx(encoder, given)
    assert opgraft.sklearn.python_steps(model) == []
    session = opgraft.InferenceSession(model)
    (got,) = session.run(None, asked if is_frame else {"X": asked})
    np.testing.assert_array_equal(got, [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]])


@REAL
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_row_without_length(norm: str, real: Any) -> None:
    rows = np.array([[0, 0, 0], [1, -2, 0], [1e-7, 0, 0], [1e-17, 0, 0]], real)
    check(Normalizer(norm).fit(rows), rows[1:2], rows)


@REAL
@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_powers_of_what_is_missing(method: str, real: Any) -> None:
    check(PowerTransformer(method).fit(X), X[:20].astype(real), HOLES.astype(real))


@REAL
@pytest.mark.parametrize(
    "classifier",
    [
        SGDClassifier(loss="modified_huber", random_state=0),
        SGDClassifier(loss="log_loss", random_state=0),
        OneVsRestClassifier(LogisticRegression(max_iter=500)),
    ],
    ids=["modified_huber", "log_loss", "one versus rest"],
)
@pytest.mark.parametrize("names", [np.arange(3), np.array(["one", "two", "three"])])
def test_labels_by_scores_where_probabilities_are_equal(
    classifier: Any, real: Any, names: Any
) -> None:
    centred = (X - X.mean(0)).astype(real)
    classifier.fit(centred, names[y])
    far = np.random.default_rng(0).normal(size=(500, 4)).astype(real) * 200
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = opgraft.sklearn.to_onnx(classifier, centred, options={"zipmap": False})
    assert opgraft.sklearn.python_steps(model) == []
    label, _ = opgraft.InferenceSession(model).run(None, {"X": far})
    np.testing.assert_array_equal(label, classifier.predict(far))


# Steps whose conversion is right for all rows that it is made with


class Odd(StandardScaler):
    """Converted as its parent, which gives another result for what its rows do not have."""

    def transform(self, X: Any, copy: Any = None) -> Any:
        given = np.array(X)
        rare = {
            "missing": np.isnan(given),
            "zero": np.repeat((given == 0).all(axis=1, keepdims=True), given.shape[1], axis=1),
            "between": (given % 1) != 0,
            "one between": ((given % 1) != 0) & (((given % 1) != 0).sum(1) == 1)[:, np.newaxis],
        }
        return np.where(rare[self.rare], np.float32(7), super().transform(X))


@pytest.fixture
def converter_of_odd() -> Any:
    from skl2onnx._supported_operators import sklearn_operator_name_map

    sklearn_operator_name_map[Odd] = "SklearnScaler"
    yield
    del sklearn_operator_name_map[Odd]


@pytest.mark.usefixtures("converter_of_odd")
@pytest.mark.parametrize("rare", ["missing", "zero", "between", "one between"])
@pytest.mark.parametrize("is_frame", [False, True])
def test_a_step_that_is_wrong_for_rare_values_falls_back(rare: str, is_frame: bool) -> None:
    rows: Any = np.array([[1, 4], [2, 6], [3, 4], [4, 9]], np.float32)
    if is_frame:
        rows = pandas.DataFrame(rows, columns=["p", "q"])
    odd = Odd()
    odd.rare = rare
    fitted = make_pipeline(odd, FunctionTransformer()).fit(rows)
    (step,) = opgraft.sklearn.python_steps(opgraft.sklearn.to_onnx(fitted, rows))
    assert step.estimator.endswith("Odd")
    assert "where values are missing, zero or unknown: transform: " in step.because
    model = opgraft.sklearn.to_onnx(fitted, rows, verify=False)
    assert opgraft.sklearn.python_steps(model) == []


def test_what_comes_behind_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of each column is a row of zeros for what follows: NaN, as skl2onnx has it."""
    monkeypatch.delitem(_standard._STEPS, Normalizer)
    rows = np.array([[1.0, 6.0], [2.0, 4.0], [3.0, 8.0], [1.0, 8.0]])
    fitted = make_pipeline(MinMaxScaler(), Normalizer()).fit(rows)
    (step,) = opgraft.sklearn.python_steps(opgraft.sklearn.to_onnx(fitted, rows))
    assert step.estimator.endswith("Normalizer")


def test_a_row_of_nothing_but_missing_values() -> None:
    """With which skl2onnx's KNNImputer fails in the runtime."""
    imputer = KNNImputer().fit(HOLES)
    some = HOLES[~np.isnan(HOLES).all(axis=1)][:20]
    check(imputer, some, np.full((2, 4), np.nan, np.float32), is_native=False)


def test_an_unknown_text_where_some_categories_are_infrequent() -> None:
    """In a frame skl2onnx converts these, to a model that fails for an unknown one."""
    frame = pandas.DataFrame({"p": list("aaab"), "q": list("xxyy")})
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2).fit(frame)
    session = opgraft.InferenceSession(opgraft.sklearn.to_onnx(encoder, frame))
    others = pandas.DataFrame({"p": ["zz", "a"], "q": ["x", "zz"]})
    np.testing.assert_array_equal(session.run(None, others)[0], encoder.transform(others).toarray())


def test_rare_rows_that_python_does_not_get_right_either_are_told() -> None:
    rows = np.array([[1], [2]])
    fitted = FunctionTransformer(only_once).fit(rows)
    calls.clear()
    with pytest.warns(UserWarning, match="right for the given rows, but not for all others"):
        model = opgraft.sklearn.to_onnx(fitted, rows)
    (got,) = opgraft.InferenceSession(model).run(None, {"X": rows})
    np.testing.assert_array_equal(got, rows)


calls: list[int] = []


def only_once(X: Any) -> Any:
    """Another result in each call, but for the rows of the test."""
    calls.append(1)
    return np.where(np.isin(X, [1, 2]), X, len(calls))
