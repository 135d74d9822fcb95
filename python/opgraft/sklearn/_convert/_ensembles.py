"""Converts stacking and voting ensembles in parts: their estimators are separate steps.

skl2onnx's own converters are tried first. These are used if they fail: with several inputs, in
float64, or with estimators that have to be verified one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.pipeline import FeatureUnion, Pipeline

from opgraft.sklearn import _private
from opgraft.sklearn._convert import _chains, _glue, _merge, _methods
from opgraft.sklearn._convert._emit import Nodes

_TYPES = (StackingClassifier, StackingRegressor, VotingClassifier, VotingRegressor)


def takes(model: Any) -> bool:
    return type(model) in _TYPES


def is_composite(model: Any) -> bool:
    """Whether its steps are converted one by one, so that each may become a Python node."""
    kinds = (Pipeline, ColumnTransformer, FeatureUnion)
    is_ensemble = _chains.takes(model) or takes(model)
    return isinstance(model, kinds) or is_ensemble or _glue.inner_of(model) is not None


def parse(conversion: Any, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
    asked = conversion.methods
    given = set(_methods.default_methods(model)) & {"predict", "predict_proba"}
    if asked is not None and not set(asked) <= given:
        raise NotImplementedError(f"{', '.join(asked)} of {type(model).__name__} is not supported")
    parts = _Parts(conversion, scope, inputs, custom_parsers)
    is_stack = isinstance(model, (StackingClassifier, StackingRegressor))
    outputs = _parse_stack(parts, model) if is_stack else _parse_vote(parts, model)
    if is_classifier(model) and asked is None:
        return _private.zip_probabilities(scope, model, inputs, outputs)
    return outputs


class _Parts:
    """Converts the estimators of an ensemble, and combines their results."""

    def __init__(self, conversion: Any, scope: Any, inputs: Any, custom_parsers: Any) -> None:
        self.conversion, self.scope, self.inputs = conversion, scope, list(inputs)
        self.custom_parsers = custom_parsers
        is_double = _methods.floats(inputs) == "float64"
        self.real: Any = DoubleTensorType if is_double else FloatTensorType

    def outputs(
        self, estimator: Any, inputs: Any, methods: tuple[str, ...] | None = None
    ) -> list[Any]:
        if is_classifier(estimator):
            self.scope.add_options(id(estimator), {"zipmap": False})
        if methods is not None:
            last = _merge.last_of(estimator)
            wanted = {"zipmap": False, "raw_scores": True}
            known = _private.options_of(type(last))
            self.scope.add_options(id(last), {k: v for k, v in wanted.items() if k in known})
        with self.conversion.asked(methods):
            found = _private.parse(self.scope, estimator, list(inputs), self.custom_parsers)
        return list(found)

    def matrix(self, estimator: Any, method: str) -> Any:
        """Returns the results of a method, one or more columns, as real numbers."""
        if method == "predict":
            return self.column(self.outputs(estimator, self.inputs)[0], None)
        if method == "predict_proba":
            return self.add(Real(self.real), [self.outputs(estimator, self.inputs)[1]])
        scores = self.outputs(estimator, self.inputs, ("predict", "decision_function"))[1]
        if len(_classes(estimator)) > 2:
            return self.add(Real(self.real), [scores])
        # skl2onnx returns a column for each of two classes, the estimator only one column.
        return self.column(scores, -1 if len(scores.type.shape) == 2 else None)

    def column(self, variable: Any, place: int | None) -> Any:
        return _chains.add_column(self.scope, variable, place, self.real)

    def results(
        self, given: Any, scores: list[Any], classes: tuple[Any, ...], is_scores: bool
    ) -> list[Any]:
        """Returns the label, then the probabilities if there are any. A model's outputs are in the
        order of their declarations."""
        label = self.add(Labels(classes, is_scores), [given])
        last = Real(self.real, len(classes), "probabilities")
        return [label, *(self.add(last, [one]) for one in scores)]

    def add(self, what: Any, variables: list[Any]) -> Any:
        operator = self.scope.declare_local_operator("OpgraftCombination", what)
        operator.inputs = variables
        result = self.scope.declare_local_variable(what.name, what.output())
        operator.outputs.append(result)
        return result


@dataclass(frozen=True)
class Real:
    """A matrix in the model's type of real numbers."""

    real: Any
    width: int | None = None
    name: str = "matrix"

    def output(self) -> Any:
        return self.real([None, self.width])


@dataclass(frozen=True)
class Weighted:
    """A matrix that combines several matrices, each with a weight."""

    real: Any
    weights: tuple[float, ...] | None
    width: int
    name: str = "probabilities"

    def output(self) -> Any:
        return self.real([None, self.width])


