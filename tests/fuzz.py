"""Fuzzes model preparation (src/model/prepare_fuzz.cc) for FUZZ_SECONDS, a minute by default.

Run by `make fuzz`. The corpus consists of small models that contain a bit of everything that
preparing looks at; new inputs that the fuzzer finds stay in build/fuzz/corpus for the next time. A
finding is left there too, as crash-...; give that file to the fuzzer to reproduce it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import TensorProto, helper, numpy_helper

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD = REPOSITORY / "build" / "fuzz"


def pyop(output: str = "y", **attributes: object) -> onnx.NodeProto:
    given = {"module": "m", "class_name": "A.B", "output_types": [1], **attributes}
    return helper.make_node("PyOp", ["x", "", "x"], [output], domain="my", **given)


def model_of(*nodes: onnx.NodeProto, opset: int = 21, **model: object) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, 1, ["n", 3, None]) for name in "xy"]
    graph = helper.make_graph(list(nodes), "g", values[:1], values[1:])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 5)]
    return helper.make_model(graph, opset_imports=imports, **model)


def nested(depth: int) -> onnx.NodeProto:
    """Returns nested Ifs, with a PyOp in the innermost."""
    node = pyop("z")
    for _ in range(depth):
        value = helper.make_tensor_value_info("z", 1, None)
        branch = helper.make_graph([node], "b", [], [value])
        node = helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch)
    return node


def call(name: str, output: str = "y") -> onnx.NodeProto:
    return helper.make_node(name, ["x"], [output], domain="local", mode=2)


def function(name: str, *nodes: onnx.NodeProto, opset: int = 21) -> onnx.FunctionProto:
    imports = [helper.make_opsetid(*i) for i in (("", opset), ("local", 1), ("my", 1))]
    made = helper.make_function("local", name, ["x"], ["y"], nodes, imports, ["mode"])
    made.attribute_proto.append(helper.make_attribute("axis", 1))
    return made


def corpus() -> dict[str, bytes]:
    reference = helper.make_node("Softmax", ["z"], ["y"])
    reference.attribute.add(name="axis", ref_attr_name="mode", type="INT")
    outside = helper.make_tensor("w", 1, [1], bytes(4), raw=True)
    onnx.external_data_helper.set_external_data(outside, "w.bin", 16, 4)
    outside.ClearField("raw_data")
    constant = helper.make_node("Constant", [], ["y"], value=outside)
    everything = {
        "i": 7, "f": 1.5, "s": "text", "floats": [1.0, 2.0], "strings": ["a", "b"],
        "t": numpy_helper.from_array(np.arange(3)), "compute": "call", "input_types": [1, 1, 1],
        "tp": helper.make_tensor_type_proto(1, [2]),
    }  # fmt: skip
    weights = model_of(pyop(), constant)
    weights.graph.initializer.extend([outside, numpy_helper.from_array(np.ones(9), "v")])
    weights.graph.sparse_initializer.append(helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1]), "s"),
        numpy_helper.from_array(np.int64([0]), "i"), [4]))  # fmt: skip
    large = model_of(pyop())
    large.graph.initializer.append(numpy_helper.from_array(np.ones(600), "w"))
    large.doc_string = "x" * (-len(large.SerializeToString()) % 16 + 14)
    functions = [
        function("F", pyop()),
        function("G", call("F", "z"), reference),
        function("H", nested(1), helper.make_node("Identity", ["z"], ["y"])),
    ]
    newer = [function("F", pyop("z"), reference, opset=28)]
    given = {"alpha": 1.0, "axes": [1]}
    declared = model_of(helper.make_node("Op", ["x", "", "x"], ["y", ""], domain="my", **given))
    helper.set_model_props(declared, {"opgraft.module.my::Op": "m", "other": ""})
    cycle = [function("F", call("G")), function("G", call("F"))]
    negative = model_of(pyop())
    negative.graph.value_info.append(helper.make_tensor_value_info("y", 1, [-5, 2**62]))
    models = {
        "plain": model_of(helper.make_node("Add", ["x", "x"], ["y"])),
        "pyop": model_of(pyop()),
        "attributes": model_of(pyop(**everything)),
        "nested": model_of(nested(3)),
        "deep": model_of(nested(5)),
        "newer": model_of(
            *(helper.make_node(name, ["x"], ["y"], fmod=1) for name in ("Range", "Mod", "Cast")),
            pyop(), opset=28,
        ),
        "weights": weights,
        "large": large,
        "functions": model_of(call("G"), call("H", "w"), functions=functions),
        "newer-function": model_of(call("F"), functions=newer, opset=28),
        "declared": declared,
        "cycle": model_of(call("F"), functions=cycle),
        "negative": negative,
        "zero": model_of(helper.make_node("PyOp", [], [], domain="", module="m", class_name="C")),
        "bfloat16": model_of(pyop(output_types=[TensorProto.BFLOAT16])),
    }  # fmt: skip
    files = {name: model.SerializeToString() for name, model in models.items()}
    for path in sorted((REPOSITORY / "tests" / "golden").glob("**/*.textproto")):
        golden = text_format.Parse(path.read_text(), onnx.ModelProto())
        files["-".join(path.parts[-2:])] = golden.SerializeToString()
    return files


def build(compiler: str) -> Path:
    configure = ["cmake", "-S", str(REPOSITORY), "-B", str(BUILD), "-DOPGRAFT_FUZZ=ON"]
    configure += ["-DOPGRAFT_SANITIZE=address,undefined", f"-DCMAKE_CXX_COMPILER={compiler}"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    make = ["cmake", "--build", str(BUILD), "--target", "prepare_fuzz", "--parallel", "2"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return BUILD / "prepare_fuzz"


def main() -> int:
    seconds = os.environ.get("FUZZ_SECONDS", "60")
    fuzzer = build(os.environ.get("CLANG", "clang++"))
    seeds, found = BUILD / "seeds", BUILD / "corpus"
    for folder in (seeds, found):
        folder.mkdir(exist_ok=True)
    for name, content in corpus().items():
        (seeds / name).write_bytes(content)
    print(f"== fuzzing model preparation for {seconds} seconds, from {len(corpus())} models")
    command = [str(fuzzer), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=4096"]
    command += ["-max_len=8192", "-print_final_stats=1", f"-artifact_prefix={BUILD}/"]
    done = subprocess.run(
        [*command, str(found), str(seeds)], stderr=subprocess.PIPE, text=True, check=False
    )
    lines = done.stderr.splitlines()
    if done.returncode != 0:
        print("\n".join(lines[-60:]))
        print(f"== found something, or was interrupted; a harmful input is in {BUILD}")
        return 1
    executed = next(line.split()[-1] for line in lines if "number_of_executed_units" in line)
    print(f"== {executed} inputs, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
