"""The cost of a Python operator: y = x + 1 in float32, one thread, microseconds by size.

The limit is the sum of its parts: a session with one Add, which does the same work around the
operator, and the NumPy call itself. All columns are measured in one run, with their calls in turn,
so that none has the caches to itself; medians. `out=` is an operator declared with a shape rule,
which writes to the runtime's memory. The neighbour is the Python operator of
onnxruntime-extensions. `make bench` runs it.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime_extensions
from onnx import TensorProto, helper
from onnxruntime_extensions import PyCustomOpDef, onnx_op

import opgraft

# Floats, and how often each column is called.
SIZES = {1: 20_000, 1_000: 20_000, 100_000: 3_000, 1_000_000: 400, 10_000_000: 150}
MOST_CALLS_OF_THE_NEIGHBOUR = {1: 20_000, 1_000: 2_000, 100_000: 60, 1_000_000: 10, 10_000_000: 3}


class PlusOne:
    """Our operator."""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x + 1


@opgraft.op("bench::PlusOneOut", shape=lambda x: x)
def plus_one_out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
    """Our operator with `out=`."""
    return np.add(x, 1, out=out)


@onnx_op(op_type="PlusOne", inputs=[PyCustomOpDef.dt_float], outputs=[PyCustomOpDef.dt_float])
def plus_one(x: np.ndarray) -> np.ndarray:
    """The neighbour's operator."""
    return x + 1


def model(node: onnx.NodeProto) -> bytes:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    initializers = [one] if "one" in node.input else []
    graph = helper.make_graph([node], "bench", values[:1], values[1:], initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(node.domain, 1)]
    if not node.domain:
        imports.pop()
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def one_thread() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def add_session() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(
        model(helper.make_node("Add", ["x", "one"], ["y"])), one_thread()
    )


def pyop_session() -> onnxruntime.InferenceSession:
    types = {"input_types": [TensorProto.FLOAT], "output_types": [TensorProto.FLOAT]}
    node = helper.make_node(
        "PyOp", ["x"], ["y"], domain="bench", module=__name__, class_name="PlusOne", **types
    )
    return opgraft.InferenceSession(model(node), one_thread(), allow=[__name__])


def out_session() -> onnxruntime.InferenceSession:
    node = helper.make_node("PlusOneOut", ["x"], ["y"], domain="bench")
    return opgraft.InferenceSession(model(node), one_thread())


def neighbour_session() -> onnxruntime.InferenceSession:
    options = one_thread()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    node = helper.make_node("PlusOne", ["x"], ["y"], domain="ai.onnx.contrib")
    return onnxruntime.InferenceSession(model(node), options)


def memory(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.findall(rf"{field}:\s+(\d+) kB", status)[0]) * 1024


def peak_growth(call: Callable[[], object]) -> int:
    """Returns by how many bytes the process grows at most during the call."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory("VmRSS")
    call()
    return memory("VmHWM") - before


def measure(columns: dict[str, Callable[[], object]], size: int) -> dict[str, float]:
    times: dict[str, list[int]] = {name: [] for name in columns}
    clock = time.perf_counter_ns
    for turn in range(SIZES[size]):
        for name, call in columns.items():
            if name == "neighbour" and turn >= MOST_CALLS_OF_THE_NEIGHBOUR[size]:
                continue
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}


def main() -> None:
    add, pyop, neighbour = add_session(), pyop_session(), neighbour_session()
    out = out_session()
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}")
    print(f"ONNX Runtime {onnxruntime.__version__}", end=", ")
    print(f"onnxruntime-extensions {onnxruntime_extensions.__version__}\n")
    print(
        "| floats | NumPy alone | one Add | PyOp | PyOp / (Add + NumPy) "
        "| out= | out= / (Add + NumPy) | onnxruntime-extensions |"
    )
    print("|---|---|---|---|---|---|---|---|")
    growth: dict[str, int] = {}
    for size in SIZES:
        x = np.random.default_rng(0).random(size, np.float32)
        feed = {"x": x}
        columns: dict[str, Callable[[], object]] = {
            "numpy": lambda x=x: x + 1,  # type: ignore[misc]
            "add": lambda feed=feed: add.run(None, feed),  # type: ignore[misc]
            "pyop": lambda feed=feed: pyop.run(None, feed),  # type: ignore[misc]
            "out=": lambda feed=feed: out.run(None, feed),  # type: ignore[misc]
            "neighbour": lambda feed=feed: neighbour.run(None, feed),  # type: ignore[misc]
        }
        growth = {name: peak_growth(call) for name, call in columns.items()}
        np.testing.assert_array_equal(pyop.run(None, feed)[0], x + 1)
        np.testing.assert_array_equal(out.run(None, feed)[0], x + 1)
        taken = measure(columns, size)
        limit = taken["add"] + taken["numpy"]
        print(f"| {size:,} | {taken['numpy']:,.1f} | {taken['add']:,.1f} | {taken['pyop']:,.1f} "
              f"| {taken['pyop'] / limit:.2f} | {taken['out=']:,.1f} | {taken['out='] / limit:.2f} "
              f"| {taken['neighbour']:,.1f} |", flush=True)  # fmt: skip
    print("\nMemory that the first call at 10 M floats takes, where one array is 40 MB:")
    print(", ".join(f"{name} {bytes / 1e6:.0f} MB" for name, bytes in growth.items()))


if __name__ == "__main__":
    main()
