"""Converts estimators that mostly call others and that skl2onnx cannot convert. The inner ones stay
separate steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sklearn.ensemble import RandomTreesEmbedding, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder
from sklearn.semi_supervised import SelfTrainingClassifier

from opgraft.sklearn import _private
from opgraft.sklearn._convert import _chains, _one_hot

Parser = Callable[[Any, Any, Any, Any, Any], Any]


def parser_for(model: Any) -> Parser | None:
    """Returns the function that parses this estimator, or None."""
    if type(model) in _VARIANTS and _VARIANTS[type(model)](model):
        return _parse_variant
    if _chains.takes(model):
        return _chains.parse
    inner = inner_of(model)
    if inner is None:
        return None

    def parse(conversion: Any, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
        options = (scope.options or {}).get(id(model)) or (scope.options or {}).get(type(model))
        if options:
            scope.add_options(id(inner), options)
        return _private.parse(scope, inner, inputs, custom_parsers)

    return parse


def _parse_variant(
    conversion: Any, scope: Any, model: Any, inputs: Any, custom_parsers: Any
) -> Any:
    variant = copy.copy(model)
    for name, value in _VARIANTS[type(model)](model).items():
        setattr(variant, name, value)
    conversion.variants[id(variant)] = (variant, model)
    if isinstance(model, OneHotEncoder):
        inputs = _chains.as_one(scope, inputs)
    options = (scope.options or {}).get(id(model))
    if options:
        scope.add_options(id(variant), options)
    return conversion.parse_natively(scope, variant, inputs, custom_parsers)


def without_words(union: FeatureUnion) -> FeatureUnion:
    """Returns the union with transformers instead of the words "passthrough" and "drop"."""
    words = {"passthrough": FunctionTransformer(), "drop": None}
    parts = [
        (name, words[one] if isinstance(one, str) else one) for name, one in union.transformer_list
    ]
    if not any(isinstance(one, str) for _, one in union.transformer_list):
        return union
    union = copy.copy(union)
    union.transformer_list = [(name, one) for name, one in parts if one is not None]
    return union


def _ignoring(encoder: Any) -> dict[str, Any]:
    """Without infrequent categories, unknown ones become zeros. skl2onnx supports that only for
    "ignore"."""
    is_error = encoder.handle_unknown in ("error", "ignore")
    return {} if is_error or _one_hot.has_infrequent(encoder) else {"handle_unknown": "ignore"}


#: Replacements for parameters that skl2onnx refuses or does not know. The results of a model are
#: the same, because all its tensors are dense.
_VARIANTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    OneHotEncoder: _ignoring,
    KBinsDiscretizer: lambda one: {"encode": "onehot-dense"} if one.encode == "onehot" else {},
    RandomTreesEmbedding: lambda one: {"sparse_output": False} if one.sparse_output else {},
    VotingClassifier: lambda one: {"flatten_transform": False} if one.flatten_transform else {},
}


def inner_of(model: Any) -> Any:
    """Returns the estimator that computes all results of this one, or None."""
    if isinstance(model, BaseSearchCV):
        return getattr(model, "best_estimator_", None)
    if type(model) is FrozenEstimator:
        return model.estimator
    if type(model) is SelfTrainingClassifier:
        return getattr(model, "estimator_", None)
    return None
