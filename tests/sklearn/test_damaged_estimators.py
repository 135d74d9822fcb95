"""Stored estimators whose memory is crafted: none of it reaches compiled code unchecked."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
skops_io = pytest.importorskip(
    "skops.io", reason="skops is not installed: pip install opgraft[sklearn]"
)

from iris_data import X, anybody, nobody, y  # noqa: E402
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.neighbors import NearestNeighbors  # noqa: E402
from sklearn.preprocessing import SplineTransformer  # noqa: E402
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._stored import _compiled_objects, _skops  # noqa: E402
from opgraft.sklearn._stored._walk import walk  # noqa: E402


def poison(estimator: Any, damage: Any) -> bytes:
    """The estimator with damaged holders in it."""
    stored = _skops._without_compiled(estimator)
    holders = [one.value for one in walk(stored) if isinstance(one.value, _compiled_objects.Stored)]
    assert holders
    damage(stored, holders[0])
    return bytes(skops_io.dumps(stored))


def set_node(name: str, value: Any, index: int = 0) -> Any:
    def damage(estimator: Any, holder: Any) -> None:
        holder.nodes = holder.nodes.copy()
        holder.nodes[name][index] = value

    return damage


def set_value(name: str, value: Any) -> Any:
    return lambda estimator, holder: setattr(holder, name, value)


@pytest.mark.parametrize(
    "estimator, damage",
    [
        (DecisionTreeClassifier(), set_node("left_child", 10**6)),
        (DecisionTreeClassifier(), set_node("left_child", 0)),  # a circle
        (DecisionTreeClassifier(), set_node("right_child", -5)),
        (DecisionTreeClassifier(), set_node("feature", 10**6)),
        (DecisionTreeClassifier(), set_node("feature", -3)),
        (DecisionTreeClassifier(), set_value("n_outputs", 10**6)),
        (DecisionTreeClassifier(), set_value("n_outputs", -1)),
        (DecisionTreeClassifier(), set_value("n_features", 10**6)),
        (DecisionTreeClassifier(), set_value("n_classes", np.array([10**6]))),
        (DecisionTreeClassifier(), set_value("values", np.zeros((1, 1, 3)))),
        (DecisionTreeClassifier(), set_value("nodes", np.zeros(3))),
        (RandomForestClassifier(2), lambda e, h: setattr(e, "n_features_in_", 2)),
        (GradientBoostingRegressor(n_estimators=2),
         lambda e, h: setattr(e, "n_features_in_", 2)),
        (GradientBoostingRegressor(n_estimators=2),
         lambda e, h: setattr(e, "estimators_", np.repeat(e.estimators_, 5, axis=1))),
        (IsolationForest(n_estimators=2, max_features=3),
         lambda e, h: setattr(e, "_max_features", 4)),
        (IsolationForest(n_estimators=2, max_features=3),
         lambda e, h: setattr(e, "estimators_features_", [np.array([0])] * 2)),
        (HistGradientBoostingRegressor(max_iter=2), set_node("left", 10**6)),
        (HistGradientBoostingRegressor(max_iter=2), set_node("feature_idx", 10**6)),
        (HistGradientBoostingRegressor(max_iter=2), set_node("is_categorical", 1)),
        (NearestNeighbors(algorithm="kd_tree"), set_value("leaf_size", -1)),
        (NearestNeighbors(algorithm="kd_tree"), set_value("kind", "os.system")),
        (NearestNeighbors(algorithm="kd_tree"), set_value("metric", "pyfunc")),
        (NearestNeighbors(algorithm="kd_tree"), set_value("data", np.zeros(3))),
        (SplineTransformer(), set_value("k", 1000)),
        (SplineTransformer(), set_value("c", np.zeros((1, 1)))),
    ],
)  # fmt: skip
def test_damaged_memory_is_found(estimator: Any, damage: Any) -> None:
    """Each of these would read beyond an array's end; skops alone loads them without a word."""
    data = poison(estimator.fit(X, y), damage)
    with pytest.raises(opgraft.ModelError, match="damaged"):
        _skops.load(data, anybody)


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(),
        SVC(kernel="linear", decision_function_shape="ovo"),
        SVC(kernel="precomputed"),
        NuSVC(),
        SVR(),
        OneClassSVM(),
        KMeans(3),
        MiniBatchKMeans(3),
        BisectingKMeans(3),
    ],
)
def test_sizes_that_compiled_code_does_not_look_at(estimator: Any) -> None:
    """skops trusts these types: what they hold is looked through all the same."""
    is_kernel = getattr(estimator, "kernel", "") == "precomputed"
    given = X @ X.T if is_kernel else X
    fitted = estimator.fit(given, y)
    loaded = _skops.load(_skops.dump(fitted), nobody)
    assert (loaded.predict(given) == fitted.predict(given)).all()
    damages = {"n_features_in_": fitted.n_features_in_ + 1000}
    if hasattr(fitted, "cluster_centers_"):
        damages["cluster_centers_"] = fitted.cluster_centers_[:, :1].copy()
    else:
        damages["_dual_coef_"] = fitted._dual_coef_[:, :2].copy()
        damages["_intercept_"] = fitted._intercept_[:0].copy()
        damages["_n_support"] = np.repeat(fitted._n_support, 100)
        damages["support_"] = fitted.support_[:1].copy()
        damages["_probA"] = np.zeros(1000)
        if is_kernel:
            damages["support_"] = fitted.support_ + 10**6
        else:
            damages["support_vectors_"] = fitted.support_vectors_[:, :1].copy()
    for name, value in damages.items():
        damaged = copy.copy(fitted)
        setattr(damaged, name, value)
        with pytest.raises(opgraft.ModelError, match="do not agree"):
            _skops.load(skops_io.dumps(damaged), nobody)
