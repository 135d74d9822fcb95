"""Models of float64: what the runtime has in float32 alone stays native, and loses no digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from iris_data import X, y  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LinearRegression, RidgeClassifier, RidgeClassifierCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVC, NuSVR, OneClassSVM  # noqa: E402
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402

# Digits that float32 does not have.
ROWS = X.astype(np.float64) + np.random.default_rng(0).normal(0, 1e-9, X.shape)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, ROWS)
EMPTY = np.column_stack([HOLES, np.full(len(X), np.nan)])
NAMES = np.array(["one", "two", "three"])[y]


def check(fitted: Any, rows: Any, digits: float = 1e-12) -> list[Any]:
    """That plain ONNX Runtime runs it, and gives what the estimator does."""
    model = opgraft.sklearn.to_onnx(fitted, rows[:100])
    assert opgraft.sklearn.python_steps(model) == []
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = session.run(None, {"X": rows})
    wanted = getattr(fitted, "predict" if hasattr(fitted, "predict") else "transform")(rows)
    wanted = wanted.toarray() if hasattr(wanted, "toarray") else wanted
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(outputs[0].reshape(wanted.shape), wanted, digits, digits)
    else:
        np.testing.assert_array_equal(outputs[0].reshape(wanted.shape), wanted)
    return list(outputs)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (SimpleImputer(), HOLES),
        (SimpleImputer(strategy="median", add_indicator=True), EMPTY),
        (SimpleImputer(keep_empty_features=True), EMPTY),
        (SimpleImputer(strategy="constant", fill_value=1 / 3), HOLES),
        (SimpleImputer(missing_values=-1.0), np.nan_to_num(HOLES, nan=-1.0)),
        (OneHotEncoder(), np.round(HOLES * 2) / 2 / 3),
        (OneHotEncoder(drop="first"), np.round(ROWS * 2) / 2 / 3),
        (KBinsDiscretizer(3, encode="ordinal"), ROWS),
        (KBinsDiscretizer(4, strategy="uniform"), ROWS),
        (PowerTransformer(), HOLES - 3),
        (PowerTransformer("box-cox", standardize=False), ROWS),
    ],
)
def test_steps(step: Any, rows: Any) -> None:
    check(step.fit(rows), rows)


def test_powers_at_which_the_formula_changes() -> None:
    step = PowerTransformer(standardize=False).fit(ROWS)
    step.lambdas_ = np.array([0.0, 2.0, 1.0, -1.5])
    check(step, ROWS - 3)


@pytest.mark.parametrize("target", [y, NAMES, y > 0], ids=["three", "texts", "two"])
def test_linear_classifiers(target: Any) -> None:
    target = target.astype(int) if target.dtype == bool else target
    for estimator in (LinearSVC(max_iter=9000), RidgeClassifier(), RidgeClassifierCV()):
        fitted = estimator.fit(ROWS, target)
        _, scores = check(fitted, ROWS)
        wanted = fitted.decision_function(ROWS)
        np.testing.assert_allclose(scores.reshape(wanted.shape), wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_support_vectors(kernel: str) -> None:
    rows = StandardScaler().fit_transform(ROWS)
    for estimator in (SVR(kernel=kernel), NuSVR(kernel=kernel, max_iter=900)):
        check(estimator.fit(rows, ROWS[:, 0]), rows, 1e-9)
    fitted = OneClassSVM(kernel=kernel).fit(rows)
    _, scores = check(fitted, rows)
    np.testing.assert_allclose(scores.ravel(), fitted.decision_function(rows), 1e-9, 1e-9)


def test_results_of_float32_meet_float64() -> None:
    """Trees give float32: casts stand where skl2onnx takes that for float64."""
    tree = DecisionTreeRegressor(max_depth=3)
    target = ROWS[:, 0] / 3
    for estimator in (
        tree,
        BaggingRegressor(tree, n_estimators=3),
        AdaBoostRegressor(tree, n_estimators=3),
    ):
        check(estimator.fit(ROWS, target), ROWS, 1e-6)
    check(AdaBoostClassifier(n_estimators=3).fit(ROWS, y), ROWS)


def test_trees_compare_what_their_libraries_compare() -> None:
    """A number above a threshold that is the threshold when it is rounded to float32."""
    known = 1 + np.repeat([0.0, 2**-22], 40)[:, None]  # the threshold is between: 1 + 2**-23
    rows = 1 + np.repeat([0.0, 2**-23 + 2**-26, 2**-22, 2**-22 + 2**-26], 20)[:, None]
    target = np.repeat([0, 1, 2, 3], 20).astype(np.float64)
    for estimator in (
        DecisionTreeRegressor(),
        RandomForestRegressor(5, random_state=0),
        GradientBoostingRegressor(n_estimators=5),
        AdaBoostRegressor(DecisionTreeRegressor(), n_estimators=3, random_state=0),
        VotingRegressor([("tree", DecisionTreeRegressor()), ("linear", LinearRegression())]),
    ):
        check(estimator.fit(known, target), rows, 1e-5)
    # What comes from a step whose conversion mixes both types is rounded too.
    behind = make_pipeline(PolynomialFeatures(2), RandomForestRegressor(5, random_state=0))
    check(behind.fit(known, target), rows, 1e-5)
    boosted = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=1).fit(rows, target)
    assert len(set(boosted.predict(rows))) == 4
    model = opgraft.sklearn.to_onnx(boosted, rows)  # skl2onnx's has thresholds of float32
    (values,) = opgraft.InferenceSession(model).run(None, {"X": rows})
    np.testing.assert_allclose(values.ravel(), boosted.predict(rows), 1e-12)


def test_frames_of_numbers_and_texts_with_holes() -> None:
    frame = pandas.DataFrame(HOLES, columns=list("abcd")).assign(
        kids=np.arange(len(X), dtype=np.int8) % 4, city=np.resize(["u", None, "v", "u"], len(X))
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    # As objects, where a missing text is NaN with all of pandas' versions.
    frame["city"] = frame["city"].astype(object).fillna(np.nan)
    columns = make_column_transformer((numbers, [*"abcd", "kids"]), (texts, ["city"]))
    fitted = make_pipeline(columns, LinearRegression()).fit(frame, ROWS[:, 0])
    model = opgraft.sklearn.to_onnx(fitted, frame.iloc[:50])
    assert opgraft.sklearn.python_steps(model) == []
    (values,) = opgraft.InferenceSession(model).run(None, frame)
    np.testing.assert_allclose(values.ravel(), fitted.predict(frame), 1e-12)
    # Rows without a missing text tell nothing of what one becomes, and the imputer knows.
    known = frame[frame["city"].notna()]
    model = opgraft.sklearn.to_onnx(fitted, known)
    (values,) = opgraft.InferenceSession(model).run(None, frame)
    np.testing.assert_allclose(values.ravel(), fitted.predict(frame), 1e-12)
