"""Infers the types and shapes in a model by onnx, in a process of its own.

A model is untrusted input, and shape inference is native code: if it ends its process, the page
shows the types that the model itself declares.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

#: In seconds; a model for which inference takes longer is drawn without the inferred shapes.
_TIME_LIMIT = 60
_LARGEST_CONSTANT = 1024  # elements; only small constants can say something about shapes
_DATA = (
    "raw_data float_data int32_data string_data int64_data double_data uint64_data external_data"
).split()
_COMMAND = """
import os, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
import onnx.shape_inference
model = onnx.load_model_from_string(sys.stdin.buffer.read())
model = onnx.shape_inference.infer_shapes(model, data_prop=True)
sys.stdout.buffer.write(model.SerializeToString())
"""


def drop_weights(model: Any) -> None:
    """Removes the data of large constants from the model; their types and shapes stay."""
    for graph in _graphs_of(model.graph):
        for one in graph.initializer:
            if not _is_small(one):
                for field in _DATA:
                    one.ClearField(field)


def _without_large(model: Any) -> Any:
    """Returns a copy of the model in which large constants have become inputs of their graphs."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in _graphs_of(copy.graph):
        kept = [one for one in graph.initializer if _is_small(one)]
        declared = {one.name for one in graph.input}
        for one in graph.initializer:
            if not _is_small(one) and one.name not in declared:
                graph.input.append(
                    onnx.helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
                )
        del graph.initializer[:]
        graph.initializer.extend(kept)
    return copy


def infer(model: Any) -> Any:
    """Returns the model with the types that onnx infers; unchanged if onnx cannot infer them."""
    import onnx

    try:
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND, os.pathsep.join(sys.path)],
            input=_without_large(model).SerializeToString(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIME_LIMIT,
            check=True,
        )
        return onnx.load_model_from_string(done.stdout)
    except (subprocess.SubprocessError, ValueError, OSError):
        return model
    except Exception as error:
        if type(error).__name__ in ("DecodeError", "EncodeError"):  # protobuf's
            return model
        raise


def _graphs_of(graph: Any) -> list[Any]:
    """The graph, and those of its nodes' attributes."""
    found, waiting = [], [graph]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for node in one.node:
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else []
                waiting += attribute.graphs
    return found


def _is_small(tensor: Any) -> bool:
    import onnx

    count = 1
    for size in tensor.dims:
        count *= max(size, 0)
    return count <= _LARGEST_CONSTANT and tensor.data_location != onnx.TensorProto.EXTERNAL
