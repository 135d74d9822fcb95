"""Adds casts to models of float64 in which some nodes return float32."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import onnx
from onnx import TensorProto, helper
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting

#: Operators, and those of their outputs that are always float32.
_NARROW = {
    "LinearRegressor": [0],
    "SVMRegressor": [0],
    "TreeEnsembleRegressor": [0],
    "LinearClassifier": [1],
    "SVMClassifier": [1],
    "TreeEnsembleClassifier": [1],
}


#: Operators whose inputs, from this index on, must all have the same type.
_ALIKE = {"Where": 1} | dict.fromkeys(
    "Add Sub Mul Div Pow Max Min Sum Concat MatMul Gemm Less Greater LessOrEqual GreaterOrEqual "
    "Equal".split(),
    0,
)
#: The types of the results of other operators.
_ALWAYS_FLOAT = "Scaler Normalizer OneHotEncoder FeatureVectorizer".split()
_AS_GIVEN = "Imputer Binarizer ArrayFeatureExtractor".split()
_TRUTHS = "Less Greater LessOrEqual GreaterOrEqual Equal And Or Not Xor IsNaN IsInf".split()
_AS_FIRST = (
    "Identity Reshape Squeeze Unsqueeze Flatten Transpose Gather GatherElements Slice Tile Expand "
    "Neg Abs Exp Log Sqrt Sigmoid Tanh Relu Softmax Sign Floor Ceil Erf Reciprocal Clip CumSum "
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp "
    "ReduceSumSquare"
).split()
_MOST_PASSES = 8


def compares_in_float64(step: Any) -> bool:
    """Whether the trees of this step compare float64 values. All others round them to float32."""
    is_lightgbm = type(step).__module__.partition(".")[0] == "lightgbm"
    return is_lightgbm or isinstance(step, BaseHistGradientBoosting)


def round_for_trees(model: Any, exact: Set[str]) -> None:
    """Rounds the inputs of trees to float32, as scikit-learn does, except for the nodes in `exact`.
    skl2onnx does not round, so numbers that are equal in float32 could take another branch."""
    kinds = _element_types(model)
    for place, node in reversed(list(enumerate(model.graph.node))):
        is_tree = node.domain == "ai.onnx.ml" and node.op_type.startswith("TreeEnsemble")
        if not is_tree or node.name in exact or kinds.get(node.input[0]) == TensorProto.FLOAT:
            continue
        given = node.input[0]
        narrow, rounded = f"{given}_narrow_{place}", f"{given}_rounded_{place}"
        model.graph.node.insert(place, _cast(narrow, rounded))
        model.graph.node.insert(place, _cast(given, narrow, TensorProto.FLOAT))
        node.input[0] = rounded


def widened(model: Any) -> Any:
    """Returns the model with casts from float32 to float64 if they make all types agree. skl2onnx
    assumes that some results are float64 which the runtime returns as float32."""
    if _agrees(model):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    _widen_results(changed)
    for _ in range(_MOST_PASSES):
        if not _widen_operands(changed):
            break
    _widen_outputs(changed)
    return changed if _agrees(changed) else model


def _widen_results(model: Any) -> None:
    for place, node in reversed(list(enumerate(model.graph.node))):
        for index in _NARROW.get(node.op_type, []):
            if node.domain != "ai.onnx.ml" or index >= len(node.output) or not node.output[index]:
                continue
            given = node.output[index]
            node.output[index] = f"{given}_float32"
            model.graph.node.insert(place + 1, _cast(f"{given}_float32", given))


def _widen_outputs(model: Any) -> None:
    """Casts float32 results that the graph declares as float64 outputs."""
    kinds = _element_types(model)
    wanted = {
        one.name
        for one in model.graph.output
        if one.type.tensor_type.elem_type == TensorProto.DOUBLE
        and kinds.get(one.name) == TensorProto.FLOAT
    }
    for place, node in reversed(list(enumerate(model.graph.node))):
        for index, given in enumerate(node.output):
            if given in wanted:
                node.output[index] = f"{given}_float32"
                model.graph.node.insert(place + 1, _cast(f"{given}_float32", given))


def _widen_operands(model: Any) -> bool:
    """Casts float32 inputs of nodes that also get float64. Returns whether there was one."""
    kinds = _element_types(model)
    was_there = False
    for place, node in reversed(list(enumerate(model.graph.node))):
        if node.domain or node.op_type not in _ALIKE:
            continue
        places = range(_ALIKE[node.op_type], len(node.input))
        found = {kinds.get(node.input[index]) for index in places}
        if not {TensorProto.FLOAT, TensorProto.DOUBLE} <= found:
            continue
        was_there = True
        for index in places:
            if kinds.get(node.input[index]) == TensorProto.FLOAT:
                wide = f"{node.input[index]}_float64_{place}_{index}"
                model.graph.node.insert(place, _cast(node.input[index], wide))
                node.input[index] = wide
    return was_there


def _cast(given: str, result: str, to: int = TensorProto.DOUBLE) -> Any:
    return helper.make_node("Cast", [given], [result], f"{result}_cast", to=to)


def _element_types(model: Any) -> dict[str, int]:
    """Returns the element types of the values in a graph, as far as they follow from rules for the
    operators that skl2onnx writes. onnx's inference crashes for some of its models."""
    kinds = {one.name: int(one.data_type) for one in model.graph.initializer}
    for one in model.graph.input:
        kinds[one.name] = int(one.type.tensor_type.elem_type)
    for node in model.graph.node:
        for name, kind in zip(node.output, _results(node, kinds), strict=False):
            if kind is not None:
                kinds[name] = kind
    return kinds


