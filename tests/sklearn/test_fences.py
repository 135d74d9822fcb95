"""What the fences round stored estimators let through: honest estimators, and bounded work."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
skops_io = pytest.importorskip(
    "skops.io", reason="skops is not installed: pip install opgraft[sklearn]"
)

from iris_data import X, nobody, y  # noqa: E402
from sklearn.covariance import EmpiricalCovariance  # noqa: E402
from sklearn.dummy import DummyRegressor  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer  # noqa: E402
from sklearn.feature_selection import SelectKBest, mutual_info_classif  # noqa: E402
from sklearn.gaussian_process.kernels import RBF  # noqa: E402
from sklearn.linear_model import (  # noqa: E402
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder  # noqa: E402
from sklearn.svm import SVC, OneClassSVM  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._stored import _patterns, _skops, _unpack  # noqa: E402

LOGISTIC = LogisticRegression(max_iter=300).fit(X, y)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?u)\b\w\w+\b", r"\b\w+\b", r"\w+", r"[a-zA-Z]{2,}", r"(?u)\b[a-z]+\b|\d+", r"\S+", r".",
        r"[^,]+", r"\b[^\d\W]+\b", r"#?\w+", r"\d{4}-\d{2}-\d{2}", r"\b\w{1,20}\b",
        r"[A-Za-z0-9]+(?=\s+)", r"(?i)(?:[a-z]+)",
    ],
)  # fmt: skip
def test_patterns_that_cannot_take_for_ever(pattern: str) -> None:
    assert _patterns.is_bounded(pattern)
    vectorizer = CountVectorizer(token_pattern=pattern, vocabulary=["one"])
    assert _skops.load(_skops.dump(vectorizer), nobody).token_pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b", r"(a|a)*b", r"(?:a|a)" * 12 + "b", "a?" * 30 + "a" * 30, r"\w+\w+\b", r"(\w)+\1",
        r"(a{0,60}){0,60}b", r"((a?){60})b", r"(.*)*", r"(?=(a+)+b)", "x" * 2000, "(",
    ],
)  # fmt: skip
def test_patterns_that_may(pattern: str) -> None:
    assert not _patterns.is_bounded(pattern)


def test_any_pattern_with_an_allowance() -> None:
    """The report names it, and the host that allows it gets it."""
    data = _skops.dump(TfidfVectorizer(token_pattern=r"(\w+-?)+").fit(["one-two three"]))
    assert _skops.untrusted(data) == ["re.compile"]
    with pytest.raises(opgraft.PolicyError, match="may take forever"):
        _skops.load(data, nobody)

    def allows(names: list[str]) -> None:
        if names != ["re.compile"]:
            nobody(names)

    assert _skops.load(data, allows).transform(["three"]).sum() == 1


def test_what_packs_to_nearly_nothing_is_stored_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest estimator of zeros must not look like an attack."""
    fitted = LogisticRegression(max_iter=300).fit(X, y)
    fitted.zeros_ = np.zeros(2**21)
    monkeypatch.setattr(_unpack, "FREE", 2**20)
    data = _skops.dump(fitted)
    assert len(data) > fitted.zeros_.nbytes
    assert _skops.load(data, nobody).zeros_.shape == fitted.zeros_.shape


def test_a_file_that_lies_about_its_size_takes_no_memory() -> None:
    """A zip's directory says how much a part becomes; what it becomes is another matter."""
    packed = io.BytesIO()
    size = 48 << 20
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("large.npy", bytes(size))
    data = packed.getvalue().replace(struct.pack("<L", size), struct.pack("<L", 1000))
    tracemalloc.start()
    try:
        with pytest.raises(zipfile.BadZipFile):
            _unpack.unpack(data)
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


def test_parts_of_the_same_name() -> None:
    packed = io.BytesIO()
    with pytest.warns(UserWarning), zipfile.ZipFile(packed, "w") as file:
        for _ in range(2):
            file.writestr("schema.json", "{}")
    with pytest.raises(opgraft.ModelError, match="the same name"):
        _skops.load(packed.getvalue(), nobody)


