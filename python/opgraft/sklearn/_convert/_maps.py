"""Casts probabilities to float32 for maps, the only type that ONNX has there."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper


def narrow(model: Any) -> None:
    """Casts the inputs of ZipMap nodes: skl2onnx passes float64, which the runtime refuses."""
    for place, node in reversed(list(enumerate(model.graph.node))):
        if node.op_type != "ZipMap":
            continue
        narrowed = f"{node.output[0]}_float32"
        cast = helper.make_node("Cast", node.input[:1], [narrowed], narrowed, to=TensorProto.FLOAT)
        node.input[0] = narrowed
        for output in model.graph.output:
            if output.name == node.output[0]:
                maps = output.type.sequence_type.elem_type.map_type
                maps.value_type.tensor_type.elem_type = TensorProto.FLOAT
        model.graph.node.insert(place, cast)
