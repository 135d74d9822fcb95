"""Where one step is wrong, that step falls back: in stacks, votes and searches as in pipelines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

import skl2onnx  # noqa: E402
from iris_data import LOGISTIC, X, y  # noqa: E402
from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    KBinsDiscretizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._convert import _to_onnx  # noqa: E402

FRAME = pandas.DataFrame(X.astype(np.float64), columns=list("abcd")).assign(
    city=np.resize(["u", "v", "w", "u"], len(X))
)
NAMES = np.array(["one", "two", "three"])[y]


def steps_in_python(fitted: Any, rows: Any, **options: Any) -> list[str]:
    """Converts, compares, and tells the steps that Python runs."""
    model = opgraft.sklearn.to_onnx(fitted, rows, options={"zipmap": False}, **options)
    feed = rows if hasattr(rows, "columns") else {"X": rows}
    outputs = opgraft.InferenceSession(model).run(None, feed)
    wanted = fitted.predict(rows)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(outputs[0].ravel(), wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(outputs[0], wanted)
        if hasattr(fitted, "predict_proba"):
            np.testing.assert_allclose(outputs[1], fitted.predict_proba(rows), atol=1e-5)
    return sorted(one.estimator.rpartition(".")[2] for one in opgraft.sklearn.python_steps(model))


def logistic() -> Any:
    return LogisticRegression(**LOGISTIC)


def columns() -> Any:
    return make_column_transformer(
        (make_pipeline(StandardScaler(), SplineTransformer(n_knots=2)), list("abcd")),
        (OneHotEncoder(), ["city"]),
    )


def members(*more: Any) -> list[tuple[str, Any]]:
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    both = [
        ("spline", make_pipeline(columns(), logistic())),
        ("tree", make_pipeline(columns(), tree)),
    ]
    return [*both, *more]


@pytest.mark.parametrize(
    "ensemble",
    [
        StackingClassifier(members(), logistic(), cv=2),
        VotingClassifier(members(("none", "drop")), voting="soft", weights=[1, 3, 2]),
        VotingClassifier(members(), voting="hard", weights=[1, 2]),
        GridSearchCV(
            StackingClassifier(members(), logistic(), cv=2), {"final_estimator__C": [1.0]}, cv=2
        ),
    ],
    ids=["stack", "soft", "hard", "search"],
)
def test_classifiers_of_frames(ensemble: Any) -> None:
    """skl2onnx's own converters take one input; their estimators are converted one by one."""
    assert steps_in_python(ensemble.fit(FRAME, NAMES), FRAME) == ["SplineTransformer"] * 2


def test_regressors_of_frames() -> None:
    tree = make_pipeline(columns(), DecisionTreeRegressor(max_depth=2, random_state=0))
    both = [("ridge", make_pipeline(columns(), Ridge())), ("tree", tree)]
    for ensemble in (StackingRegressor(both, cv=2), VotingRegressor(both, weights=[1, 2])):
        fitted = ensemble.fit(FRAME, y.astype(np.float64))
        assert steps_in_python(fitted, FRAME) == ["SplineTransformer"] * 2


@pytest.mark.parametrize("target", [y, (y > 0).astype(int)], ids=["three", "two"])
def test_scores_of_several_kinds(target: Any) -> None:
    """Taken apart, since a step is refused by skl2onnx: scores, labels and probabilities."""
    rows = FRAME[list("abcd")].astype(np.float32)
    estimators = [
        ("scores", make_pipeline(StandardScaler(), LinearSVC(max_iter=20_000))),
        ("label", NearestCentroid()),
        ("probabilities", GaussianNB()),
    ]
    stack = StackingClassifier(estimators, logistic(), cv=2, passthrough=True)
    assert steps_in_python(stack.fit(rows, target), rows) == ["NearestCentroid"]


class Shift(TransformerMixin, BaseEstimator):
    """Adds one."""

    def fit(self, X: Any, y: Any = None) -> Shift:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return X + 1


def shift_shapes(operator: Any) -> None:
    operator.outputs[0].type = operator.inputs[0].type


def convert_shift(scope: Any, operator: Any, container: Any) -> None:
    """Right where its input is the model's own, wrong elsewhere."""
    from onnx import TensorProto

    given = operator.inputs[0].full_name
    name = scope.get_unique_variable_name("one")
    container.add_initializer(name, TensorProto.FLOAT, [1], [1.0 if given == "X" else 3.0])
    container.add_node("Add", [given, name], [operator.outputs[0].full_name], op_version=13)


def test_a_step_that_is_wrong_in_the_whole_alone() -> None:
    """No step is wrong by itself. The one that makes the whole right is found by trying."""
    skl2onnx.update_registered_converter(Shift, "TestShift", shift_shapes, convert_shift)
    fitted = make_pipeline(StandardScaler(), Shift(), logistic()).fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, X)
    (step,) = opgraft.sklearn.python_steps(model)
    assert step.estimator.endswith("Shift") and "all are right alone" in step.because


class Same(TransformerMixin, BaseEstimator):
    """Changes nothing."""

    def fit(self, X: Any, y: Any = None) -> Same:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return X


def convert_same(scope: Any, operator: Any, container: Any) -> None:
    """By way of float32."""
    from onnx import TensorProto

    given, result = operator.inputs[0].full_name, operator.outputs[0].full_name
    name = scope.get_unique_variable_name("narrow")
    container.add_node("Cast", [given], [name], to=TensorProto.FLOAT, op_version=13)
    container.add_node("Cast", [name], [result], to=TensorProto.DOUBLE, op_version=13)


def test_a_step_that_loses_digits_which_another_needs() -> None:
    """It is right by itself, within the bounds, and the step behind it is not to blame."""
    skl2onnx.update_registered_converter(Same, "TestSame", shift_shapes, convert_same)
    rows = 1 + np.linspace(0, 1e-9, 20)[:, None]
    bins = KBinsDiscretizer(4, encode="ordinal", strategy="uniform")
    fitted = make_pipeline(Same(), bins).fit(rows)
    (step,) = opgraft.sklearn.python_steps(opgraft.sklearn.to_onnx(fitted, rows))
    assert step.estimator.endswith("Same") and "it loses digits" in step.because


def test_a_label_at_a_tie_is_told_and_not_punished() -> None:
    """Two of four neighbours for each class: which label comes first is chance."""
    rows = np.array([[-1.0], [-2.0], [1.0], [2.0]], np.float32)
    fitted = KNeighborsClassifier(4).fit(rows, [0, 0, 1, 1])
    verify = _to_onnx._verify
    right = fitted.predict(rows)
    assert verify.difference(fitted, ["predict"], rows, [right]) == ""
    with pytest.warns(UserWarning, match="1 of 4 labels differ .* tie: in row 2 .* gives 1 .* 0"):
        assert verify.difference(fitted, ["predict"], rows, [np.array([0, 0, 1, 0])]) == ""
    sure = KNeighborsClassifier(1).fit(rows, [0, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verify.difference(sure, ["predict"], rows, [np.array([0, 0, 0, 1])])
    assert found.startswith("predict: 1 of 4 values differ")
    scored = LinearSVC().fit(rows, ["no", "no", "yes", "yes"])
    at_zero = np.array([[-scored.intercept_[0] / scored.coef_[0, 0]]])
    other = {"no": "yes", "yes": "no"}[scored.predict(at_zero)[0]]
    with pytest.warns(UserWarning, match="decision_function is the same for both"):
        assert verify.difference(scored, ["predict"], at_zero, [np.array([other])]) == ""