def test_a_cache_is_not_stored_and_processes_are_not_started() -> None:
    pipeline = make_pipeline(
        MinMaxScaler(), BaggingClassifier(LOGISTIC, n_estimators=2, n_jobs=2), memory="cache"
    )
    pipeline.memory = None
    pipeline.fit(X, y)
    pipeline.memory = "cache"
    data = _skops.dump(pipeline)
    loaded = _skops.load(data, nobody)
    assert loaded.memory is None and loaded[-1].n_jobs == 1
    assert pipeline.memory == "cache"  # the caller's own stays as it is
    assert (loaded.predict(X) == pipeline.predict(X)).all()
    pipeline.memory = None
    kept = skops_io.dumps(pipeline)
    assert _skops.load(kept, nobody)[-1].n_jobs == 1


def test_encoders_that_group_and_drop() -> None:
    words = np.array([["a"] * 9 + ["b"] * 5 + ["c", "d"], ["x", "y"] * 8], dtype=object).T
    for options in (
        {"drop": "first"},
        {"drop": "if_binary"},
        {"min_frequency": 3, "handle_unknown": "infrequent_if_exist"},
        {"max_categories": 2, "drop": "first", "handle_unknown": "ignore"},
        {"handle_unknown": "ignore", "categories": [["d", "c", "b", "a"], ["y", "x"]]},
    ):
        encoder: Any = OneHotEncoder(**options).fit(words)
        loaded = _skops.load(_skops.dump(encoder), nobody)
        assert (loaded.transform(words) != encoder.transform(words)).nnz == 0


def test_names_of_an_allowed_class_are_its_own_affair(
    write_module: Any, module_folder: Any
) -> None:
    """A class of the host's own may hold what scikit-learn's may not."""
    import importlib

    module = write_module(
        """
        from sklearn.base import BaseEstimator

        class Own(BaseEstimator):
            def fit(self, X, y=None):
                self.response_method, self.transform = "anything", len
                self.counts_ = [1, 2]
                return self
            def predict(self, X):
                return X[:, 0]
        """
    )
    own = importlib.import_module(module).Own().fit(X)
    del own.transform
    loaded = _skops.load(_skops.dump(own), lambda names: None)
    assert loaded.response_method == "anything" and loaded.counts_ == [1, 2]


@pytest.mark.parametrize(
    "estimator, rows",
    [
        (SVC(), scipy.sparse.csr_matrix(X)),  # holds one matrix under two names
        (OneClassSVM(), scipy.sparse.csr_matrix(X)),
        (HistGradientBoostingRegressor(max_iter=2), X),
        (GradientBoostingClassifier(n_estimators=2, init=DecisionTreeClassifier(max_depth=2)), X),
        (GradientBoostingClassifier(n_estimators=2, init=LogisticRegression(max_iter=300)), X),
        (GradientBoostingClassifier(n_estimators=2, init=RandomForestClassifier(2)), X),
        (GradientBoostingClassifier(n_estimators=2, init="zero"), X),
        (GradientBoostingRegressor(n_estimators=2, init=LinearRegression()), X),
        (GradientBoostingRegressor(n_estimators=2, init=DummyRegressor()), X),
        (GradientBoostingRegressor(n_estimators=2, loss="huber", init=Ridge()), X),
        (KNeighborsClassifier(algorithm="brute", metric="mahalanobis",
                              metric_params={"VI": np.eye(4)}), X),
        (EmpiricalCovariance(store_precision=False), X),
    ],
)  # fmt: skip
def test_options_that_lead_to_other_compiled_code(estimator: Any, rows: Any) -> None:
    fitted = estimator.fit(rows, y)
    loaded = _skops.load(_skops.dump(fitted), nobody)
    method = "predict" if hasattr(fitted, "predict") else "mahalanobis"
    assert (getattr(loaded, method)(rows) == getattr(fitted, method)(rows)).all()


def test_boosting_from_what_may_give_other_rows() -> None:
    """Nothing of it runs while it is looked at."""
    first = make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=300))
    fitted = GradientBoostingClassifier(n_estimators=2, init=first).fit(X, y)
    with pytest.raises(opgraft.UnavailableError, match="init_ is a Pipeline.*expected 'zero', one"):
        _skops.dump(fitted)
    two = GradientBoostingClassifier(n_estimators=2).fit(X, y > 0)
    loaded = _skops.load(_skops.dump(two), nobody)
    assert (loaded.predict_proba(X) == two.predict_proba(X)).all()


