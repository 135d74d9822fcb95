"""Checks indices and sizes in neighbours, support vectors, vocabularies, encoders and others.

The second half of the table in _owners.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.cluster import Birch
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import NMF, MiniBatchNMF
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neighbors._base import NeighborsBase
from sklearn.preprocessing import MultiLabelBinarizer, OneHotEncoder
from sklearn.svm._base import BaseLibSVM, BaseSVC


def _neighbours_agree(owner: Any) -> bool:
    rows, columns = owner.n_samples_fit_, owner.n_features_in_
    known = owner._fit_X
    parameters = owner.effective_metric_params_
    is_matrix = isinstance(known, np.ndarray) or scipy.sparse.issparse(known)
    if owner._fit_method not in ("brute", "kd_tree", "ball_tree") or not is_matrix:
        return False
    is_metric = isinstance(owner.effective_metric_, str) or callable(owner.effective_metric_)
    if not isinstance(parameters, dict) or not is_metric:
        return False
    # scikit-learn does not check the lengths of these precomputed values.
    if {"X_norm_squared", "Y_norm_squared"} & {*parameters, *(owner.metric_params or {})}:
        return False
    if "mahalanobis" in (owner.effective_metric_, owner.metric):
        # SciPy does not check its size.
        for given in (parameters, owner.metric_params or {}):
            inverse = given.get("VI")
            if inverse is not None and np.shape(inverse) != (columns, columns):
                return False
    # The tree returns indices of rows of `_fit_X`, which are also columns of a neighbour graph.
    if owner._tree is not None and np.shape(owner._tree.data) != known.shape:
        return False
    return bool(known.shape == (rows, columns))


def _labels_agree(owner: Any) -> bool:
    """Labels must be indices of classes."""
    labels, classes = owner._y, owner.classes_
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu":
        return False
    if len(labels) != owner.n_samples_fit_:
        return False
    is_several = labels.ndim == 2
    if bool(owner.outputs_2d_) != is_several:
        return False
    columns = labels.T if is_several else [labels]
    lengths = [len(one) for one in classes] if is_several else [len(classes)]
    return len(columns) == len(lengths) and all(
        _leads(column, length) for column, length in zip(columns, lengths, strict=True)
    )


def _leads(indices: Any, length: int) -> bool:
    """Whether all of these are valid indices for this length."""
    indices = np.asarray(indices)
    return indices.size == 0 or bool(
        indices.dtype.kind in "iu" and indices.min() >= 0 and indices.max() < length
    )


def _support_agrees(owner: Any) -> bool:
    """libsvm gets only the addresses of these arrays, not their sizes."""
    count = len(owner.support_)
    classes = len(owner.classes_) if isinstance(owner, BaseSVC) else 2
    pairs = classes * (classes - 1) // 2
    dual, vectors = owner._dual_coef_, owner.support_vectors_
    is_implicit = owner.kernel == "precomputed" or callable(owner.kernel)
    if not isinstance(owner._sparse, bool) or scipy.sparse.issparse(dual) != owner._sparse:
        return False
    if owner._sparse:
        # libsvm reads the stored values as if the matrix were dense.
        if dual.format != "csr" or len(dual.data) != (classes - 1) * count:
            return False
        if not scipy.sparse.issparse(vectors) or vectors.format != "csr":
            return False
    if is_implicit:
        # These are rows or columns of the kernel matrix.
        rows = owner.shape_fit_[0]
        fits = _leads(owner.support_, rows)
        if callable(owner.kernel):
            # It is called with the training rows, each of which becomes a column of the matrix.
            known = owner._BaseLibSVM__Xfit
            shape = known.shape if hasattr(known, "shape") else (len(known),)
            is_rows = isinstance(known, (np.ndarray, list)) or scipy.sparse.issparse(known)
            fits = fits and is_rows and shape == tuple(owner.shape_fit_) and not owner._sparse
            fits = fits and vars(owner).get("n_features_in_", shape[-1]) == shape[-1]
        else:
            fits = fits and owner.n_features_in_ == rows
        if owner._sparse:
            fits = fits and vectors.shape[0] == count
    else:
        fits = vectors.shape == (count, owner.n_features_in_)
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
        and np.size(owner._probA) == np.size(owner._probB)
        and (not _gives_probabilities(owner) or np.size(owner._probA) == pairs)
    )


def _gives_probabilities(owner: Any) -> bool:
    """Whether libsvm will compute probabilities. scikit-learn before 1.9 passes the parameter."""
    told = vars(owner).get("_effective_probability", owner.probability)
    if told not in (True, False):
        raise ValueError("it is not clear whether it returns probabilities")
    return bool(told)


def _vocabulary_agrees(owner: Any) -> bool:
    return _places_agree(owner.vocabulary_)


def _places_agree(places: Any) -> bool:
    """Each word must have its own column, and there must be as many columns as words."""
    return (
        isinstance(places, dict)
        and all(isinstance(one, (int, np.integer)) for one in places.values())
        and sorted(places.values()) == list(range(len(places)))
    )


def _cache_agrees(owner: Any) -> bool:
    return owner._cached_dict is None or _places_agree(owner._cached_dict)


def _categories_agree(owner: Any) -> bool:
    """The columns of each category must be among the columns of its feature."""
    outs, dropped = owner._n_features_outs, owner._drop_idx_after_grouping
    features = owner.n_features_in_
    if not isinstance(outs, list) or not len(outs) == len(owner.categories_) == features:
        return False
    if dropped is not None and np.shape(dropped) != (features,):
        return False
    is_grouped = owner._infrequent_enabled
    if not isinstance(is_grouped, bool):
        return False
    for feature, categories in enumerate(owner.categories_):
        if not isinstance(categories, np.ndarray) or categories.ndim != 1 or not len(categories):
            return False
        columns = len(categories)
        # Numbers are found by binary search, which may leave the array if they are not sorted.
        is_number = categories.dtype.kind not in "OUS"
        if is_number and not _leads(np.searchsorted(categories, categories), columns):
            return False
        if is_grouped:
            rare, mapping = (
                one[feature]
                for one in (owner._infrequent_indices, owner._default_to_infrequent_mappings)
            )
            if (rare is None) != (mapping is None):
                return False
            if mapping is not None:
                if np.shape(mapping) != (columns,) or not _leads(rare, columns):
                    return False
                columns -= len(rare) - 1
                if not len(rare) or not _leads(mapping, columns):
                    return False
        drop = None if dropped is None else dropped[feature]
        if drop is not None:
            if not _leads(drop, columns):
                return False
            columns -= 1
        if outs[feature] != columns:
            return False
    return True


def _parts_agree(owner: Any) -> bool:
    parts = owner.components_
    return isinstance(parts, np.ndarray) and parts.shape == (
        owner._n_components,
        owner.n_features_in_,
    )


def _subclusters_agree(owner: Any) -> bool:
    count = len(owner.subcluster_centers_)
    return (
        owner.subcluster_centers_.shape == (count, owner.n_features_in_)
        and count > 0
        and np.shape(owner._subcluster_norms) == (count,)
        and len(owner.subcluster_labels_) == count
    )


def _covariance_agrees(owner: Any) -> bool:
    """SciPy does not check the size of the inverse."""
    columns = owner.n_features_in_
    matrices = [owner.covariance_]
    if vars(owner).get("precision_") is not None:
        matrices.append(owner.precision_)
    return all(isinstance(one, np.ndarray) and one.shape == (columns, columns) for one in matrices)


TABLE: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (NeighborsBase, "_fit_X", _neighbours_agree),
    ((KNeighborsClassifier, RadiusNeighborsClassifier), "_y", _labels_agree),
    (BaseLibSVM, "support_", _support_agrees),
    (CountVectorizer, "vocabulary_", _vocabulary_agrees),
    (DictVectorizer, "vocabulary_", _vocabulary_agrees),
    (MultiLabelBinarizer, "_cached_dict", _cache_agrees),
    (OneHotEncoder, "categories_", _categories_agree),
    ((NMF, MiniBatchNMF), "components_", _parts_agree),
    (EmpiricalCovariance, "covariance_", _covariance_agrees),
    (Birch, "subcluster_centers_", _subclusters_agree),
]
