"""opgraft.sklearn.to_onnx: what stays native, what becomes a Python node, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")

import skl2onnx
from iris_data import LOGISTIC, X, y
from skl2onnx.common.data_types import FloatTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

import opgraft
import opgraft.sklearn
from opgraft.sklearn._convert import _verify


def python_steps(model: onnx.ModelProto) -> list[str]:
    return [one.estimator.rpartition(".")[2] for one in opgraft.sklearn.python_steps(model)]


def native_nodes(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "PyOp"]


def check(estimator: Any, *in_python: str, X: Any = X, **options: Any) -> onnx.ModelProto:
    """Converts, compares all that the model gives, and the steps that Python runs."""
    model = opgraft.sklearn.to_onnx(estimator, X, **options)
    onnx.checker.check_model(model)
    assert sorted(python_steps(model)) == sorted(in_python)
    outputs = opgraft.InferenceSession(model).run(None, {"X": X})
    if hasattr(estimator, "predict"):
        np.testing.assert_allclose(outputs[0].ravel(), estimator.predict(X).ravel(), rtol=1e-3)
        if hasattr(estimator, "predict_proba"):
            rows = outputs[1]
            if isinstance(rows, list):
                rows = [[row[label] for label in estimator.classes_] for row in rows]
            np.testing.assert_allclose(rows, estimator.predict_proba(X), atol=1e-4)
    else:
        np.testing.assert_allclose(outputs[0], estimator.transform(X), rtol=1e-3, atol=1e-3)
    return model


def test_what_skl2onnx_converts_is_what_skl2onnx_writes() -> None:
    fitted = make_pipeline(StandardScaler(), LogisticRegression(**LOGISTIC)).fit(X, y)
    ours = opgraft.sklearn.to_onnx(fitted, X)
    assert ours.graph == skl2onnx.to_onnx(fitted, X).graph
    assert opgraft.sklearn.python_steps(ours) == []
    onnxruntime.InferenceSession(ours.SerializeToString())


def test_an_estimator_without_a_converter() -> None:
    model = check(NMF(2, random_state=0, max_iter=900).fit(X), "NMF")
    (step,) = opgraft.sklearn.python_steps(model)
    assert step.methods == ("transform",) and step.allow == ("sklearn",)
    assert "no converter" in step.because


def test_types_as_given() -> None:
    for dtype in (np.float32, np.float64):
        fitted = make_pipeline(MinMaxScaler(clip=True), NMF(2, max_iter=900)).fit(X.astype(dtype))
        model = opgraft.sklearn.to_onnx(fitted, X.astype(dtype))
        (output,) = opgraft.InferenceSession(model).run(None, {"X": X.astype(dtype)})
        assert output.dtype == dtype


def test_in_a_pipeline_the_others_stay_native() -> None:
    pipeline = make_pipeline(
        MinMaxScaler(), NMF(3, random_state=0, max_iter=900), LogisticRegression(**LOGISTIC)
    ).fit(X, y)
    model = check(pipeline, "NMF")
    assert "LinearClassifier" in native_nodes(model)


def test_a_classifier_without_a_converter() -> None:
    check(DummyClassifier(strategy="prior").fit(X, y), "DummyClassifier")
    model = check(make_pipeline(StandardScaler(), NearestCentroid()).fit(X, y), "NearestCentroid")
    assert "ZipMap" in native_nodes(model)
    options = {"zipmap": False}
    model = check(
        make_pipeline(StandardScaler(), NearestCentroid()).fit(X, y),
        "NearestCentroid",
        options=options,
    )
    assert "ZipMap" not in native_nodes(model)


def test_in_a_column_transformer() -> None:
    columns = ColumnTransformer(
        [("spline", SplineTransformer(), [0, 1]), ("scale", StandardScaler(), [2, 3])]
    )
    model = check(make_pipeline(columns, Ridge()).fit(X, y), "SplineTransformer")
    assert {"Concat", "Div"} <= set(native_nodes(model))


def test_scalers_beside_python_nodes_are_those_that_the_runtime_is_quick_at() -> None:
    """By an option of skl2onnx's own, which is the user's where the user names it."""
    fitted = make_pipeline(StandardScaler(), NearestCentroid()).fit(X, y)
    assert {"Sub", "Div"} <= set(native_nodes(check(fitted, "NearestCentroid")))
    options = {StandardScaler: {"div": "std"}}
    model = opgraft.sklearn.to_onnx(fitted, X, options=options)
    assert "Scaler" in native_nodes(model) and options == {StandardScaler: {"div": "std"}}


def test_a_scaler_of_whole_numbers_beside_a_python_node() -> None:
    """Sub takes no whole numbers and real ones at once."""
    whole = (X * 10).astype(np.int64)
    fitted = make_pipeline(StandardScaler(), NearestCentroid()).fit(whole, y)
    assert "Scaler" in native_nodes(check(fitted, "NearestCentroid", X=whole))


def test_in_a_union() -> None:
    union = FeatureUnion([("spline", SplineTransformer()), ("pca", PCA(2))])
    model = check(
        make_pipeline(union, LogisticRegression(**LOGISTIC)).fit(X, y), "SplineTransformer"
    )
    assert "MatMul" in native_nodes(model) or "Gemm" in native_nodes(model)


def test_words_in_a_union() -> None:
    union = FeatureUnion([("s", SplineTransformer()), ("d", "drop"), ("p", "passthrough")])
    check(make_pipeline(union, Ridge()).fit(X, y), "SplineTransformer")


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_in_a_search(search: Any) -> None:
    pipeline = make_pipeline(SplineTransformer(), LogisticRegression(**LOGISTIC))
    given = {"logisticregression__C": [0.5, 1.0]}
    arguments = {} if search is GridSearchCV else {"n_iter": 2, "random_state": 0}
    fitted = search(pipeline, given, cv=2, **arguments).fit(X, y)
    model = check(fitted, "SplineTransformer")
    assert "LinearClassifier" in native_nodes(model)


def test_in_a_stack() -> None:
    inner = [("centroid", NearestCentroid()), ("logistic", LogisticRegression(**LOGISTIC))]
    stack = StackingClassifier(inner, LogisticRegression(**LOGISTIC), cv=2).fit(X, y)
    model = check(stack, "NearestCentroid")
    assert native_nodes(model).count("LinearClassifier") == 2
    regressors = [("kernel", KernelRidge()), ("ridge", Ridge())]
    model = check(StackingRegressor(regressors, Ridge(), cv=2).fit(X, y), "KernelRidge")
    assert native_nodes(model).count("LinearRegressor") == 2


def test_at_the_end_of_a_stack() -> None:
    inner = [("logistic", LogisticRegression(**LOGISTIC))]
    model = check(StackingClassifier(inner, NearestCentroid(), cv=2).fit(X, y), "NearestCentroid")
    assert "LinearClassifier" in native_nodes(model)


@pytest.mark.parametrize(
    "ensemble, copies",
    [
        (BaggingClassifier(NearestCentroid(), 2, random_state=0), 2),
        (CalibratedClassifierCV(NearestCentroid(), cv=2), 2),
        (OneVsRestClassifier(NearestCentroid()), 3),
    ],
)
def test_in_an_ensemble(ensemble: Any, copies: int) -> None:
    check(ensemble.fit(X, y), *["NearestCentroid"] * copies)


def test_deep_inside() -> None:
    inner = make_pipeline(
        ColumnTransformer(
            [("pair", make_pipeline(SplineTransformer(), PCA(2)), [0, 1])], remainder="passthrough"
        ),
        LogisticRegression(**LOGISTIC),
    )
    stack = StackingClassifier([("inner", inner), ("centroid", NearestCentroid())], cv=2)
    fitted = GridSearchCV(stack, {"passthrough": [True]}, cv=2).fit(X, y)
    check(fitted, "SplineTransformer", "NearestCentroid")


def test_in_a_vote() -> None:
    inner = [("centroid", NearestCentroid()), ("logistic", LogisticRegression(**LOGISTIC))]
    model = check(VotingClassifier(inner, voting="soft").fit(X, y), "NearestCentroid")
    assert "LinearClassifier" in native_nodes(model)


def test_what_only_wraps_another_is_native() -> None:
    frozen = FrozenEstimator(LogisticRegression(**LOGISTIC).fit(X, y)).fit(X, y)
    check(frozen)
    check(make_pipeline(StandardScaler(), NearestCentroid()).fit(X, y), "NearestCentroid")


def test_a_step_whose_conversion_is_wrong() -> None:
    """KernelPCA is, in float32."""
    model = check(KernelPCA().fit(X), "KernelPCA")
    (step,) = opgraft.sklearn.python_steps(model)
    assert "differ" in step.because


def test_a_step_that_is_known_to_be_wrong_is_not_put_to_the_test() -> None:
    """Rows may not show that skl2onnx ignores a threshold, and here there are none."""
    tuned = TunedThresholdClassifierCV(LogisticRegression(**LOGISTIC), cv=2).fit(X, y > 1)
    model = opgraft.sklearn.to_onnx(tuned, initial_types=[("X", FloatTensorType([None, 4]))])
    assert python_steps(model) == ["TunedThresholdClassifierCV"]


class Doubled(StandardScaler):
    """A step whose registered converter is wrong: it is that of its parent."""

    def transform(self, X: Any, copy: Any = None) -> Any:
        return 2 * super().transform(X)


@pytest.fixture
def wrong_converter() -> Any:
    from skl2onnx._supported_operators import sklearn_operator_name_map

    sklearn_operator_name_map[Doubled] = "SklearnScaler"
    yield
    del sklearn_operator_name_map[Doubled]


@pytest.mark.usefixtures("wrong_converter")
def test_verification_finds_the_step() -> None:
    estimator = make_pipeline(MinMaxScaler(), Doubled(), PCA(2), Ridge()).fit(X, y)
    model = opgraft.sklearn.to_onnx(estimator, X)
    (step,) = opgraft.sklearn.python_steps(model)
    assert step.estimator.endswith("Doubled") and "differ" in step.because
    session = opgraft.InferenceSession(model, allow=step.allow)
    (output,) = session.run(None, {"X": X})
    np.testing.assert_allclose(output.ravel(), estimator.predict(X), rtol=1e-3)


@pytest.mark.parametrize("handle_unknown", ["ignore", "error"])
@pytest.mark.parametrize("is_frame", [False, True])
def test_rounding_is_no_excuse_for_categories(handle_unknown: str, is_frame: bool) -> None:
    """A category is another, or none, if it moves by ever so little."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rows: Any = np.array([[1.0], [2.0], [3.0], [2.0]], np.float32)
    rows = pandas.DataFrame(rows, columns=["p"]) if is_frame else rows
    encoder = OneHotEncoder(handle_unknown=handle_unknown, sparse_output=False)
    fitted = make_pipeline(encoder, StandardScaler(with_mean=False, with_std=False)).fit(rows)
    wrong = fitted.transform(rows) / 2
    assert "differ" in _verify.difference(fitted, ["transform"], rows, [wrong])


