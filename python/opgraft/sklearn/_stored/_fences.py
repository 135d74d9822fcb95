"""Checks the attributes of a loaded estimator; allowed types alone do not make it safe.

scikit-learn trusts the attributes of an estimator: it calls methods that they name, writes to their
cache folder, starts as many processes as they say, and passes them to compiled code. So this module
checks what each object holds in which attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator
from sklearn.cluster import BisectingKMeans
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.neighbors import BallTree, KDTree, KernelDensity
from sklearn.neighbors._base import NeighborsBase
from sklearn.preprocessing import SplineTransformer
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree
from sklearn.utils import Bunch
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from opgraft._base._errors import PolicyError
from opgraft.sklearn._stored import _patterns, _reviewed, _trusted
from opgraft.sklearn._stored._damage import damaged
from opgraft.sklearn._stored._walk import walk

#: Methods that an attribute may name for another object to call: only methods for new data.
CALLED = "predict predict_proba predict_log_proba decision_function transform score_samples".split()
#: Attributes that hold such names.
_NAMES_OF_METHODS = (
    "stack_method stack_method_ response_method _response_method chain_method chain_method_".split()
)
#: Attributes that hold objects whose methods are called.
_STEPS = (
    "estimators_ estimator_ final_estimator_ best_estimator_ regressor_ calibrated_classifiers_ "
    "base_estimator_ named_estimators_ init_ initial_imputer_".split()
)
#: Attributes with the options of a function, and the attribute with the function or its name.
_OPTIONS = {
    "kw_args": "func",
    "inv_kw_args": "inverse_func",
    "metric_params": "metric",
    "_metric_params": "metric",
    "effective_metric_params_": "effective_metric_",
    "kernel_params": "kernel",
    "pairwise_kernels_kwargs": "metric",
}
#: Where compiled objects may be. Their methods do not check their arguments; the estimators that
#: call them do.
_PLACES: list[tuple[tuple[type, ...], tuple[type, ...], str]] = [
    ((Tree,), (BaseDecisionTree,), "tree_"),
    ((TreePredictor,), (BaseHistGradientBoosting,), "_predictors"),
    ((KDTree, BallTree), (NeighborsBase,), "_tree"),
    ((KDTree, BallTree), (KernelDensity,), "tree_"),
    ((BSpline,), (SplineTransformer,), "bsplines_"),
    # A dictionary with attributes could imitate any object.
    ((Bunch,), (BaseEstimator,), "named_estimators_"),
]
_PLACED = tuple({kind for kinds, _, _ in _PLACES for kind in kinds})

Allows = Callable[[list[str]], None]


def check(root: Any, own: list[str], allows: Allows) -> None:
    """Raises an error if the estimator holds something forbidden. Resets attributes that it may not
    use, such as the number of processes.

    `own` are the names of types that the host has allowed; their attributes are not checked.
    """

    def is_own(value: Any) -> bool:
        return f"{type(value).__module__}.{type(value).__name__}" in own

    if not isinstance(root, BaseEstimator) and not is_own(root):
        raise damaged(f"it is {_a(root)}, which is not an estimator")
    for place in walk(root):
        value = place.value
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            _check_generator(value)
        if isinstance(value, partial) and not _is_named(value.func, own):
            _set_processes(value.keywords)
        if _is_of_sklearn(value) and not is_own(value):
            for name, held in list(vars(value).items()):
                _check_attribute(value, name, held)
                _check_held(value, name, held, is_own)
                function = getattr(value, _OPTIONS[name], None) if name in _OPTIONS else None
                if name in _OPTIONS and not _is_named(function, own):
                    _set_processes(held)
        if isinstance(value, BaseEstimator) and not is_own(value):
            _check_reviewed(value, allows)
            _check_parameters(value)
        if isinstance(value, (CountVectorizer, HashingVectorizer)):
            _check_texts(value, allows)


def _is_named(function: Any, own: list[str]) -> bool:
    """Whether it is a function that the host has allowed, or a partial of such a function."""
    while isinstance(function, partial):
        function = function.func
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}" in own


def _set_processes(options: Any) -> None:
    if isinstance(options, dict) and "n_jobs" in options:
        options["n_jobs"] = 1


def _is_of_sklearn(value: Any) -> bool:
    is_object = not isinstance(value, (FunctionType, Bunch)) and hasattr(value, "__dict__")
    return is_object and type(value).__module__.startswith("sklearn.")


def _a(value: Any) -> str:
    return f"a {type(value).__name__}"


def _check_attribute(owner: Any, name: str, held: Any) -> None:
    """Checks one attribute by its name. Resets parameters that do not matter for new data."""
    title = type(owner).__name__
    of_class = getattr(type(owner), name, None)
    if name.startswith("__") or callable(of_class) or isinstance(of_class, property):
        raise damaged(f"{title} has an attribute '{name}' that replaces one of its class")
    if name == "memory":
        owner.memory = None
    if name == "n_jobs" and held is not None:
        owner.n_jobs = 1
    if name == "_n_threads":
        owner._n_threads = _openmp_effective_n_threads()
    if name == "_in_fit":
        raise damaged(f"{title} says that it is being fitted")
    if name in _NAMES_OF_METHODS:
        for leaf in _leaves(held):
            if leaf is not None and leaf != "auto" and leaf not in CALLED:
                raise damaged(
                    f"{title}.{name} is {leaf!r}, which is not a method for new data; expected "
                    f"one of: {', '.join(CALLED)}"
                )
    is_path = name == "importance_getter" and isinstance(held, str)
    if is_path and not re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", held):
        raise damaged(f"{title}.{name} is {held!r}, which is not an attribute of an estimator")
    if name in ("n_features_in_", "n_samples_fit_", "n_outputs_") and not _is_count(held):
        raise damaged(f"{title}.{name} is {_a(held)}; expected a whole number below 2**31")


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_whole and 0 <= value < 2**31


def _check_held(owner: Any, name: str, held: Any, is_own: Callable[[Any], bool]) -> None:
    """Checks the objects that one attribute holds, also in lists and dictionaries."""
    title = type(owner).__name__
    for leaf in _leaves(held):
        if isinstance(leaf, _PLACED):
            if not any(
                isinstance(leaf, kinds) and isinstance(owner, owners) and name == place
                for kinds, owners, place in _PLACES
            ):
                raise damaged(f"{title}.{name} holds {_a(leaf)}, which does not belong there")
        elif name in _STEPS and not is_own(leaf):
            is_step = isinstance(leaf, (BaseEstimator, str, type(None)))
            if not is_step and type(leaf).__name__ != "_CalibratedClassifier":
                raise damaged(f"{title}.{name} holds {_a(leaf)}, which is not an estimator")
        function = leaf.func if isinstance(leaf, partial) else leaf
        if isinstance(function, FunctionType) and function.__module__.startswith("sklearn."):
            is_place = isinstance(owner, BisectingKMeans) and name == "_kmeans_single"
            if function.__name__.startswith("_") and not is_place:
                raise damaged(
                    f"{title}.{name} is {function.__name__}, a private function of scikit-learn"
                )


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the objects in nested containers, or the value itself if it is not a container."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, (dict, list, tuple, set, frozenset)) or (
            isinstance(one, np.ndarray) and one.dtype == object
        ):
            if isinstance(one, Bunch):
                yield one
            if id(one) not in seen:
                seen.add(id(one))
                waiting += one.values() if isinstance(one, dict) else list(one)
        else:
            yield one


def _check_reviewed(estimator: Any, allows: Allows) -> None:
    name = f"{type(estimator).__module__}.{type(estimator).__name__}"
    is_reviewed = type(estimator).__name__ in _reviewed.ESTIMATORS or name in _trusted.NAMES
    if not is_reviewed or not name.startswith("sklearn."):
        allows([name])


def _check_parameters(estimator: Any) -> None:
    """Checks parameters by scikit-learn's own constraints, which it otherwise checks in `fit`."""
    constraints = getattr(type(estimator), "_parameter_constraints", None)
    if not isinstance(constraints, dict):
        return
    title = type(estimator).__name__
    # An estimator of another version may lack a parameter that the class has now.
    names = type(estimator)._get_param_names()
    parameters = {name: vars(estimator)[name] for name in names if name in vars(estimator)}
    try:
        validate_parameter_constraints(constraints, parameters, caller_name=title)
    except (InvalidParameterError, AttributeError, TypeError) as error:
        raise damaged(str(error)) from error


