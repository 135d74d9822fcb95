"""The cost of opening a 500 MB model: seconds until its first result, and peak memory.

Three ways, in turn, each in a new process that has imported all it needs, the best of several runs:
ONNX Runtime alone and Opgraft on a model that needs no change, and Opgraft on the same model with a
Python operator, which must be changed. The weights are 1,024 by 1,024 matrices, inline in the file,
which is in the system's cache. `make bench` runs it.
"""

from __future__ import annotations

import re
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

SIZE = 1024
MATRICES = 120  # of 4 MB
TURNS = 7
WAYS = ("ONNX Runtime alone", "Opgraft, unchanged", "Opgraft, changed")


class Same:
    """The operator of the changed model."""

    def compute(self, x: np.ndarray) -> np.ndarray:
        return x


def write(path: Path, first: onnx.NodeProto) -> None:
    """Writes a model with a chain of MatMuls after the node `first`."""
    random = np.random.default_rng(0)
    nodes, weights = [first], []
    for i in range(MATRICES):
        matrix = random.standard_normal((SIZE, SIZE), np.float32) / np.float32(np.sqrt(SIZE))
        raw = matrix.tobytes()
        weights.append(helper.make_tensor(f"w{i}", TensorProto.FLOAT, [SIZE, SIZE], raw, raw=True))
        nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]))
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIZE])
        for name in ("x", f"v{MATRICES}")
    ]
    graph = helper.make_graph(nodes, "bench", values[:1], values[1:], weights)
    imports = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)


def open_and_run(way: str, path: str) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feed = {"x": np.ones((1, SIZE), np.float32)}
    status = Path("/proc/self/status")
    start = time.perf_counter()
    if way == WAYS[0]:
        session = onnxruntime.InferenceSession(path, options)
    else:
        session = opgraft.InferenceSession(path, options, allow=["__main__"])
    session.run(None, feed)
    seconds = time.perf_counter() - start
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1024
    print(seconds, peak)


def main() -> None:
    pyop = helper.make_node(
        "PyOp", ["x"], ["v0"], domain="bench", module="__main__", class_name="Same",
        output_types=[TensorProto.FLOAT],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        unchanged, changed = Path(folder, "unchanged.onnx"), Path(folder, "changed.onnx")
        write(unchanged, helper.make_node("Identity", ["x"], ["v0"]))
        write(changed, pyop)
        megabytes = unchanged.stat().st_size / 2**20
        measured: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(TURNS):
            for way in WAYS:
                path = changed if way == WAYS[2] else unchanged
                command = [sys.executable, __file__, way, str(path)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                seconds, peak = map(float, output.split())
                measured[way].append((seconds, peak))
    print(f"\nOpening a model of {megabytes:.0f} MB, ONNX Runtime {onnxruntime.__version__}:\n")
    print("| | seconds | peak memory, MB | seconds / ONNX Runtime alone |")
    print("|---|---|---|---|")
    seconds, peaks = (
        {way: min(pair[i] for pair in pairs) for way, pairs in measured.items()} for i in (0, 1)
    )
    for way in WAYS:
        ratio = seconds[way] / seconds[WAYS[0]]
        print(f"| {way} | {seconds[way]:.2f} | {peaks[way]:,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        open_and_run(*sys.argv[1:])
    else:
        main()
