"""Merges models for several methods of one estimator: each method becomes an output of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import compose
from sklearn.base import ClusterMixin, is_classifier

from opgraft._base._errors import Error
from opgraft.sklearn import _private
from opgraft.sklearn._convert._glue import inner_of


def last_of(model: Any) -> Any:
    """Returns the step that computes the results."""
    while True:
        inner = getattr(model, "best_estimator_", None) or inner_of(model)
        if hasattr(model, "steps"):
            inner = model.steps[-1][1]
        if inner is None or inner == "passthrough":
            return model
        model = inner


def options_for(model: Any, methods: Sequence[str], given: Any) -> dict[Any, Any]:
    """Returns the options that make skl2onnx's converter compute these methods."""
    last = last_of(model)
    known = _private.options_of(type(last))
    own: dict[str, Any] = {}
    if is_classifier(last) and "zipmap" in known:
        own["zipmap"] = False
    if methods == ("decision_function",) and "raw_scores" in known:
        own["raw_scores"] = True
    if methods == ("score_samples",) and "score_samples" in known:
        own["score_samples"] = True
    options = dict(given or {})
    for key in {id(last), id(model)}:
        if key == id(last) or "zipmap" in own:
            options[key] = {**(options.get(key) or {}), **own}
    return options


def place_of(model: Any, method: str, count: int) -> int:
    """Returns which of skl2onnx's outputs belongs to a method."""
    last = last_of(model)
    if count == 1 or method == "predict":
        return 0
    if method in ("predict_proba", "decision_function"):
        return 1
    if method == "transform":
        return 1 if isinstance(last, ClusterMixin) else 0
    return count - 1


def merge(estimator: Any, made: Sequence[tuple[Any, Sequence[str]]], asked: Sequence[str]) -> Any:
    """Returns one model with one output for each requested method, named like the method."""
    models = [
        _named(estimator, model, methods, f"part{index}_")
        for index, (model, methods) in enumerate(made)
    ]
    first = models[0]
    versions = {one.domain: one for one in first.opset_import}
    for model in models[1:]:
        first.graph.node.extend(model.graph.node)
        first.graph.initializer.extend(model.graph.initializer)
        first.graph.output.extend(model.graph.output)
        for one in model.opset_import:
            if one.domain not in versions:
                first.opset_import.append(one)
                versions[one.domain] = first.opset_import[-1]
            # skl2onnx declares the oldest opset in which all nodes, in their newest version up to
            # the target, are valid. So the newer of two opsets is right for the nodes of both.
            versions[one.domain].version = max(versions[one.domain].version, one.version)
    outputs = {one.name: one for one in first.graph.output}
    del first.graph.output[:]
    first.graph.output.extend(outputs[name] for name in asked)
    onnx.checker.check_model(first)
    return first


def _named(estimator: Any, model: Any, methods: Sequence[str], prefix: str) -> Any:
    """Names the outputs like the methods, with Identity nodes, and drops all others."""
    taken = {one.name for one in model.graph.input} & set(methods)
    if taken:
        raise Error(f"the input '{taken.pop()}' has the name of a requested method")
    copied = compose.add_prefix(model, prefix, rename_inputs=False)
    outputs = list(copied.graph.output)
    del copied.graph.output[:]
    for method in methods:
        value = outputs[place_of(estimator, method, len(outputs))]
        copied.graph.node.append(
            onnx.helper.make_node("Identity", [value.name], [method], name=f"{prefix}{method}")
        )
        renamed = onnx.ValueInfoProto()
        renamed.CopyFrom(value)
        renamed.name = method
        copied.graph.output.append(renamed)
    return copied
