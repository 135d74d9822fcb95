"""Chooses labels by scores, as scikit-learn does, where skl2onnx takes the largest probability.

The probabilities of several classes may be equal although their scores differ: SGDClassifier cuts
them off at 1 (`modified_huber`), and others are rounded to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.linear_model import SGDClassifier
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.multiclass import OneVsRestClassifier

from opgraft.sklearn._convert._emit import Nodes


def decide_by_scores(scope: Any, operator: Any, container: Any, before: int) -> None:
    """Changes the nodes of such a step, which are those from the index `before` on."""
    weights = _weights(operator.raw_operator)
    if weights is None or len(operator.inputs) != 1:
        return
    choices = [node for node in container.nodes[before:] if node.op_type == "ArgMax"]
    if len(choices) != 1:
        raise RuntimeError(f"expected one ArgMax node from skl2onnx, got {len(choices)}")
    is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
    nodes = Nodes(scope, container, TensorProto.DOUBLE if is_double else TensorProto.FLOAT)
    coefficients, intercepts = weights
    given = nodes.real(operator.inputs[0].full_name)
    product = nodes.node("MatMul", given, nodes.numbers(coefficients.T))
    choices[0].input[0] = nodes.node("Add", product, nodes.numbers([intercepts]))


def _weights(step: Any) -> tuple[Any, Any] | None:
    """Returns the coefficients and intercepts of all classes, if their scores are linear."""
    if isinstance(step, SGDClassifier) and len(step.classes_) > 2:
        return step.coef_, step.intercept_
    if not isinstance(step, OneVsRestClassifier) or step.multilabel_ or len(step.estimators_) < 2:
        return None
    if not all(isinstance(one, LinearClassifierMixin) for one in step.estimators_):
        return None
    coefficients = np.concatenate([one.coef_.reshape(1, -1) for one in step.estimators_])
    return coefficients, np.concatenate([np.reshape(one.intercept_, 1) for one in step.estimators_])