def test_kernels_that_are_functions(write_module: Any) -> None:
    import importlib

    module = write_module("def own(X, Y):\n    return X @ Y.T\n")
    own = importlib.import_module(module).own
    for kernel in (rbf_kernel, partial(polynomial_kernel, degree=2), own, partial(own)):
        fitted = SVC(kernel=kernel).fit(X, y)
        loaded = _skops.load(_skops.dump(fitted), lambda names: None)
        assert (loaded.decision_function(X) == fitted.decision_function(X)).all()
    fitted = SVC(kernel=rbf_kernel).fit(X, y)
    for kernel in (np.add, np.matmul, partial(np.add), partial(rbf_kernel, Y=X), RBF()):
        fitted.kernel = kernel
        with pytest.raises(opgraft.UnavailableError, match="SVC.kernel is .* the host allows"):
            _skops.dump(fitted)


def test_sparse_matrices_of_other_formats() -> None:
    """Lists for each row take a hundred times the memory: they are stored as rows."""
    fitted = MinMaxScaler().fit(X)
    fitted.held_ = [scipy.sparse.eye(3).asformat(one) for one in ("csr", "csc", "coo", "lil")]
    loaded = _skops.load(_skops.dump(fitted), nobody)
    assert [one.format for one in loaded.held_] == ["csr", "csc", "coo", "csr"]
    assert all((one.toarray() == np.eye(3)).all() for one in loaded.held_)


def test_a_word_that_is_the_name_of_a_parameter(write_module: Any) -> None:
    """Only what scikit-learn would start processes by is set to 1."""
    import importlib

    texts = ["a_b n_jobs zz yy", "alpha beta cc"]
    fitted = CountVectorizer().fit(texts)
    loaded = _skops.load(_skops.dump(fitted), nobody)
    assert loaded.vocabulary_ == fitted.vocabulary_
    assert (loaded.transform(texts) != fitted.transform(texts)).nnz == 0

    module = write_module(
        """
        from sklearn.base import BaseEstimator

        def function(X, n_jobs):
            return X * n_jobs

        class Own(BaseEstimator):
            def fit(self, X, y=None):
                self.options_ = self.metric_params = {"n_jobs": 4}
                return self
        """
    )
    users = importlib.import_module(module)
    own = users.Own().fit(X)
    assert _skops.load(_skops.dump(own), lambda names: None).options_ == {"n_jobs": 4}
    own = FunctionTransformer(users.function, kw_args={"n_jobs": 4})
    assert _skops.load(_skops.dump(own), lambda names: None).kw_args == {"n_jobs": 4}


def test_processes_by_way_of_options() -> None:
    of_partial = partial(mutual_info_classif, n_jobs=4)
    neighbours = KNeighborsClassifier(algorithm="brute", metric="cosine").fit(X, y)
    neighbours.effective_metric_params_ = {"n_jobs": 4}
    for fitted, found in (
        (FunctionTransformer(np.mean, kw_args={"n_jobs": 4}), lambda one: one.kw_args),
        (FunctionTransformer(of_partial), lambda one: one.func.keywords),
        (SelectKBest(of_partial), lambda one: one.score_func.keywords),
        (neighbours, lambda one: one.effective_metric_params_),
    ):
        assert found(_skops.load(_skops.dump(fitted), nobody)) == {"n_jobs": 1}


def test_boosting_of_categories() -> None:
    """It has a step before itself, whose functions are asked for where nobody has read them."""
    fitted = HistGradientBoostingRegressor(max_iter=2, categorical_features=[0])
    fitted = fitted.fit(np.round(X), y)
    loaded = _skops.load(_skops.dump(fitted), lambda names: None)
    assert (loaded.predict(np.round(X)) == fitted.predict(np.round(X))).all()


def test_an_estimator_that_nobody_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a newer scikit-learn: skops trusts it, and the host is asked."""
    from opgraft.sklearn._stored import _reviewed

    data = _skops.dump(make_pipeline(MinMaxScaler(), LOGISTIC))
    monkeypatch.setattr(_reviewed, "ESTIMATORS", _reviewed.ESTIMATORS - {"LogisticRegression"})
    with pytest.raises(opgraft.PolicyError, match="asked for.*_logistic.LogisticRegression"):
        _skops.load(data, nobody)
    assert _skops.load(data, lambda names: None)[-1].coef_.shape == (3, 4)


def test_functions_that_any_model_may_run() -> None:
    for function in (None, np.log1p, np.mean, np.float64):
        loaded = _skops.load(_skops.dump(FunctionTransformer(function)), nobody)
        assert loaded.func is function
