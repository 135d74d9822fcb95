"""What must agree between an ensemble and the trees in it, since compiled code does not look."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.tree import BaseDecisionTree

from opgraft._errors import ModelError


def check(owner: Any) -> None:
    """A ModelError where trees would read beyond the rows that their owner hands them."""
    try:
        agrees = _agrees(owner)
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise ModelError(f"the stored estimator is damaged: {error}") from error
    if not agrees:
        raise ModelError(
            f"the stored estimator is damaged: {type(owner).__name__} and its trees do not agree "
            "in their number of features"
        )


def _agrees(owner: Any) -> bool:
    if isinstance(owner, BaseDecisionTree):
        return not hasattr(owner, "tree_") or owner.tree_.n_features == owner.n_features_in_
    if isinstance(owner, (GradientBoostingClassifier, GradientBoostingRegressor)):
        if not hasattr(owner, "estimators_"):
            return True
        stages = owner.estimators_
        return (
            isinstance(stages, np.ndarray)
            and stages.ndim == 2
            and stages.shape[1] == owner.n_trees_per_iteration_
            and (
                owner.n_trees_per_iteration_ == 1
                or owner.n_trees_per_iteration_ == len(owner.classes_)
            )
            and _same_features(owner, stages.ravel())
        )
    if isinstance(owner, BaseForest):
        return not hasattr(owner, "estimators_") or _same_features(owner, owner.estimators_)
    if isinstance(owner, IsolationForest):
        if not hasattr(owner, "estimators_"):
            return True
        is_whole = owner._max_features == owner.n_features_in_
        return len(owner.estimators_) == len(owner.estimators_features_) and all(
            tree.tree_.n_features == (owner.n_features_in_ if is_whole else len(features))
            and len(features) == tree.tree_.n_features
            for tree, features in zip(owner.estimators_, owner.estimators_features_, strict=True)
        )
    if isinstance(owner, (HistGradientBoostingClassifier, HistGradientBoostingRegressor)):
        return not hasattr(owner, "_predictors") or _boosting_agrees(owner)
    return True


def _same_features(owner: Any, trees: Any) -> bool:
    return all(
        isinstance(tree, BaseDecisionTree)
        and tree.n_features_in_ == tree.tree_.n_features == owner.n_features_in_
        for tree in trees
    )


def _boosting_agrees(owner: Any) -> bool:
    mapper = owner._bin_mapper
    is_categorical = np.asarray(mapper.is_categorical_)
    if is_categorical.shape != (owner.n_features_in_,) or is_categorical.dtype.kind not in "bu":
        return False
    for stage in owner._predictors:
        for predictor in stage:
            nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
            feature = nodes["feature_idx"]
            if (feature < 0).any() or (feature >= owner.n_features_in_).any():
                return False
            if not is_categorical[feature[nodes["is_categorical"] != 0]].all():
                return False
    return True
