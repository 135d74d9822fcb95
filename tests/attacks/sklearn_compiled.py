"""Attacks by stored estimators whose attributes break what compiled code takes for granted."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.cluster import Birch
from sklearn.compose import TransformedTargetRegressor
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import NMF
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import Bunch
from sklearn_attacks import WORDS, X, attack, rewritten, stored, y
from sklearn_tampered import changed, fitted, node_of

from opgraft.sklearn._stored import _compiled_objects
from opgraft.sklearn._stored._walk import walk


@attack("CountVectorizer", "text transform")
def words_beyond_the_vocabulary() -> bytes:
    vectorizer = CountVectorizer().fit(WORDS)
    vocabulary = {word: 2**30 + index for index, word in enumerate(vectorizer.vocabulary_)}
    return stored(changed(vectorizer, vocabulary_=vocabulary))


@attack("n_features", "text transform")
def no_features_to_hash_to() -> bytes:
    return stored(changed(HashingVectorizer(), n_features=0))


@attack("OneHotEncoder", "transform")
def categories_beyond_the_columns() -> bytes:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(np.round(X * 9))
    return stored(changed(encoder, _n_features_outs=[-(2**30), 2**30 + 2]))


@attack("OneHotEncoder", "transform")
def categories_in_no_order() -> bytes:
    encoder = OneHotEncoder(sparse_output=False).fit(X)
    return stored(changed(encoder, categories_=[one[::-1] for one in encoder.categories_]))


@attack("GradientBoostingClassifier")
def boosting_from_fewer_columns() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    return stored(boosting, lambda one: setattr(one, "init_", DummyClassifier().fit(X, y > 0)))


@attack("GradientBoostingRegressor.init_ is a Pipeline")
def boosting_from_fewer_rows() -> bytes:
    """It gives one number for all rows, but for zeros."""
    steps = [FunctionTransformer(one) for one in (np.log, np.sin, np.sign)]
    steps += [FunctionTransformer(np.mean, kw_args={"axis": 1}), FunctionTransformer(set)]
    first = make_pipeline(*steps, DummyRegressor().fit(X, y))
    boosting = fitted(GradientBoostingRegressor(n_estimators=2))
    return stored(changed(boosting, init_=first))


@attack("GradientBoostingRegressor")
def boosting_from_no_columns() -> bytes:
    boosting = fitted(GradientBoostingRegressor(n_estimators=2))
    first = LinearRegression().fit(X, y)
    first = changed(first, coef_=np.zeros((0, 2)), intercept_=np.zeros(0))
    return stored(changed(boosting, init_=first))


@attack("GradientBoostingClassifier")
def boosting_with_the_loss_of_two_classes() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    other = GradientBoostingClassifier(n_estimators=2).fit(X, y > 0)
    return stored(changed(boosting, _loss=other._loss))


@attack("GradientBoostingClassifier")
def boosting_of_trees_of_many_outputs() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    tree = DecisionTreeRegressor().fit(X, np.stack([y] * 50, 1))
    return stored(changed(boosting, estimators_=np.array([[tree] * 3], dtype=object)))


@attack("is no|tree_|DecisionTreeRegressor")
def boosting_of_what_is_no_tree() -> bytes:
    """Compiled code takes it for one without a look at its type."""
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    return stored(
        boosting,
        lambda one: setattr(one.estimators_[0, 0], "tree_", Bunch(n_features=2, n_outputs=1)),
    )


def neighbours(kind: Any = KNeighborsClassifier, **attributes: Any) -> bytes:
    metric = "manhattan" if kind is KNeighborsClassifier else "euclidean"
    return stored(changed(fitted(kind(algorithm="brute", metric=metric)), **attributes))


attack("KNeighborsClassifier", name="labels_beyond_the_classes")(
    lambda: neighbours(_y=np.full(30, 2**40))
)
attack("KNeighborsClassifier", name="neighbours_of_fewer_columns")(
    lambda: neighbours(_fit_X=X[:, :1].copy(), n_features_in_=2)
)
attack("KNeighborsClassifier", name="neighbours_that_are_not_there")(
    lambda: neighbours(n_samples_fit_=10**6, n_neighbors=10**5)
)
attack("n_neighbors", name="fewer_neighbours_than_none")(lambda: neighbours(n_neighbors=-5))
attack("NearestNeighbors", "kneighbors.0", "norms_that_are_not_there")(
    lambda: neighbours(NearestNeighbors, effective_metric_params_={"Y_norm_squared": np.zeros(1)})
)
attack("NearestNeighbors", "kneighbors.0", "an_inverse_of_one_number")(
    lambda: neighbours(
        NearestNeighbors, metric="mahalanobis", effective_metric_="mahalanobis",
        effective_metric_params_={"VI": np.eye(1)},
    )
)  # fmt: skip


@attack("SVC")
def sparse_support_vectors() -> bytes:
    machine = SVC().fit(scipy.sparse.csr_matrix(X), y)
    dual = scipy.sparse.csr_matrix(machine._dual_coef_.shape)
    return stored(changed(machine, _dual_coef_=dual))


def kernel_machine(kernel: Any, **attributes: Any) -> bytes:
    machine = SVC(kernel=rbf_kernel).fit(X, y)
    return stored(changed(machine, kernel=kernel, **attributes))


attack("SVC", "decision_function", "a_kernel_of_fewer_columns")(
    lambda: kernel_machine(
        np.add, _BaseLibSVM__Xfit=np.zeros((1, 1)), shape_fit_=(2**31 - 1, 2),
        support_=np.full(len(SVC(kernel=rbf_kernel).fit(X, y).support_), 2**31 - 2, np.int32),
    )
)  # fmt: skip
attack("SVC.kernel is numpy", "decision_function", "a_kernel_that_is_no_kernel")(
    lambda: kernel_machine(np.add)
)
attack("SVC.kernel is", "decision_function", "a_partial_of_the_models_own_rows")(
    lambda: kernel_machine(functools.partial(rbf_kernel, X[:1]))
)
attack("SVC", "decision_function", "rows_of_a_kernel_that_are_not_there")(
    lambda: kernel_machine(rbf_kernel, _BaseLibSVM__Xfit=X[:1].astype(float))
)


def widen(holder: Any) -> None:
    """A tree that agrees with itself, for rows that are wider than those that come."""
    holder.n_features, holder.nodes = 2**30, holder.nodes.copy()
    holder.nodes["feature"][0] = 2**29


@attack("SVC")
def probabilities_that_are_not_there() -> bytes:
    return stored(changed(SVC().fit(scipy.sparse.csr_matrix(X), y), _effective_probability=True))


@attack("EllipticEnvelope")
def an_inverse_of_one_row() -> bytes:
    envelope = EllipticEnvelope().fit(X)
    return stored(changed(envelope, precision_=envelope.precision_[:1].copy()))


@attack("KNeighborsTransformer", "transform")
def a_graph_of_more_neighbours_than_columns() -> bytes:
    graph = KNeighborsTransformer(algorithm="kd_tree").fit(X)
    other = KNeighborsTransformer(algorithm="kd_tree").fit(np.repeat(X, 99, axis=0))
    return stored(changed(graph, _tree=other._tree))


@attack("it is a Tree, which is not an estimator")
def a_tree_as_the_root() -> bytes:
    return stored(DecisionTreeRegressor().fit(X, y).tree_, widen)


@attack("regressor_ holds a Tree, which does not belong")
def a_tree_as_an_estimator() -> bytes:
    target = fitted(TransformedTargetRegressor(LinearRegression()))
    tree = DecisionTreeRegressor().fit(X, y).tree_
    return stored(changed(target, regressor_=tree), lambda one: widen(one.regressor_))


@attack("a MT19937 is at position -2147483648")
def a_generator_outside_of_its_numbers() -> bytes:
    def change(schema: Any) -> None:
        state = node_of(schema, "random_state")["content"]["content"]["state"]["content"]
        state["pos"]["content"] = str(-(2**31))

    drawing = fitted(DummyClassifier(strategy="stratified"))
    return rewritten(stored(changed(drawing, random_state=np.random.RandomState(0))), change)


@attack("says that it is being fitted")
def boosting_that_is_being_fitted() -> bytes:
    """Then it takes its input for small whole numbers, as many in a row as it likes."""
    boosting = HistGradientBoostingRegressor(max_iter=2).fit(np.repeat(X, 200, 1), y)
    boosting = changed(boosting, _in_fit=True)
    return stored(make_pipeline(FunctionTransformer(np.uint8), boosting))


@attack("HistGradientBoostingRegressor")
def boosting_after_a_step_that_drops_columns() -> bytes:
    boosting = fitted(HistGradientBoostingRegressor(max_iter=2))
    first = FunctionTransformer(np.mean, kw_args={"axis": 1, "keepdims": True}).fit(X)
    return stored(changed(boosting, _preprocessor=first))


@attack("NMF", "transform")
def parts_that_are_not_there() -> bytes:
    return stored(changed(NMF(2, max_iter=500).fit(X), _n_components=50))


@attack("Birch")
def norms_of_fewer_clusters() -> bytes:
    return stored(
        Birch(n_clusters=None, threshold=0.01).fit(X),
        lambda one: one.state.update(_subcluster_norms=np.zeros(1)),
    )


@attack("damaged")
def a_forest_with_a_damaged_node() -> bytes:
    def change(forest: Any) -> None:
        holder = next(
            one.value for one in walk(forest) if isinstance(one.value, _compiled_objects.Stored)
        )
        holder.nodes = holder.nodes.copy()
        holder.nodes["left_child"][0] = 2**40

    return stored(fitted(RandomForestRegressor(2)), change)