@pytest.mark.usefixtures("wrong_converter")
def test_without_verification_it_is_not_found() -> None:
    estimator = make_pipeline(MinMaxScaler(), Doubled(), Ridge()).fit(X, y)
    types = [("X", FloatTensorType([None, 4]))]
    for given in ({"X": X, "verify": False}, {"initial_types": types}):
        assert python_steps(opgraft.sklearn.to_onnx(estimator, **given)) == []


def test_without_rows() -> None:
    types = [("X", FloatTensorType([None, 4]))]
    fitted = make_pipeline(MinMaxScaler(), NMF(2, max_iter=900), Ridge()).fit(X, y)
    model = opgraft.sklearn.to_onnx(fitted, initial_types=types)
    assert python_steps(model) == ["NMF"]
    (output,) = opgraft.InferenceSession(model).run(None, {"X": X})
    np.testing.assert_allclose(output.ravel(), fitted.predict(X), rtol=1e-3)


def test_a_step_gets_the_real_numbers_that_it_is_used_to() -> None:
    """NMF takes no others than it was fitted on, and the model's are float32."""
    wide = X.astype(np.float64)
    fitted = make_pipeline(MinMaxScaler(clip=True), NMF(2, max_iter=900)).fit(wide)
    model = opgraft.sklearn.to_onnx(fitted, initial_types=[("X", FloatTensorType([None, 4]))])
    (output,) = opgraft.InferenceSession(model).run(None, {"X": X})
    assert output.dtype == np.float32
    np.testing.assert_allclose(output, fitted.transform(wide), atol=1e-4)


