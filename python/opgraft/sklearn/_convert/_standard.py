"""Converts steps to standard operators in float64, where ONNX Runtime's operator has only float32.

Used for models of float64, and for other cases that skl2onnx refuses or converts wrongly (missing
texts, categories that are real numbers, missing values in powers, rows of zeros). The results are
those of the step up to rounding in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from onnx import TensorProto
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.preprocessing import (
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
)
from sklearn.svm import SVR, LinearSVC, NuSVR, OneClassSVM

from opgraft.sklearn._convert import _one_hot
from opgraft.sklearn._convert._emit import Nodes

Convert = Callable[[Nodes, Any, str, list[str]], None]


def takes(step: Any, inputs: Any) -> bool:
    """Whether this module converts the step with these inputs."""
    if type(step) not in _STEPS or len(inputs) != 1:
        return False
    of_type = inputs[0].type
    if isinstance(of_type, StringTensorType):
        return type(step) is SimpleImputer and _is_of_texts(step)
    is_real = isinstance(of_type, DoubleTensorType) or (
        isinstance(of_type, FloatTensorType) and type(step) in _IN_FLOAT32_TOO
    )
    return is_real and bool(_STEPS[type(step)][0](step))


def shapes(operator: Any) -> None:
    step, of_type = operator.raw_operator, type(operator.inputs[0].type)
    result = of_type if of_type in (StringTensorType, FloatTensorType) else DoubleTensorType
    if isinstance(step, OneHotEncoder) and np.issubdtype(step.dtype, np.signedinteger):
        result = Int64TensorType
    outputs = operator.outputs
    if type(step) in (LinearSVC, RidgeClassifier, RidgeClassifierCV):
        is_text = _is_text(step.classes_[0])
        outputs[0].type = (StringTensorType if is_text else Int64TensorType)([None])
        outputs[1].type = DoubleTensorType([None, len(_weights(step))])
    elif type(step) is OneClassSVM:
        outputs[0].type = Int64TensorType([None, 1])
        outputs[1].type = DoubleTensorType([None, 1])
    else:
        outputs[0].type = result([None, _width(step)])


def convert(scope: Any, operator: Any, container: Any) -> None:
    step = operator.raw_operator
    is_float = isinstance(operator.inputs[0].type, FloatTensorType)
    nodes = Nodes(scope, container, TensorProto.FLOAT if is_float else TensorProto.DOUBLE)
    outputs = [one.full_name for one in operator.outputs]
    _STEPS[type(step)][1](nodes, step, operator.inputs[0].full_name, outputs)


def _width(step: Any) -> int:
    if isinstance(step, SimpleImputer):
        indicated = len(step.indicator_.features_) if step.add_indicator else 0
        return len(_kept(step)) + indicated
    if isinstance(step, OneHotEncoder):
        return _one_hot.width(step)
    if isinstance(step, KBinsDiscretizer) and step.encode != "ordinal":
        return int(step.n_bins_.sum())
    is_wide = isinstance(step, (PowerTransformer, KBinsDiscretizer, Normalizer))
    return int(step.n_features_in_) if is_wide else 1


# Imputing


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value


def _kept(step: Any) -> list[int]:
    """Returns the columns that have a value to fill in. The others are dropped."""
    is_all = step.keep_empty_features or step.strategy == "constant"
    return [place for place, one in enumerate(step.statistics_) if is_all or not _is_missing(one)]


def _is_of_numbers(step: Any) -> bool:
    is_number = isinstance(step.missing_values, (int, float)) or _is_missing(step.missing_values)
    fills = [step.statistics_[place] for place in _kept(step)]
    return is_number and all(isinstance(one, (int, float, np.number)) for one in fills)


def _is_of_texts(step: Any) -> bool:
    fills = [step.statistics_[place] for place in _kept(step)]
    is_text = isinstance(step.missing_values, str) or _is_missing(step.missing_values)
    return is_text and not step.add_indicator and all(isinstance(one, str) for one in fills)


def _impute(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    kept = _kept(step)
    fills = [step.statistics_[place] for place in kept]
    taken = given
    if len(kept) < len(step.statistics_):
        taken = nodes.node("Gather", given, nodes.whole(kept), axis=1)
    if fills and isinstance(fills[0], str):
        # A missing text arrives as a string such as "nan". Equal takes strings since version 19.
        text = nodes.texts([[str(step.missing_values)]])
        missing = nodes.node("Equal", taken, text, version=19)
        nodes.node("Where", missing, nodes.texts([fills]), taken, output=outputs[0])
        return
    value = step.missing_values

    def find(values: str) -> str:
        if _is_missing(value):
            return nodes.node("IsNaN", values)
        return nodes.node("Equal", values, nodes.numbers([[value]]))

    filled = nodes.node("Where", find(taken), nodes.numbers([fills]), taken)
    if step.add_indicator:
        shown = nodes.node("Gather", given, nodes.whole(step.indicator_.features_), axis=1)
        filled = nodes.node("Concat", filled, nodes.real(find(shown)), axis=1)
    nodes.node("Identity", filled, output=outputs[0])


# Bins


def _bins(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    """Counts the inner edges that are not above a number: that is the index of its bin."""
    parts = []
    for place, edges in enumerate(step.bin_edges_):
        column = nodes.node("Gather", given, nodes.whole([place]), axis=1)
        inner = np.asarray(edges[1:-1], np.float64)
        reached = nodes.real(nodes.node("Not", nodes.node("Less", column, nodes.numbers([inner]))))
        ones = nodes.numbers(np.ones((len(inner), 1)))
        number = nodes.node("MatMul", reached, ones)
        if step.encode != "ordinal":
            numbers = nodes.numbers([range(int(step.n_bins_[place]))])
            number = nodes.real(nodes.node("Equal", number, numbers))
        parts.append(number)
    nodes.node("Concat", *parts, axis=1, output=outputs[0])


# Normalising rows


def _normalise(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    sizes = nodes.node("Abs", given)
    if step.norm == "max":
        largest = nodes.node("ArgMax", sizes, axis=1, keepdims=1)
        length = nodes.node("GatherElements", sizes, largest, axis=1)
    else:
        taken = sizes if step.norm == "l1" else nodes.node("Mul", given, given)
        length = nodes.node("MatMul", taken, nodes.numbers(np.ones((step.n_features_in_, 1))))
        if step.norm == "l2":
            length = nodes.node("Sqrt", length)
    # Like scikit-learn: a row of almost zero length is not scaled.
    of_type = np.float32 if nodes.element == TensorProto.FLOAT else np.float64
    least = nodes.numbers([[10 * np.finfo(of_type).eps]])
    is_nothing = nodes.node("Less", length, least)
    length = nodes.node("Where", is_nothing, nodes.numbers([[1.0]]), length)
    nodes.node("Div", given, length, output=outputs[0])


# Powers


def _power(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    powers = np.asarray(step.lambdas_, np.float64)
    element, nodes.element = nodes.element, TensorProto.DOUBLE
    given = nodes.real(given)
    one = nodes.numbers([[1.0]])
    if step.method == "box-cox":
        result = _raised(nodes, given, powers)
    else:
        zero = nodes.numbers([[0.0]])
        # Each half replaces the values of the other half with harmless ones.
        above = nodes.node("Add", nodes.node("Max", given, zero), one)
        below = nodes.node("Sub", one, nodes.node("Min", given, zero))
        falling = nodes.node("Neg", _raised(nodes, below, 2 - powers))
        is_below = nodes.node("Less", given, zero)
        result = nodes.node("Where", is_below, falling, _raised(nodes, above, powers))
        result = nodes.node("Where", nodes.node("IsNaN", given), given, result)
    if step.standardize:
        scaler = step._scaler
        if scaler.mean_ is not None:
            result = nodes.node("Sub", result, nodes.numbers([scaler.mean_]))
        if scaler.scale_ is not None:
            result = nodes.node("Div", result, nodes.numbers([scaler.scale_]))
    nodes.cast(result, element, outputs[0])


def _raised(nodes: Nodes, base: str, powers: Any) -> str:
    """Returns (base ** power - 1) / power, or the logarithm if the power is 0, for each column."""
    is_zero = np.abs(powers) < np.spacing(1.0)
    usable = np.where(is_zero, 1.0, powers)
    raised = nodes.node("Pow", base, nodes.numbers([usable]))
    less = nodes.node("Sub", raised, nodes.numbers([[1.0]]))
    result = nodes.node("Div", less, nodes.numbers([usable]))
    if not is_zero.any():
        return result
    return nodes.node("Where", nodes.truths([is_zero]), nodes.node("Log", base), result)


# Decisions


def _is_text(label: Any) -> bool:
    return isinstance(label, str)


def _is_linear(step: Any) -> bool:
    classes = step.classes_
    is_one_target = isinstance(classes, np.ndarray) and classes.ndim == 1
    is_label = is_one_target and (classes.dtype.kind in "iu" or all(map(_is_text, classes)))
    return is_label and (len(_weights(step)) == len(classes) or len(classes) == 2)


def _weights(step: Any) -> Any:
    return np.atleast_2d(step.coef_)


def _decide(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    weights = _weights(step)
    product = nodes.node("MatMul", given, nodes.numbers(weights.T))
    intercept = np.broadcast_to(np.atleast_1d(step.intercept_), (len(weights),))
    scores = nodes.node("Add", product, nodes.numbers([intercept]), output=outputs[1])
    if len(weights) == 1:
        is_second = nodes.node("Less", nodes.numbers([[0.0]]), scores)
        flat = nodes.node("Reshape", is_second, nodes.whole([-1]))
        place = nodes.cast(flat, TensorProto.INT64)
    else:
        place = nodes.node("ArgMax", scores, axis=1, keepdims=0)
    is_text = _is_text(step.classes_[0])
    labels = nodes.texts(step.classes_) if is_text else nodes.whole(step.classes_)
    nodes.node("Gather", labels, place, axis=0, output=outputs[0])


def _has_kernel(step: Any) -> bool:
    is_known = step.kernel in ("linear", "poly", "rbf", "sigmoid")
    return is_known and not scipy.sparse.issparse(step.support_vectors_)


def _kernel(nodes: Nodes, step: Any, given: str) -> str:
    """Returns the weighted sum of the kernels of each row with each support vector, plus the
    intercept."""
    vectors = np.asarray(step.support_vectors_, np.float64)
    products = nodes.node("MatMul", given, nodes.numbers(vectors.T))
    gamma = nodes.numbers([[step._gamma]])
    if step.kernel == "rbf":
        own = nodes.node("Mul", given, given)
        own = nodes.node("MatMul", own, nodes.numbers(np.ones((vectors.shape[1], 1))))
        squares = nodes.numbers([(vectors**2).sum(axis=1)])
        both = nodes.node("Add", own, squares)
        twice = nodes.node("Mul", products, nodes.numbers([[2.0]]))
        distance = nodes.node("Sub", both, twice)
        products = nodes.node("Exp", nodes.node("Neg", nodes.node("Mul", distance, gamma)))
    elif step.kernel != "linear":
        scaled = nodes.node("Mul", products, gamma)
        moved = nodes.node("Add", scaled, nodes.numbers([[step.coef0]]))
        if step.kernel == "poly":
            products = nodes.node("Pow", moved, nodes.numbers([[step.degree]]))
        else:
            products = nodes.node("Tanh", moved)
    weighed = nodes.node("MatMul", products, nodes.numbers(np.asarray(step.dual_coef_).T))
    return nodes.node("Add", weighed, nodes.numbers([step.intercept_]))


def _regress(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    nodes.node("Identity", _kernel(nodes, step, given), output=outputs[0])


def _find_outliers(nodes: Nodes, step: Any, given: str, outputs: list[str]) -> None:
    scores = nodes.node("Identity", _kernel(nodes, step, given), output=outputs[1])
    is_inside = nodes.node("Less", nodes.numbers([[0.0]]), scores)
    nodes.node("Where", is_inside, nodes.whole([[1]]), nodes.whole([[-1]]), output=outputs[0])


#: For each type: whether a step is converted in float64, and the function that converts it.
_STEPS: dict[type, tuple[Callable[[Any], bool], Convert]] = {
    SimpleImputer: (_is_of_numbers, _impute),
    OneHotEncoder: (_one_hot.takes, _one_hot.convert),
    KBinsDiscretizer: (lambda step: bool((step.n_bins_ > 1).all()), _bins),
    PowerTransformer: (lambda step: True, _power),
    Normalizer: (lambda step: True, _normalise),
    LinearSVC: (_is_linear, _decide),
    RidgeClassifier: (_is_linear, _decide),
    RidgeClassifierCV: (_is_linear, _decide),
    SVR: (_has_kernel, _regress),
    NuSVR: (_has_kernel, _regress),
    OneClassSVM: (_has_kernel, _find_outliers),
}
#: Steps that skl2onnx also converts wrongly in float32: its OneHotEncoder truncates numbers, its
#: PowerTransformer turns missing values into numbers, and its Normalizer does not take the absolute
#: value for the norm "max" and scales rows of almost zero length.
_IN_FLOAT32_TOO = (OneHotEncoder, PowerTransformer, Normalizer)
