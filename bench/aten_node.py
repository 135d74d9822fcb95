"""The cost of an ATen node: a session with one node, float32, one thread, in microseconds.

The limit is the sum of its parts: a session with one Add of the same size, which does the same work
around the operator, and the eager call of the operator in torch. All columns are measured in one
run, with their calls in turn, so that none has the caches to itself; medians. `make bench` runs it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnx import helper

import opgraft
from opgraft.torch._rungs._aten import DOMAIN, OP_TYPE, Input, aten_node

OPERATORS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "linalg_inv": (torch.ops.aten.linalg_inv.default, ()),
    "linalg_svd": (torch.ops.aten.linalg_svd.default, ()),
    "cumprod": (torch.ops.aten.cumprod.default, (1,)),
    "lgamma": (torch.ops.aten.lgamma.default, ()),
}
EAGER: dict[str, Callable[[torch.Tensor], object]] = {
    "linalg_inv": torch.linalg.inv,
    "linalg_svd": torch.linalg.svd,
    "cumprod": lambda x: torch.cumprod(x, 1),
    "lgamma": torch.lgamma,
}
LIMITS = {3: 1.25, 512: 1.15}
SECONDS = 6.0  # for each row
MOST_CALLS = 20_000  # of each column


def one_thread() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def model(node: Any, outputs: list[Any]) -> bytes:
    value = helper.make_tensor_value_info("x", 1, ["n", "n"])
    graph = helper.make_graph([node], "bench", [value], outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return made


def aten_session(name: str, x: torch.Tensor) -> onnxruntime.InferenceSession:
    overload, arguments = OPERATORS[name]
    made = aten_node(overload, [Input("x"), *arguments], {}, overload(x, *arguments))
    outputs = [
        helper.make_tensor_value_info(f"y{i}", output.onnx_type, output.onnx_shape)
        for i, output in enumerate(made.outputs)
    ]
    names = [output.name for output in outputs]
    node = helper.make_node(OP_TYPE, made.inputs, names, domain=DOMAIN, **made.attributes)
    return opgraft.InferenceSession(model(node, outputs), one_thread())


def add_session() -> onnxruntime.InferenceSession:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return onnxruntime.InferenceSession(
        model(node, [helper.make_tensor_value_info("y", 1, ["n", "n"])]), one_thread()
    )


def measure(columns: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Returns the median of each column in microseconds."""
    times: dict[str, list[int]] = {name: [] for name in columns}
    clock = time.perf_counter_ns
    for call in columns.values():
        call()
    end = time.perf_counter() + SECONDS
    count = 0
    turns = list(columns.items())
    while count < 10 or (count < MOST_CALLS and time.perf_counter() < end):
        count += 1
        turns.append(turns.pop(0))  # a busy machine might always interrupt the same column
        for name, call in turns:
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: statistics.median(column) / 1000 for name, column in times.items()}


def row(name: str, size: int, limit: float) -> bool:
    """Prints the cost of one operator; returns whether it is within the limit."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((size, size), np.float32) + 3 * np.eye(size, dtype=np.float32)
    tensor = torch.from_numpy(x)
    add, session, eager = add_session(), aten_session(name, tensor), EAGER[name]
    with torch.no_grad():
        took = measure(
            {
                "torch": lambda: eager(tensor),
                "add": lambda: add.run(None, {"x": x}),
                "node": lambda: session.run(None, {"x": x}),
            }
        )
    ratio = took["node"] / (took["torch"] + took["add"])
    print(
        f"{name:>12}{size:>6}{took['torch']:>12.1f}{took['add']:>12.1f}"
        f"{took['node']:>12.1f}{ratio:>8.2f}  (at most {limit})"
    )
    return ratio <= limit


def main() -> int:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}, µs")
    print(f"{'operator':>12}{'n':>6}{'torch':>12}{'one Add':>12}{'ATen node':>12}{'ratio':>8}")
    good = [row(name, size, limit) for size, limit in LIMITS.items() for name in EAGER]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