def _results(node: Any, kinds: dict[str, int]) -> list[int | None]:
    attributes = {one.name: one for one in node.attribute}
    given = [kinds.get(name) for name in node.input]
    if node.domain == "ai.onnx.ml":
        if node.op_type in _NARROW and node.op_type.endswith("Classifier"):
            is_text = "classlabels_strings" in attributes
            return [TensorProto.STRING if is_text else TensorProto.INT64, TensorProto.FLOAT]
        if node.op_type in _NARROW or node.op_type in _ALWAYS_FLOAT:
            return [TensorProto.FLOAT]
        if node.op_type == "LabelEncoder":
            return [_labels(attributes)]
        return [given[0]] if node.op_type in _AS_GIVEN else [None]
    if node.op_type == "PyOp":
        return [int(one) for one in attributes["output_types"].ints]
    if node.op_type == "Cast":
        return [int(attributes["to"].i)]
    if node.op_type in ("Constant", "ConstantOfShape"):
        value = attributes.get("value")
        return [None if value is None else int(value.t.data_type)]
    if node.op_type in _TRUTHS:
        return [TensorProto.BOOL]
    if node.op_type in ("ArgMax", "ArgMin", "Shape", "Size", "NonZero"):
        return [TensorProto.INT64]
    if node.op_type == "TopK":
        return [given[0], TensorProto.INT64]
    if node.op_type == "Where":
        return [given[1]]
    if node.op_type in _ALIKE:
        return [next((one for one in given[_ALIKE[node.op_type] :] if one is not None), None)]
    if node.op_type in _AS_FIRST:
        return [given[0]]
    return [None] * len(node.output)


def _labels(attributes: dict[str, Any]) -> int | None:
    """Returns the type of a LabelEncoder's result, from the attribute that holds its values."""
    if "values_tensor" in attributes:
        return int(attributes["values_tensor"].t.data_type)
    named = {
        "values_floats": TensorProto.FLOAT,
        "values_int64s": TensorProto.INT64,
        "values_strings": TensorProto.STRING,
    }
    return next((kind for name, kind in named.items() if name in attributes), None)


def _agrees(model: Any) -> bool:
    """Whether no node mixes float32 and float64, as far as the types are known."""
    kinds = _element_types(model)
    both = {TensorProto.FLOAT, TensorProto.DOUBLE}
    for node in model.graph.node:
        if node.domain or node.op_type not in _ALIKE:
            continue
        if both <= {kinds.get(name) for name in node.input[_ALIKE[node.op_type] :]}:
            return False
    return not any(
        one.type.tensor_type.elem_type == TensorProto.DOUBLE
        and kinds.get(one.name) == TensorProto.FLOAT
        for one in model.graph.output
    )
