"""Conversions that skl2onnx lacks, for estimators that do little but call others: those stay apart,
each native or not."""

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
    """What converts it, or None."""
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
    """The union with transformers in place of the words that stand for some."""
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
    """Without infrequent categories, unknown ones are zeros: skl2onnx writes that for "ignore"
    alone."""
    is_error = encoder.handle_unknown in ("error", "ignore")
    return {} if is_error or _one_hot.has_infrequent(encoder) else {"handle_unknown": "ignore"}


#: Parameters that skl2onnx refuses or does not know, and others by which a model, all of whose
#: tensors are dense, gives the same.
_VARIANTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    OneHotEncoder: _ignoring,
    KBinsDiscretizer: lambda one: {"encode": "onehot-dense"} if one.encode == "onehot" else {},
    RandomTreesEmbedding: lambda one: {"sparse_output": False} if one.sparse_output else {},
    VotingClassifier: lambda one: {"flatten_transform": False} if one.flatten_transform else {},
}


def inner_of(model: Any) -> Any:
    """The estimator that gives all of this one's results, or None."""
    if isinstance(model, BaseSearchCV):
        return getattr(model, "best_estimator_", None)
    if type(model) is FrozenEstimator:
        return model.estimator
    if type(model) is SelfTrainingClassifier:
        return getattr(model, "estimator_", None)
    return None
