"""The cost of the C++ SDK: y = x + 1 in float32, microseconds for one `session.run`, by size.

It is compared with the same operator written by hand on the C table (bench/sdk_by_hand.cc), and
with a session with native Adds. A chain of many nodes shows the difference that the session's own
cost hides with one node. One thread, medians, the columns called in turn. `make bench` runs it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import opgraft

HERE = Path(__file__).resolve().parent
PACKAGE = Path(opgraft.__file__).parent
SIZES = {1: 20_000, 1_000: 20_000, 100_000: 2_000}
CHAINS = (1, 50)


def build(source: Path, folder: Path, *adapter: Path) -> Path:
    library = folder / f"lib{source.stem}.so"
    # Both have the same loop. Without alignment, its position could make one of them twice as slow.
    command = ["g++", "-std=c++20", "-O2", "-falign-loops=64"]
    command += ["-fPIC", "-shared", "-fvisibility=hidden"]
    command += [f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'adapter'}", str(source)]
    subprocess.run([*command, *map(str, adapter), "-o", str(library)], check=True)
    return library


def model(domain: str, nodes: int) -> bytes:
    operator = "PlusOne" if domain else "Add"
    inputs = ["one"] if not domain else []
    chain = [
        helper.make_node(operator, [f"x{i}", *inputs], [f"x{i + 1}"], domain=domain)
        for i in range(nodes)
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
        for name in ("x0", f"x{nodes}")
    ]
    one = [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])] if inputs else []
    graph = helper.make_graph(chain, "bench", values[:1], values[1:], one)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("by.sdk", 1)]
    imports.append(helper.make_opsetid("by.hand", 1))
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return made.SerializeToString()


def session(domain: str, nodes: int, libraries: list[Path]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for library in libraries:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model(domain, nodes), options)


def measure(
    sessions: dict[str, onnxruntime.InferenceSession], size: int, calls: int
) -> list[float]:
    feed = {"x0": np.zeros(size, np.float32)}
    times: dict[str, list[int]] = {name: [] for name in sessions}
    clock = time.perf_counter_ns
    for _ in range(calls):
        for name, one in sessions.items():
            start = clock()
            one.run(None, feed)
            times[name].append(clock() - start)
    return [statistics.median(taken) / 1000 for taken in times.values()]


def main() -> None:
    print(f"Python {sys.version.split()[0]}, ONNX Runtime {onnxruntime.__version__}\n")
    print(
        "| floats | nodes | native Add | by hand | SDK | SDK / by hand |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        adapter = sorted(PACKAGE.glob("adapter/*/*.cc"))
        libraries = [
            build(HERE / "sdk_by_hand.cc", Path(folder)),
            build(HERE / "sdk_operator.cc", Path(folder), *adapter),
        ]
        for nodes in CHAINS:
            sessions = {name: session(name, nodes, libraries) for name in ("", "by.hand", "by.sdk")}
            for size, calls in SIZES.items():
                for one in sessions.values():
                    (y,) = one.run(None, {"x0": np.zeros(size, np.float32)})
                    np.testing.assert_array_equal(y, np.full(size, nodes, np.float32))
                add, by_hand, sdk = measure(sessions, size, calls // nodes)
                print(f"| {size:,} | {nodes} | {add:,.2f} | {by_hand:,.2f} | {sdk:,.2f} "
                      f"| {sdk / by_hand:.3f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