def _check_texts(vectorizer: Any, allows: Allows) -> None:
    title = type(vectorizer).__name__
    if vectorizer.input != "content":
        raise PolicyError(
            f"{title}(input={vectorizer.input!r}) would read files that the model names; only "
            "input='content' is allowed"
        )
    pattern = vectorizer.token_pattern
    if pattern is None or vectorizer.analyzer != "word" or vectorizer.tokenizer is not None:
        return
    if not isinstance(pattern, str):
        raise damaged(f"{title}.token_pattern is {_a(pattern)}, not a string")
    if not _patterns.is_bounded(pattern):
        try:
            allows([_patterns.ALLOWANCE])
        except PolicyError as error:
            raise PolicyError(
                f"{title}(token_pattern={pattern!r}) is a regular expression that may take "
                f"forever for some texts: {error}"
            ) from error


def _check_generator(generator: Any) -> None:
    """Checks the position of a random generator in its buffer, which NumPy does not check."""
    if isinstance(generator, np.random.RandomState):
        state: Any = generator.get_state(legacy=False)
    else:
        state = generator.bit_generator.state
    kind = state["bit_generator"]
    least, most, position = 0, 0, 0
    if kind == "MT19937":
        most, position = 624, state["state"]["pos"]
    elif kind == "Philox":
        most, position = 4, state["buffer_pos"]
    if not least <= position <= most:
        raise damaged(f"a {kind} is at position {position}; expected {least} to {most}")
