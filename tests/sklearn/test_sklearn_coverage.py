"""A part of bench/sklearn_coverage.py, and its table in docs/sklearn.md."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench() -> Any:
    path = REPOSITORY / "bench" / "sklearn_coverage.py"
    spec = importlib.util.spec_from_file_location("sklearn_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NATIVE = """ARDRegression AdaBoostClassifier BernoulliNB ColumnTransformer DictVectorizer
    FeatureUnion
    GaussianMixture GradientBoostingRegressor HistGradientBoostingClassifier IsolationForest
    KBinsDiscretizer KMeans LabelBinarizer LabelEncoder LinearSVC MLPClassifier
    MultiOutputClassifier OneClassSVM OneHotEncoder OrdinalEncoder Pipeline
    QuadraticDiscriminantAnalysis RFE RandomTreesEmbedding ClassifierChain RegressorChain SVC
    StackingRegressor TargetEncoder VotingClassifier""".split()
PYTHON = """AdditiveChi2Sampler Birch BisectingKMeans CCA CountVectorizer DummyClassifier
    EllipticEnvelope EmpiricalCovariance FastICA FeatureAgglomeration FixedThresholdClassifier
    GaussianProcessClassifier HashingVectorizer IsotonicRegression KNNImputer KernelDensity
    KernelPCA LabelPropagation LocallyLinearEmbedding MissingIndicator NearestNeighbors
    PatchExtractor RadiusNeighborsClassifier SparseCoder SparseRandomProjection
    SplineTransformer TransformedTargetRegressor TunedThresholdClassifierCV""".split()


#: Those that take as long as ten others: `make test-full` tries them.
SLOW = ("HistGradientBoostingClassifier", "IsolationForest")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive) if name in SLOW else name
        for name in NATIVE + PYTHON
    ],
)
def test_an_estimator(bench: Any, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = bench.evaluate(name)
    assert row["stage"] == (bench.NATIVE if name in NATIVE else bench.PYTHON), row


def test_what_has_no_method_for_new_data(bench: Any) -> None:
    assert bench.evaluate("DBSCAN")["stage"] == bench.NONE


def test_the_documentation_lists_all_estimators(bench: Any) -> None:
    page = (REPOSITORY / "docs" / "sklearn.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| [\w., -]+ \| ([^|]*) \|$", page, re.M))
    assert set(bench.fitted_estimators.classes()) <= set(rows)
    for name in NATIVE + PYTHON:
        assert rows[name].startswith("native" if name in NATIVE else "Python"), name
