"""Models that claim to be larger, deeper or smaller than anything can be."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import FLOAT, pyop_model
from opgraft._base._library import runner_path, runtime_library

OPSET = b"\x42\x02\x10\x15"  # an opset import of version 21
NODE, ATTRIBUTE, GRAPH = 1, 5, 7  # field numbers: in a graph, in a node, in a model
DEEPEST = 64  # what preparing follows


def varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def message(tag: int, content: bytes, claimed: int | None = None) -> bytes:
    """A protobuf field, by hand: protobuf would refuse these. Its length may be a lie."""
    length = len(content) if claimed is None else claimed
    return varint(tag << 3 | 2) + varint(length) + content


def nested(depth: int, graph_tag: int = 6) -> bytes:
    """Graphs in attributes of nodes of graphs, so many deep."""
    parts: list[bytes] = []  # from the innermost outwards, what stands before the rest
    length = 0
    for _ in range(depth):
        for tag, before in ((graph_tag, b""), (ATTRIBUTE, message(4, b"If")), (NODE, b"")):
            parts.append(before + varint(tag << 3 | 2) + varint(length))
            length += len(parts[-1])
    return b"".join(reversed(parts))


@pytest.mark.parametrize("graph_tag", [6, 11])
@pytest.mark.parametrize("depth", [DEEPEST + 1, 10_000, 200_000])
def test_graphs_nested_without_end(depth: int, graph_tag: int) -> None:
    with pytest.raises(opgraft.ModelError, match="nested more than 64 deep"):
        opgraft.prepare(message(GRAPH, nested(depth, graph_tag)) + OPSET)


SHORT_OF_MEMORY = """
    import resource, sys
    import opgraft, opgraft._pyop
    # A file is mapped, which takes its place too.
    model = open(sys.argv[1], "rb").read() if sys.argv[2] == "bytes" else sys.argv[1]
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    more = {"bytes": 64, "path": 164}[sys.argv[2]] << 20
    resource.setrlimit(resource.RLIMIT_AS, (used + more,) * 2)
    try:
        opgraft.prepare(model, runtime="1.31.1")
    except opgraft.Error as error:
        print("raised:", error)
"""


@pytest.mark.parametrize("form", ["bytes", "path"])
def test_a_model_that_takes_more_memory_than_there_is(tmp_path: Path, form: str) -> None:
    model = pyop_model("m")
    weight = helper.make_tensor("w", TensorProto.UINT8, [100 << 20], bytes(100 << 20), raw=True)
    model.graph.initializer.append(weight)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    command = [sys.executable, "-c", textwrap.dedent(SHORT_OF_MEMORY), str(path), form]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "raised: there is not enough memory to prepare" in done.stdout


def test_graphs_nested_without_end_in_a_function() -> None:
    node = message(4, b"If") + message(ATTRIBUTE, message(6, nested(10_000)))
    model = message(GRAPH, b"") + OPSET + message(25, message(1, b"F") + message(7, node))
    with pytest.raises(opgraft.ModelError, match="nested more than 64 deep"):
        opgraft.prepare(model)


@pytest.mark.skipif(
    "san.so" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer takes a multiple of the stack"
)
def test_graphs_as_deep_as_they_may_be_on_a_small_stack() -> None:
    """A thread of a service may have little; glibc gives 8 MB, Java 1 MB."""
    prepared: list[opgraft.PreparedModel] = []
    model = message(GRAPH, nested(DEEPEST)) + OPSET
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: prepared.append(opgraft.prepare(model)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert prepared[0].bytes == model


def test_a_deep_model_in_a_cpp_program(tmp_path: Path) -> None:
    path = tmp_path / "deep.onnx"
    path.write_bytes(message(GRAPH, nested(10_000)) + OPSET)
    command = [runner_path(), "--onnxruntime", runtime_library(), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nested more than 64 deep" in done.stderr


@pytest.mark.parametrize("claimed", [2**31 - 1, 2**31, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "path",
    [
        (GRAPH,),
        (GRAPH, NODE),
        (GRAPH, NODE, ATTRIBUTE),
        (GRAPH, NODE, ATTRIBUTE, 8),  # the integers of an attribute
        (GRAPH, 5, 14),  # where the data of a weight lies
        (GRAPH, 13, 2, 1, 2, 1),  # a dimension of a shape
        (25, 9),  # an opset import of a function
        (8,),
    ],
)
def test_a_length_that_claims_two_gigabytes_and_more(path: tuple[int, ...], claimed: int) -> None:
    innermost = message(4, b"PyOp") + message(path[-1], b"abc", claimed)
    model = innermost
    for tag in reversed(path[:-1]):
        model = message(4, b"PyOp") * (tag == NODE) + message(tag, model)
    with pytest.raises(opgraft.ModelError, match="is not an ONNX model, or is truncated"):
        opgraft.prepare(OPSET + model)


@pytest.mark.parametrize("size", [-1, -5, -(2**63), 2**62, 2**63 - 1])
def test_a_declared_size_that_cannot_be(size: int) -> None:
    """One below zero is left open; one that is too large is the runtime's to refuse."""
    model = pyop_model("m")
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, [size, 2]))
    prepared = onnx.ModelProto.FromString(opgraft.prepare(model).bytes)
    shapes = {a.name: list(a.ints) for a in prepared.graph.node[0].attribute}["output_shapes"]
    assert shapes == [2, max(size, -1), 2]


@pytest.mark.parametrize("types", [[-1], [2**31], [-(2**63)], [2**63 - 1], [0]])
def test_a_type_that_cannot_be(types: list[int]) -> None:
    with pytest.raises(opgraft.ModelError, match="output_types"):
        opgraft.prepare(pyop_model("m", output_types=types))