def test_a_transformer_that_also_predicts() -> None:
    """skl2onnx converts what these predict, whatever the next step gets of them."""
    for step in (LinearDiscriminantAnalysis(), KMeans(3, random_state=0)):
        model = opgraft.sklearn.to_onnx(
            pipeline := make_pipeline(step, LogisticRegression(**LOGISTIC)).fit(X, y), X
        )
        outputs = opgraft.InferenceSession(model).run(None, {"X": X})
        assert (outputs[0] == pipeline.predict(X)).all()


def test_passthrough_and_frozen_steps() -> None:
    check(make_pipeline(StandardScaler(), "passthrough", Ridge()).fit(X, y))


def test_nothing_of_skl2onnx_is_changed_for_good() -> None:
    from skl2onnx import _parse, _supported_operators
    from skl2onnx.common import _container, _registration

    def state() -> list[Any]:
        return [
            dict(_supported_operators.sklearn_operator_name_map),
            dict(_registration._converter_pool),
            dict(_registration._shape_calculator_pool),
            dict(_parse.sklearn_parsers_map),
            _parse.do_not_merge_columns,
            _container.ModelComponentContainer.add_node,
        ]

    before = state()
    fitted = make_pipeline(FunctionTransformer(np.log1p), NMF(2, max_iter=900), Ridge()).fit(X, y)
    opgraft.sklearn.to_onnx(fitted, X)
    assert state() == before
    assert not {"transform", "predict"} & {*vars(fitted), *vars(fitted.steps[1][1])}


def test_refusals() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        opgraft.sklearn.to_onnx(NMF(2), X)
    with pytest.raises(opgraft.Error, match="DBSCAN has no method for new data"):
        opgraft.sklearn.to_onnx(DBSCAN().fit(X), X)
    with pytest.raises(opgraft.Error, match="initial_types"):
        opgraft.sklearn.to_onnx(PCA().fit(X))
