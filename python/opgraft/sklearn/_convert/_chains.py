"""Converts ClassifierChain and RegressorChain, which skl2onnx lacks; each link is a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
    TensorType,
)
from sklearn.base import is_classifier
from sklearn.multioutput import ClassifierChain, RegressorChain

from opgraft.sklearn import _private
from opgraft.sklearn._convert import _methods

ELEMENTS = {
    Int64TensorType: TensorProto.INT64,
    FloatTensorType: TensorProto.FLOAT,
    DoubleTensorType: TensorProto.DOUBLE,
}


@dataclass(frozen=True)
class Column:
    """One column of a matrix, or a vector (if `place` is None), as a matrix with one column."""

    place: int | None
    of_type: Any


def takes(model: Any) -> bool:
    """Whether this is a chain in which each link gets the predictions of the links before it."""
    is_usual = getattr(model, "chain_method_", "predict") == "predict"
    return type(model) in (ClassifierChain, RegressorChain) and is_usual


def parse(conversion: Any, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
    asked = conversion.methods
    if asked is not None and not set(asked) <= {"predict", "predict_proba"}:
        raise NotImplementedError(f"{', '.join(asked)} of a chain is not supported")
    real = DoubleTensorType if _methods.floats(inputs) == "float64" else FloatTensorType
    features = list(inputs)
    columns: list[list[Any]] = []  # for each link: its label or value, then its probability
    for link in model.estimators_:
        if is_classifier(link):
            scope.add_options(id(link), {"zipmap": False})
        given = features[0] if len(features) == 1 else add_concat(scope, features, real)
        with conversion.asked(None):
            results = list(_private.parse(scope, link, [given], custom_parsers))
        if is_classifier(link):
            columns.append(
                [add_column(scope, results[0], None, Int64TensorType)]
                + [add_column(scope, one, 1, real) for one in results[1:2]]
            )
        else:
            columns.append([add_column(scope, results[0], None, real)])
        features.append(add_column(scope, results[0], None, real))
    in_order = [columns[list(model.order_).index(target)] for target in range(len(columns))]
    outputs = [add_concat(scope, [one[0] for one in in_order], type(in_order[0][0].type))]
    if _methods.has(model, "predict_proba") and all(len(one) == 2 for one in in_order):
        outputs.append(add_concat(scope, [one[1] for one in in_order], real))
    if asked is not None and "predict_proba" in asked and len(outputs) == 1:
        raise NotImplementedError("predict_proba of this chain is not supported")
    return outputs


def as_one(scope: Any, given: Any, *, joins_texts: bool = False) -> list[Any]:
    """Joins numeric inputs, such as the columns of a frame, because most of skl2onnx's converters
    take only one input. Mixed types become float64, as in NumPy. Texts stay separate unless
    `joins_texts`."""
    inputs: list[Any] = list(given)
    kinds = {type(one.type) for one in inputs}
    if joins_texts and len(inputs) > 1 and kinds == {StringTensorType}:
        return [add_concat(scope, inputs, StringTensorType)]
    is_numeric = all(issubclass(kind, TensorType) for kind in kinds)
    if len(inputs) == 1 or not is_numeric or StringTensorType in kinds:
        return inputs
    if len(kinds) == 1 and kinds <= ELEMENTS.keys():
        return [add_concat(scope, inputs, *kinds)]
    columns = [add_column(scope, one, None, DoubleTensorType) for one in inputs]
    return [add_concat(scope, columns, DoubleTensorType)]


def add_concat(scope: Any, variables: list[Any], of_type: Any) -> Any:
    operator = scope.declare_local_operator("SklearnConcat")
    operator.inputs = variables
    joined = scope.declare_local_variable("joined", of_type([None, None]))
    operator.outputs.append(joined)
    return joined


def add_column(scope: Any, variable: Any, place: int | None, of_type: Any) -> Any:
    operator = scope.declare_local_operator("OpgraftColumn", Column(place, of_type))
    operator.inputs = [variable]
    column = scope.declare_local_variable("column", of_type([None, 1]))
    operator.outputs.append(column)
    return column


def _shapes(operator: Any) -> None:
    operator.outputs[0].type = operator.raw_operator.of_type([None, 1])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    name = operator.inputs[0].full_name
    if operator.raw_operator.place is not None:
        index = scope.get_unique_variable_name("place")
        container.add_initializer(index, TensorProto.INT64, [1], [operator.raw_operator.place])
        picked = scope.get_unique_variable_name("picked")
        container.add_node("Gather", [name, index], [picked], axis=1, op_version=13)
        name = picked
    shape = scope.get_unique_variable_name("shape")
    container.add_initializer(shape, TensorProto.INT64, [2], [-1, 1])
    shaped = scope.get_unique_variable_name("shaped")
    container.add_node("Reshape", [name, shape], [shaped], op_version=13)
    container.add_node(
        "Cast",
        [shaped],
        [operator.outputs[0].full_name],
        to=ELEMENTS[operator.raw_operator.of_type],
        op_version=13,
    )


CONVERTERS: dict[type, Callable[..., None]] = {Column: _convert}
SHAPES: dict[type, Callable[..., None]] = {Column: _shapes}
