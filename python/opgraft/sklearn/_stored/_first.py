"""What gradient boosting may start from: its compiled code takes it that there is a row for each.

Trees add to what `init_` gives, without a look at its size. Whether it is right cannot be tried: a
model may behave for what it is tried with, and not later. So it is one of the types here, whose
numbers of rows and columns follow from what they hold.
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
    """A ModelError where boosting does not start from as many rows and columns as it adds to.
    `own`: the names of types that the host has answered for."""
    title, first = type(owner).__name__, owner.init_
    columns = owner.n_trees_per_iteration_
    is_known = type(owner._loss.link) in _LINKS
    if not is_known or bool(owner._loss.is_multiclass) != (columns > 1):
        raise ModelError(f"the loss of {title} is not one for {columns} trees in a stage")
    if isinstance(first, str) and first == "zero":
        return
    if f"{type(first).__module__}.{type(first).__name__}" in own:
        return
    table = _CLASSIFIERS if is_classifier(owner) else _REGRESSORS
    if type(first) not in table:
        names = ", ".join(sorted(one.__name__ for one in table))
        raise ModelError(
            f"{title}.init_ is a {type(first).__name__}, which may give other than one row for "
            f"each; expected 'zero', or one of {names}, or a class of your own that the host allows"
        )
    classes = 2 if columns == 1 else columns
    if not table[type(first)](first, classes):
        raise ModelError(f"the numbers that {title}.init_ gives are not {columns} for each row")


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


#: All of them keep the shape of what they are given.
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
#: By the exact type: a function of what it holds, and of the number of classes.
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
