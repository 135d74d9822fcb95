"""What must agree inside an estimator, since compiled code that it calls does not look."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import BisectingKMeans
from sklearn.cluster._kmeans import _BaseKMeans
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.svm._base import BaseLibSVM, BaseSVC
from sklearn.tree import BaseDecisionTree

from opgraft._errors import ModelError


def check(owner: Any) -> None:
    """A ModelError where its parts do not fit, so that one would read beyond another's end."""
    try:
        agrees = _agrees(owner)
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise ModelError(f"the stored estimator is damaged: {error}") from error
    if not agrees:
        raise ModelError(
            f"the stored estimator is damaged: the sizes of what {type(owner).__name__} holds do "
            "not agree"
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
    if isinstance(owner, _BaseKMeans):
        return not hasattr(owner, "cluster_centers_") or _clusters_agree(owner)
    if isinstance(owner, BaseLibSVM):
        return not hasattr(owner, "support_") or _support_agrees(owner)
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
        isinstance(one, np.ndarray) and one.ndim == 2 and one.shape[1] == owner.n_features_in_
        for one in centres
    )


def _support_agrees(owner: Any) -> bool:
    """libsvm gets these by their addresses alone."""
    count = len(owner.support_)
    classes = len(owner.classes_) if isinstance(owner, BaseSVC) else 2
    pairs = classes * (classes - 1) // 2
    dual = owner._dual_coef_
    is_implicit = owner.kernel == "precomputed" or callable(owner.kernel)
    if is_implicit:
        # These are rows, or columns, of the matrix of the kernel.
        rows = owner.shape_fit_[0]
        fits = count == 0 or (owner.support_.min() >= 0 and owner.support_.max() < rows)
        fits = fits and (callable(owner.kernel) or owner.n_features_in_ == rows)
    else:
        fits = owner.support_vectors_.shape == (count, owner.n_features_in_)
    return (
        fits
        and owner.support_.ndim == 1
        and owner.support_.dtype == np.int32
        and dual.shape == (classes - 1, count)
        and np.shape(owner._n_support) == (classes,)
        and owner._n_support.dtype == np.int32
        and (owner._n_support >= 0).all()
        and (not isinstance(owner, BaseSVC) or int(owner._n_support.sum()) == count)
        and np.shape(owner._intercept_) == (pairs,)
        and all(np.size(one) in (0, pairs) for one in (owner._probA, owner._probB))
    )
