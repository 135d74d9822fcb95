"""Checks that the attributes of an estimator fit each other, since compiled code does not check.

scikit-learn's compiled functions are built without bounds checks. They trust that the indices in an
estimator are within its arrays, and that the arrays have the sizes that fitting gives them. Each
entry of the table checks this for one class; tests/sklearn/hostile_estimators.py looks for entries
that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from sklearn.cluster import BisectingKMeans
from sklearn.cluster._kmeans import _BaseKMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from opgraft._base._errors import ModelError
from opgraft.sklearn._stored import _first, _indices, _kernels
from opgraft.sklearn._stored._damage import damaged


def check(owner: Any, own: Collection[str]) -> None:
    """Raises a ModelError if the attributes of an object do not fit, so that compiled code could
    read out of bounds. `own` are the names of types and functions that the host has allowed."""
    title = type(owner).__name__
    try:
        for kind, attribute, agrees in _TABLE:
            if _has(owner, kind, attribute) and not agrees(owner):
                raise damaged(
                    f"the sizes of the arrays in {title} do not agree, or an index is out of range"
                )
        for kind, attribute, look in _ASKING:
            if _has(owner, kind, attribute):
                look(owner, own)
    except ModelError:
        raise
    except Exception as error:
        # An attribute is missing or has an unexpected type.
        raise damaged(f"{title}: {type(error).__name__}: {error}") from error


def _has(owner: Any, kind: Any, attribute: str) -> bool:
    return isinstance(owner, kind) and attribute in vars(owner)


def _tree_agrees(owner: Any) -> bool:
    tree = owner.tree_
    return (
        type(tree) is Tree
        and tree.n_features == owner.n_features_in_
        and tree.n_outputs == owner.n_outputs_
    )


def _same_features(owner: Any, trees: Any) -> bool:
    return all(
        isinstance(tree, BaseDecisionTree)
        and tree.n_features_in_ == tree.tree_.n_features == owner.n_features_in_
        for tree in trees
    )


def _forest_agrees(owner: Any) -> bool:
    return len(owner.estimators_) > 0 and _same_features(owner, owner.estimators_)


def _stages_agree(owner: Any) -> bool:
    """Each tree adds one number to one column of the output of the first estimator."""
    stages = owner.estimators_
    columns = owner.n_trees_per_iteration_
    return (
        isinstance(stages, np.ndarray)
        and stages.ndim == 2
        and stages.dtype == object
        and stages.shape[0] > 0
        and stages.shape[1] == columns
        and (columns == 1 or columns == len(owner.classes_))
        and _same_features(owner, stages.ravel())
        and all(tree.tree_.value.shape[1:] == (1, 1) for tree in stages.ravel())
    )


def _isolation_agrees(owner: Any) -> bool:
    is_whole = owner._max_features == owner.n_features_in_
    return len(owner.estimators_) == len(owner.estimators_features_) and all(
        tree.tree_.n_features == (owner.n_features_in_ if is_whole else len(features))
        and len(features) == tree.tree_.n_features
        for tree, features in zip(owner.estimators_, owner.estimators_features_, strict=True)
    )


def _boosting_agrees(owner: Any) -> bool:
    features = owner.n_features_in_
    is_categorical = np.asarray(owner._bin_mapper.is_categorical_)
    if is_categorical.shape != (features,) or is_categorical.dtype.kind not in "bu":
        return False
    if owner._preprocessor is not None and not _keeps_width(owner._preprocessor, features):
        return False
    for stage in owner._predictors:
        for predictor in stage:
            if type(predictor) is not TreePredictor:
                return False
            nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
            feature = nodes["feature_idx"]
            if (feature < 0).any() or (feature >= features).any():
                return False
            if not is_categorical[feature[nodes["is_categorical"] != 0]].all():
                return False
    return True


def _keeps_width(preprocessor: Any, features: int) -> bool:
    """Whether the preprocessor, which boosting uses for categories, keeps the number of columns:
    each column must go through one of two steps that return one column for each."""
    if type(preprocessor) is not ColumnTransformer or preprocessor.n_features_in_ != features:
        return False
    taken = np.zeros(features, dtype=np.int64)
    for _, step, columns in preprocessor.transformers_:
        if step == "drop" and not np.any(columns):
            continue
        is_checking = type(step) is FunctionTransformer and (
            step.func is None
            or getattr(getattr(step.func, "func", None), "__name__", "") == "check_array"
        )
        if not is_checking and type(step) is not OrdinalEncoder:
            return False
        if not isinstance(columns, np.ndarray) or columns.dtype != bool:
            return False
        taken += columns
    return bool((taken == 1).all())


def _clusters_agree(owner: Any) -> bool:
    centres = [owner.cluster_centers_]
    if isinstance(owner, BisectingKMeans):
        waiting = [owner._bisecting_tree]
        while waiting:
            node = waiting.pop()
            if node is not None:
                centres.append(np.atleast_2d(node.center))
                waiting += [node.left, node.right]
    return all(
        isinstance(one, np.ndarray)
        and one.ndim == 2
        and len(one) > 0
        and one.shape[1] == owner.n_features_in_
        for one in centres
    )


#: A class, an attribute that exists after fitting, and a check of whether its attributes agree.
_TABLE: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (BaseDecisionTree, "tree_", _tree_agrees),
    (BaseForest, "estimators_", _forest_agrees),
    (BaseGradientBoosting, "estimators_", _stages_agree),
    (BaseHistGradientBoosting, "_predictors", _boosting_agrees),
    (IsolationForest, "estimators_", _isolation_agrees),
    (_BaseKMeans, "cluster_centers_", _clusters_agree),
    *_indices.TABLE,
]
#: The same for checks that depend on what the host has allowed. These raise their own errors.
_ASKING: list[tuple[Any, str, Callable[[Any, Collection[str]], None]]] = [
    (BaseGradientBoosting, "estimators_", _first.check),
    (BaseLibSVM, "support_", _kernels.check),
]