class Mean(Weighted):
    """The weighted mean of matrices."""


class Ballots(Weighted):
    """The weight of the votes for each of `width` labels; each input is a column of labels."""


@dataclass(frozen=True)
class Labels:
    """The label with the largest score in each row (`is_scores`), or the label of each index."""

    classes: tuple[Any, ...]
    is_scores: bool
    name: str = "label"

    def output(self) -> Any:
        of_type = StringTensorType if isinstance(self.classes[0], str) else Int64TensorType
        return of_type([None])


def _classes(model: Any) -> tuple[Any, ...]:
    classes = model.classes_
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise NotImplementedError("an ensemble with several targets is not supported")
    if classes.dtype.kind in "iub":
        return tuple(int(one) for one in classes)
    if all(isinstance(one, str) for one in classes):
        return tuple(str(one) for one in classes)
    raise NotImplementedError(f"labels of the type {classes.dtype} are not supported")


def _parse_stack(parts: _Parts, model: Any) -> list[Any]:
    columns = []
    is_binary = is_classifier(model) and len(_classes(model)) == 2
    for estimator, method in zip(model.estimators_, model.stack_method_, strict=True):
        found = parts.matrix(estimator, method)
        columns.append(parts.column(found, 1) if is_binary and method == "predict_proba" else found)
    if model.passthrough:
        if any(isinstance(one.type, StringTensorType) for one in parts.inputs):
            raise NotImplementedError("a stack that passes texts through is not supported")
        columns += [parts.add(Real(parts.real), [one]) for one in parts.inputs]
    joined = _chains.add_concat(parts.scope, columns, parts.real)
    results = parts.outputs(model.final_estimator_, [joined])
    if not is_classifier(model):
        return results
    return parts.results(results[0], results[1:2], _classes(model), is_scores=False)


def _parse_vote(parts: _Parts, model: Any) -> list[Any]:
    given = model._weights_not_none
    weights = None if given is None else tuple(float(one) for one in given)
    if not is_classifier(model):
        values = [parts.matrix(one, "predict") for one in model.estimators_]
        return [parts.add(Mean(parts.real, weights, 1, "variable"), values)]
    classes = _classes(model)
    if model.voting == "hard":
        labels = [parts.matrix(one, "predict") for one in model.estimators_]
        ballots = parts.add(Ballots(parts.real, weights, len(classes), "ballots"), labels)
        return [parts.add(Labels(classes, is_scores=True), [ballots])]
    found = [parts.matrix(one, "predict_proba") for one in model.estimators_]
    mean = parts.add(Mean(parts.real, weights, len(classes)), found)
    return parts.results(mean, [mean], classes, is_scores=True)


# Nodes


def _shapes(operator: Any) -> None:
    operator.outputs[0].type = operator.raw_operator.output()


def _convert(scope: Any, operator: Any, container: Any) -> None:
    what, output = operator.raw_operator, operator.outputs[0].full_name
    inputs = [one.full_name for one in operator.inputs]
    nodes = Nodes(scope, container)
    if isinstance(what, Labels):
        _convert_labels(nodes, what, inputs[0], output)
        return
    nodes.element = _chains.ELEMENTS[what.real]
    if isinstance(what, Real):
        nodes.real(inputs[0], output)
        return
    if isinstance(what, Ballots):
        # Compares the index of each predicted label with the indices of all labels.
        numbers = nodes.numbers([range(what.width)])
        inputs = [nodes.real(nodes.node("Equal", one, numbers)) for one in inputs]
    weights = what.weights or (1.0,) * len(inputs)
    weighted = [
        nodes.node("Mul", one, nodes.numbers([weight])) if weight != 1 else one
        for one, weight in zip(inputs, weights, strict=True)
    ]
    if isinstance(what, Ballots):
        nodes.node("Sum", *weighted, output=output)
        return
    nodes.node("Div", nodes.node("Sum", *weighted), nodes.numbers([sum(weights)]), output=output)


def _convert_labels(nodes: Nodes, what: Labels, given: str, output: str) -> None:
    if what.is_scores:
        place = nodes.node("ArgMax", given, axis=1, keepdims=0)
    else:
        shaped = nodes.node("Reshape", given, nodes.whole([-1]))
        place = nodes.cast(shaped, TensorProto.INT64)
    is_text = isinstance(what.classes[0], str)
    names = nodes.texts(what.classes) if is_text else nodes.whole(what.classes)
    nodes.node("Gather", names, place, axis=0, output=output)


_KINDS = (Real, Mean, Ballots, Labels)
CONVERTERS: dict[type, Callable[..., None]] = dict.fromkeys(_KINDS, _convert)
SHAPES: dict[type, Callable[..., None]] = dict.fromkeys(_KINDS, _shapes)
