"""Checks the estimator that gradient boosting starts from, whose output size must be right.

Compiled code adds the results of trees to the output of `init_` without checking its size. A test
run would prove nothing: a hostile model may behave differently later. So `init_` must be one of the
types listed here, whose numbers of rows and columns follow from their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from sklearn import dummy, ensemble, linear_model, tree
from sklearn._loss import link
from sklearn.base import is_classifier

from opgraft._base._errors import ModelError


def check(owner: Any, own: Collection[str]) -> None:
    """Raises a ModelError if the output of `init_` may have other rows or columns than boosting
    expects. `own` are the names of types that the host has allowed."""
    title, first = type(owner).__name__, owner.init_
    columns = owner.n_trees_per_iteration_
    is_known = type(owner._loss.link) in _LINKS
    if not is_known or bool(owner._loss.is_multiclass) != (columns > 1):
        raise ModelError(f"the loss of {title} does not match its {columns} trees in a stage")
    if isinstance(first, str) and first == "zero":
        return
    if f"{type(first).__module__}.{type(first).__name__}" in own:
        return
    table = _CLASSIFIERS if is_classifier(owner) else _REGRESSORS
    if type(first) not in table:
        names = ", ".join(sorted(one.__name__ for one in table))
        raise ModelError(
            f"{title}.init_ is a {type(first).__name__}, which might not return one row for "
            f"each input row; expected 'zero', one of {names}, or your own class, if allowed"
        )
    classes = 2 if columns == 1 else columns
    if not table[type(first)](first, classes):
        raise ModelError(f"{title}.init_ does not return {columns} numbers for each row")


def _constant_agrees(first: Any, classes: int) -> bool:
    return bool(first.n_outputs_ == 1 and np.size(first.constant_) == 1)


def _prior_agrees(first: Any, classes: int) -> bool:
    is_array = isinstance(first.class_prior_, np.ndarray)
    return bool(
        first.n_outputs_ == 1
        and first.n_classes_ == classes
        and is_array
        and first.class_prior_.shape == (classes,)
    )


def _one_output(first: Any, classes: int) -> bool:
    return bool(first.n_outputs_ == 1)


def _tree_agrees(first: Any, classes: int) -> bool:
    is_one = first.n_outputs_ == 1 and first.n_classes_ == classes
    return bool(is_one and first.tree_.value.shape[1:] == (1, classes))


def _forest_agrees(first: Any, classes: int) -> bool:
    return bool(first.n_outputs_ == 1 and first.n_classes_ == classes)


def _line_agrees(first: Any, classes: int) -> bool:
    coefficients = first.coef_
    is_line = isinstance(coefficients, np.ndarray) and coefficients.shape == (first.n_features_in_,)
    return is_line and coefficients.dtype.kind == "f" and np.ndim(first.intercept_) == 0


def _lines_agree(first: Any, classes: int) -> bool:
    coefficients, rows = first.coef_, 1 if classes == 2 else classes
    return (
        isinstance(coefficients, np.ndarray)
        and coefficients.dtype.kind == "f"
        and coefficients.shape == (rows, first.n_features_in_)
        and np.shape(first.intercept_) == (rows,)
        and np.shape(first.classes_) == (classes,)
    )


#: All of these keep the shape of their input.
_LINKS = (
    link.IdentityLink,
    link.LogLink,
    link.LogitLink,
    link.HalfLogitLink,
    link.MultinomialLogit,
)

_LINES = (
    "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lasso LassoCV "
    "LinearRegression Ridge RidgeCV"
).split()
#: For each exact type, a check of the estimator and the number of classes.
_REGRESSORS: dict[type, Callable[[Any, int], bool]] = {
    dummy.DummyRegressor: _constant_agrees,
    tree.DecisionTreeRegressor: _one_output,
    tree.ExtraTreeRegressor: _one_output,
    ensemble.RandomForestRegressor: _one_output,
    ensemble.ExtraTreesRegressor: _one_output,
    **{getattr(linear_model, name): _line_agrees for name in _LINES},
}
_CLASSIFIERS: dict[type, Callable[[Any, int], bool]] = {
    dummy.DummyClassifier: _prior_agrees,
    tree.DecisionTreeClassifier: _tree_agrees,
    tree.ExtraTreeClassifier: _tree_agrees,
    ensemble.RandomForestClassifier: _forest_agrees,
    ensemble.ExtraTreesClassifier: _forest_agrees,
    linear_model.LogisticRegression: _lines_agree,
    linear_model.LogisticRegressionCV: _lines_agree,
}
