"""Every estimator of scikit-learn, fitted on a small data set, and rows that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.utils
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import MinMaxScaler, StandardScaler

iris, diabetes = load_iris(), load_diabetes()
FLOWERS = train_test_split(iris.data.astype(np.float32), iris.target, random_state=0)
PATIENTS = train_test_split(diabetes.data.astype(np.float32) * 20, diabetes.target, random_state=0)
WORDS = ["the cat sat", "a dog ran far", "the dog sat down", "cats and dogs ran", "far and away"]
TEXTS = np.array(WORDS * 4)

Fitted = tuple[BaseEstimator, Any]


def flowers(estimator: Any) -> Fitted:
    X, unseen, y, _ = FLOWERS
    return estimator.fit(X, y), unseen


def patients(estimator: Any) -> Fitted:
    X, unseen, y, _ = PATIENTS
    return estimator.fit(X, y), unseen


def two_kinds(estimator: Any) -> Fitted:
    X, unseen, y, _ = FLOWERS
    return estimator.fit(X, (y > 1).astype(np.int64)), unseen


def several_targets(estimator: Any) -> Fitted:
    X, unseen, y, _ = PATIENTS
    return estimator.fit(X, np.stack([y, y[::-1]], 1)), unseen


def several_labels(estimator: Any) -> Fitted:
    X, unseen, y, _ = FLOWERS
    return estimator.fit(X, np.stack([y > 0, y > 1], 1).astype(np.int64)), unseen


def unlabelled(estimator: Any) -> Fitted:
    X, unseen, y, _ = FLOWERS
    return estimator.fit(X, np.where(np.arange(len(y)) % 3 == 0, -1, y)), unseen


def one_column(estimator: Any) -> Fitted:
    X, unseen, y, _ = PATIENTS
    return estimator.fit(X[:, :1], y), unseen[:, :1]


def square(estimator: Any) -> Fitted:
    X = FLOWERS[0]
    return estimator.fit(X @ X.T), FLOWERS[1] @ X.T


def with_missing(estimator: Any) -> Fitted:
    X, unseen = (np.where(np.arange(one.size).reshape(one.shape) % 7, one, np.nan) for one in (
        FLOWERS[0], FLOWERS[1]))  # fmt: skip
    return estimator.fit(X), unseen


def categories(estimator: Any) -> Fitted:
    X, unseen, y, _ = FLOWERS
    return estimator.fit(X.astype(np.int64), y), np.minimum(unseen, X.max(0)).astype(np.int64)


def words(estimator: Any) -> Fitted:
    X = np.array([["red", "a"], ["green", "b"], ["blue", "a"], ["red", "b"]] * 5, dtype=object)
    return estimator.fit(X, np.arange(20) % 2), X[:7]


def texts(estimator: Any) -> Fitted:
    return estimator.fit(TEXTS), TEXTS[:5]


def records(estimator: Any) -> Fitted:
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "c": 4.0}] * 4
    return estimator.fit(rows), rows[:3]


def labels(estimator: Any) -> Fitted:
    return estimator.fit(FLOWERS[2]), FLOWERS[3]


def label_sets(estimator: Any) -> Fitted:
    return estimator.fit([("a", "b"), ("c",), ("a", "c")]), [("a",), ("b", "c")]


def images(estimator: Any) -> Fitted:
    X = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    return estimator.fit(X), X[:2]


def is_kind(kind: str, estimator: Any) -> bool:
    return bool(sklearn.utils.get_tags(estimator).estimator_type == kind)


def usual(estimator: Any) -> Fitted:
    if is_kind("regressor", estimator):
        return patients(estimator)
    if sklearn.utils.get_tags(estimator).target_tags.required or is_kind("classifier", estimator):
        return flowers(estimator)
    return flowers(estimator)


Arguments = dict[str, Any]
LOGISTIC = {"max_iter": 200}

#: What an estimator is made with, where it needs something.
ARGUMENTS: dict[str, Callable[[], Arguments]] = {
    "ClassifierChain": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "ColumnTransformer": lambda: {
        "transformers": [("s", StandardScaler(), [0, 1]), ("m", MinMaxScaler(), [2, 3])]
    },
    "FeatureUnion": lambda: {"transformer_list": [("s", StandardScaler()), ("m", MinMaxScaler())]},
    "FixedThresholdClassifier": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "threshold": 0.7,
    },
    "FrozenEstimator": lambda: {"estimator": flowers(LogisticRegression(**LOGISTIC))[0]},
    "GridSearchCV": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "param_grid": {"C": [0.1, 1]},
    },
    "RandomizedSearchCV": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "param_distributions": {"C": [0.1, 1]},
        "n_iter": 2,
        "random_state": 0,
    },
    "HalvingGridSearchCV": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "param_grid": {"C": [0.1, 1]},
    },
    "HalvingRandomSearchCV": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "param_distributions": {"C": [0.1, 1]},
        "random_state": 0,
    },
    "MultiOutputClassifier": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "MultiOutputRegressor": lambda: {"estimator": Ridge()},
    "OneVsOneClassifier": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "OneVsRestClassifier": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "OutputCodeClassifier": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "random_state": 0,
    },
    "Pipeline": lambda: {"steps": [("s", StandardScaler()), ("c", LogisticRegression(**LOGISTIC))]},
    "RFE": lambda: {"estimator": LogisticRegression(**LOGISTIC), "n_features_to_select": 2},
    "RFECV": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "RegressorChain": lambda: {"estimator": Ridge()},
    "SelectFromModel": lambda: {
        "estimator": RandomForestClassifier(n_estimators=5, random_state=0)
    },
    "SelfTrainingClassifier": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "SequentialFeatureSelector": lambda: {
        "estimator": LogisticRegression(**LOGISTIC),
        "n_features_to_select": 2,
    },
    "SparseCoder": lambda: {"dictionary": np.eye(4, dtype=np.float64)},
    "StackingClassifier": lambda: {
        "estimators": [
            ("l", LogisticRegression(**LOGISTIC)),
            ("f", RandomForestClassifier(n_estimators=5, random_state=0)),
        ]
    },
    "StackingRegressor": lambda: {"estimators": [("r", Ridge()), ("k", KNeighborsRegressor())]},
    "TransformedTargetRegressor": lambda: {
        "regressor": Ridge(),
        "func": np.log1p,
        "inverse_func": np.expm1,
    },
    "TunedThresholdClassifierCV": lambda: {"estimator": LogisticRegression(**LOGISTIC)},
    "VotingClassifier": lambda: {
        "estimators": [
            ("l", LogisticRegression(**LOGISTIC)),
            ("f", RandomForestClassifier(n_estimators=5, random_state=0)),
        ]
    },
    "VotingRegressor": lambda: {"estimators": [("r", Ridge()), ("k", KNeighborsRegressor())]},
    "LocalOutlierFactor": lambda: {"novelty": True},
    "RadiusNeighborsClassifier": lambda: {"radius": 3.0},
    "RadiusNeighborsRegressor": lambda: {"radius": 5.0},
    "SpectralBiclustering": lambda: {"n_clusters": 3},
    "SpectralCoclustering": lambda: {"n_clusters": 3},
    "DictionaryLearning": lambda: {"n_components": 3, "max_iter": 20},
    "MiniBatchDictionaryLearning": lambda: {"n_components": 3, "max_iter": 20},
    "PatchExtractor": lambda: {"patch_size": (3, 3)},
    "SelectKBest": lambda: {"k": 2},
    "GenericUnivariateSelect": lambda: {"mode": "k_best", "param": 2},
    "FeatureHasher": lambda: {"n_features": 8},
    "HashingVectorizer": lambda: {"n_features": 16},
    "SparseRandomProjection": lambda: {"n_components": 2},
    "GaussianRandomProjection": lambda: {"n_components": 2},
    "RANSACRegressor": lambda: {"estimator": LinearRegression()},
    "BernoulliRBM": lambda: {"n_components": 3},
    "Isomap": lambda: {"n_neighbors": 20},
    "AffinityPropagation": lambda: {"damping": 0.9},
    "TSNE": lambda: {"perplexity": 5},
    "QuantileTransformer": lambda: {"n_quantiles": 50},
    "Nystroem": lambda: {"n_components": 20},
    "SpectralClustering": lambda: {"n_clusters": 3},
    "KMeans": lambda: {"n_clusters": 3},
    "BisectingKMeans": lambda: {"n_clusters": 3},
    "MiniBatchKMeans": lambda: {"n_clusters": 3},
    "Birch": lambda: {"n_clusters": 3},
    "PLSCanonical": lambda: {"n_components": 1},
    "CCA": lambda: {"n_components": 1},
    "PLSSVD": lambda: {"n_components": 1},
    "PLSRegression": lambda: {"n_components": 2},
    "MLPClassifier": lambda: {"max_iter": 50},
    "MLPRegressor": lambda: {"max_iter": 50},
    "GaussianMixture": lambda: {"n_components": 3},
    "BayesianGaussianMixture": lambda: {"n_components": 3},
}

#: What it is fitted on, where that is not usual.
DATA: dict[str, Callable[[Any], Fitted]] = {
    "CCA": several_targets,
    "CategoricalNB": categories,
    "ClassifierChain": several_labels,
    "CountVectorizer": texts,
    "DictVectorizer": records,
    "FeatureHasher": records,
    "FixedThresholdClassifier": two_kinds,
    "HashingVectorizer": texts,
    "IsotonicRegression": one_column,
    "KNNImputer": with_missing,
    "KernelCenterer": square,
    "LabelBinarizer": labels,
    "LabelEncoder": labels,
    "LabelPropagation": unlabelled,
    "LabelSpreading": unlabelled,
    "MissingIndicator": with_missing,
    "MultiLabelBinarizer": label_sets,
    "MultiOutputClassifier": several_labels,
    "MultiOutputRegressor": several_targets,
    "MultiTaskElasticNet": several_targets,
    "MultiTaskElasticNetCV": several_targets,
    "MultiTaskLasso": several_targets,
    "MultiTaskLassoCV": several_targets,
    "OneHotEncoder": words,
    "OrdinalEncoder": words,
    "TargetEncoder": words,
    "PatchExtractor": images,
    "PLSCanonical": several_targets,
    "PLSSVD": several_targets,
    "RegressorChain": several_targets,
    "SelfTrainingClassifier": unlabelled,
    "SimpleImputer": with_missing,
    "TfidfVectorizer": texts,
    "TunedThresholdClassifierCV": two_kinds,
    "GammaRegressor": patients,
    "PoissonRegressor": patients,
}


def classes() -> dict[str, type]:
    return dict(sklearn.utils.all_estimators())


def fit(name: str) -> Fitted:
    """The estimator of this name, fitted, and some rows for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = ARGUMENTS.get(name, dict)()
        of_class: Any = classes()[name]
        parameters = (
            of_class.__init__.__code__.co_varnames
            if of_class.__init__ is not object.__init__
            else ()
        )
        if "random_state" in parameters and "random_state" not in arguments:
            arguments["random_state"] = 0
        return DATA.get(name, usual)(of_class(**arguments))
