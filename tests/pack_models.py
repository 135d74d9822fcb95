"""Models of the test packs' operators, run in plain onnxruntime sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper
from pack_building import MORE, PACKS, build_pack


def the_pack() -> Path:
    """The pack of tests/packs."""
    return build_pack(sorted(PACKS.glob("*.cc")))


def open_session(
    model: onnx.ModelProto, *, libraries: Sequence[Path] | None = None, threads: int = 1
) -> onnxruntime.InferenceSession:
    """Opens a plain session of ONNX Runtime with only the libraries registered."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # tests check the errors themselves
    options.intra_op_num_threads = threads
    # The thread sanitizer does not see that the arena's memory passes between threads.
    options.enable_cpu_mem_arena = "-fsanitize=thread" not in MORE
    for library in [the_pack()] if libraries is None else libraries:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def pack_model(graph: str, versions: int = 3) -> onnx.ModelProto:
    """Returns the model of a graph in ONNX's text form: "(float[n] x) => (float[n] y) { ... }"."""
    imports = f'["": 21, "test.pack": 1, "test.versions": {versions}]'
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: {imports}> graph {graph}")


def run_graph(graph: str, *inputs: Any, **options: Any) -> list[Any]:
    session = open_session(pack_model(graph), **options)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))


def node_model(
    operator: str,
    inputs: Sequence[np.ndarray | None] = (),
    outputs: Sequence[int] = (onnx.TensorProto.FLOAT,),
    *,
    constant: Sequence[int] = (),
    name: str = "the node",
    attributes: Sequence[onnx.AttributeProto] = (),
    **simple: Any,
) -> onnx.ModelProto:
    """Returns a model of one node with inputs like these arrays; None means absent.

    Outputs are given by their types; 0 means absent. Inputs whose indices are in `constant` are
    initializers.
    """
    input_names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    output_names = [f"y{i}" if type else "" for i, type in enumerate(outputs)]
    node = helper.make_node(operator, input_names, output_names, name, domain="test.pack", **simple)
    node.attribute.extend(attributes)
    graph = helper.make_graph([node], "graph", [], [])
    for place, array in enumerate(inputs):
        if array is None:
            continue
        tensor = numpy_helper.from_array(array, f"x{place}")
        if place in constant:
            graph.initializer.append(tensor)
        else:
            # Without sizes, the input accepts any array of that rank.
            sizes = [None] * array.ndim
            graph.input.append(helper.make_tensor_value_info(f"x{place}", tensor.data_type, sizes))
    for place, type in enumerate(outputs):
        if type:
            graph.output.append(helper.make_tensor_value_info(f"y{place}", type, None))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("test.pack", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run_node(operator: str, *inputs: Any, **options: Any) -> list[Any]:
    """Returns the outputs of one node of `operator` for these arrays."""
    arrays = [None if given is None else np.asarray(given) for given in inputs]
    constant = options.get("constant", ())
    feeds = {
        f"x{i}": array for i, array in enumerate(arrays) if array is not None and i not in constant
    }
    return open_session(node_model(operator, arrays, **options)).run(None, feeds)
