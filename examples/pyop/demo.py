"""Writes a model with two Python operators and runs it in ONNX Runtime, from Python and from C++.

The graph is that of the document that introduced PyOp: six nodes, two of them PyOps. It is written
by the package onnx, and contains nothing of Opgraft. `demo.py demo.onnx` keeps the model in that
file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import opgraft

FLOAT = TensorProto.FLOAT


def make_model() -> onnx.ModelProto:
    offsets = helper.make_node(
        "PyOp",
        ["S", "P"],
        ["L", "M", "N"],
        domain="demo.offsets",
        module="mymodule",
        class_name="Offsets",
        input_types=[FLOAT, FLOAT],
        output_types=[FLOAT, FLOAT, FLOAT],
        first="5",
        second="7",
        third="9",
    )
    sums = helper.make_node(
        "PyOp",
        ["H", "N", "E"],
        ["O", "W"],
        domain="demo.sums",
        module="mymodule",
        class_name="NeighbourSums",
        input_types=[FLOAT, FLOAT, FLOAT],
        output_types=[FLOAT, FLOAT],
    )
    nodes = [
        helper.make_node("Add", ["A", "B"], ["S"]),
        helper.make_node("Mul", ["C", "D"], ["P"]),
        offsets,
        helper.make_node("Add", ["L", "M"], ["H"]),
        sums,
        helper.make_node("Sub", ["O", "W"], ["F"]),
    ]
    values = {name: helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in "ABCDEF"}
    graph = helper.make_graph(nodes, "demo", [values[name] for name in "ABCDE"], [values["F"]])
    return helper.make_model(graph)


def main() -> None:
    here = Path(__file__).resolve().parent
    sys.path.append(str(here))
    inputs = {
        name: np.arange(6, dtype=np.float32).reshape(2, 3) + start
        for start, name in enumerate("ABCDE")
    }
    model = make_model()
    for name, value in inputs.items():
        print(f"{name} = {value.tolist()}")

    session = opgraft.InferenceSession(model, allow=["mymodule"])
    (result,) = session.run(["F"], inputs)
    print(f"\nin Python, ONNX Runtime {onnxruntime.__version__}:\nF = {result.tolist()}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/demo.onnx")
        onnx.save(model, path)
        command = [sys.executable, "-m", "opgraft", "run", str(path), "--host", "cpp"]
        command += ["--allow", "mymodule"]
        for name, value in inputs.items():
            np.save(Path(folder, f"{name}.npy"), value)
            command += ["--input", f"{name}={folder}/{name}.npy"]
        print("\nin C++, in a process that is not Python, the same model:", flush=True)
        environment = dict(os.environ, PYTHONPATH=str(here))
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
