"""Models that are broken: each is a ModelError, whatever the bytes."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import FLOAT, VERSION, Write, floats, pyop_model

ECHO = "class Op:\n    def compute(self, x): return x"


def two_pyops() -> bytes:
    model = pyop_model("m", inputs=("x", "", "z"), outputs=("y", "w"), input_types=[1] * 3)
    model.graph.node.extend(pyop_model("n", inputs=("y",), outputs=("v",), scale=2.5).graph.node)
    model.graph.node[1].name = "other"
    return model.SerializeToString()


def test_a_model_cut_off_at_any_byte() -> None:
    whole = two_pyops()
    opgraft.prepare(whole)
    for length in range(len(whole)):
        with pytest.raises(opgraft.ModelError):
            opgraft.prepare(whole[:length])


def test_a_session_for_a_model_cut_off_at_any_byte(write_module: Write) -> None:
    """With several opset imports and a function, some cuts leave a message that can be parsed."""
    module = write_module(ECHO)
    model = pyop_model(module)
    model.graph.node.append(helper.make_node("Twice", ["y"], ["z"], domain="local"))
    model.graph.output.append(helper.make_tensor_value_info("z", FLOAT, None))
    imports = [helper.make_opsetid("", 21)]
    double = helper.make_node("Add", ["a", "a"], ["b"])
    model.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], [double], imports))
    del model.opset_import[:]
    model.opset_import.extend([*imports, helper.make_opsetid("local", 1)])
    whole = model.SerializeToString()
    assert opgraft.InferenceSession(whole, allow=[module]).run(None, {"x": floats(2)})[1][1] == 2
    onnxruntime.set_default_logger_severity(4)
    try:
        for length in range(len(whole)):
            with pytest.raises(opgraft.ModelError):
                opgraft.InferenceSession(whole[:length], allow=[module])
    finally:
        onnxruntime.set_default_logger_severity(2)


@pytest.mark.parametrize("length", [0, 1, 10, 100, 200])
def test_a_file_cut_off(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(two_pyops()[:length])
    with pytest.raises(
        opgraft.ModelError, match="model.onnx' is not an ONNX model, or is truncated"
    ):
        opgraft.InferenceSession(path, allow=["m", "n"])


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello, world", b"\x89PNG\r\n\x1a\n" * 100, b"{}", b"\xff" * 1000, b"\x08\x08"],
)
def test_what_is_no_model(content: bytes) -> None:
    with pytest.raises(opgraft.ModelError):
        opgraft.InferenceSession(content)


def test_what_is_no_model_though_we_need_not_look_into_it() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    values = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    broken = model.SerializeToString() + b"\xa2\x01\x03\xff\xff\xff"  # training_info, of no sense
    with pytest.raises(opgraft.ModelError, match="ONNX Runtime refuses the model"):
        opgraft.InferenceSession(broken)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(opgraft.ModelError, match=r"none\.onnx': No such file"):
        opgraft.InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(opgraft.ModelError, match="Is a directory"):
        opgraft.prepare(tmp_path)


def test_a_model_of_another_kind() -> None:
    with pytest.raises(TypeError, match="not int"):
        opgraft.InferenceSession(3)  # type: ignore[arg-type]


def test_a_graph_is_no_model() -> None:
    with pytest.raises(TypeError, match="not GraphProto"):
        opgraft.prepare(pyop_model("m").graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", ["abc", "1.18.1", "1.2", "0.5"])
def test_a_runtime_that_is_none(runtime: str) -> None:
    with pytest.raises(opgraft.Error, match="expected a version of ONNX Runtime from 1.19 on"):
        opgraft.prepare(pyop_model("m"), runtime=runtime)


def test_random_damage_never_ends_the_process() -> None:
    """Bytes flipped, cut out and put in twice: prepared or refused, and nothing else."""
    whole = two_pyops()
    generator = random.Random(0)
    refused = 0
    for _ in range(20_000):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            start, end = sorted(generator.choices(range(len(damaged)), k=2))
            kind = generator.randrange(3)
            if kind == 0:
                damaged[start] = generator.randrange(256)
            elif kind == 1:
                del damaged[start : min(end, start + 20)]
            else:
                damaged[start:start] = damaged[start:end]
        try:
            opgraft.prepare(bytes(damaged))
        except opgraft.ModelError:
            refused += 1
    assert refused > 10_000


def test_damage_to_a_prepared_model_never_ends_the_process(write_module: Write) -> None:
    """The runtime itself reads these: our kernel's checks are all that stands before Python."""
    module = write_module(ECHO)
    whole = opgraft.prepare(pyop_model(module)).bytes
    generator = random.Random(0)
    onnxruntime.set_default_logger_severity(4)
    try:
        for _ in range(500):
            damaged = bytearray(whole)
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            try:
                session = opgraft.InferenceSession(bytes(damaged), allow=[module])
                session.run(None, {"x": floats(1)})
            except Exception:
                pass
    finally:
        onnxruntime.set_default_logger_severity(2)


def canonical(module: str, /, **changes: object) -> onnx.ModelProto:
    """A prepared model, its node's attributes changed by hand; None takes one out."""
    model = onnx.ModelProto.FromString(opgraft.prepare(pyop_model(module, shape=[2])).bytes)
    (node,) = model.graph.node
    for name, value in changes.items():
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        if value is not None:
            node.attribute.append(helper.make_attribute(name, value))
    return model


def test_a_canonical_node_by_hand(write_module: Write) -> None:
    module = write_module(ECHO)
    session = opgraft.InferenceSession(canonical(module), allow=[module])
    assert session.run(None, {"x": floats(2)})[0][1] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 4}, "is of format 4, this Opgraft reads formats 1 to 3; install a newer one"),
        ({"format": 3}, "attribute 'operator' is missing"),
        ({"format": 2}, "attribute 'operator' is missing"),
        ({"format": 2, "operator": "Op"}, "attribute 'operator' is 'Op', expected 'domain::Name'"),
        ({"format": 0}, "is of format 0"),
        ({"format": "1"}, "is of format 0"),
        ({"module": None}, "attribute 'module' is missing"),
        ({"module": 5}, "attribute 'module'"),
        ({"class_name": None}, "attribute 'class_name' is missing"),
        ({"output_types": None}, "'output_types' is missing"),
        (
            {"output_types": [11], "output_shapes": None},
            "float64 in 'output_types', but float32 in the graph",
        ),
        ({"output_types": [1, 1]}, "names 2 types, expected 1"),
        ({"input_places": [0, 0]}, "'input_places' does not name"),
        ({"input_places": [1]}, "'input_places' does not name"),
        ({"input_places": [-2]}, "'input_places' does not name"),
        ({"input_places": [-1]}, "'input_places' does not name"),
        ({"output_shapes": [3, 1]}, "'output_shapes'"),
        ({"output_shapes": [-5]}, "'output_shapes'"),
        ({"output_shapes": [2**62]}, "'output_shapes'"),
        ({"output_shapes": [0, 0]}, "'output_shapes' holds 2 shapes"),
        ({"arguments": b"\xff\xff"}, "'arguments' is not a NodeProto"),
    ],
)
def test_a_canonical_node_that_is_wrong(
    write_module: Write, changes: dict[str, object], message: str
) -> None:
    module = write_module(ECHO)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    model = canonical(module, **changes).SerializeToString()
    with pytest.raises(Exception, match=f"(?s)opgraft.ModelError: node 'node'.*{message}"):
        onnxruntime.InferenceSession(model, options)


def test_a_canonical_node_of_another_type_than_the_graphs(write_module: Write) -> None:
    """With shapes the runtime infers its type, from 1.28 on, and says itself what is wrong."""
    module = write_module(ECHO)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    model = canonical(module, output_types=[11]).SerializeToString()
    ours = "node 'node'.*float64 in 'output_types', but float32 in the graph"
    runtimes = r"Type \(tensor\(float\)\) of output arg \(y\) of node \(node\) .*tensor\(double\)"
    with pytest.raises(Exception, match=ours if VERSION < (1, 28) else runtimes):
        onnxruntime.InferenceSession(model, options)


def message(tag: int, content: bytes) -> bytes:
    """A protobuf field. Written by hand, where protobuf itself would refuse the whole."""
    length, digits = len(content), []
    while length > 127:
        digits.append(length & 127 | 128)
        length >>= 7
    return bytes([tag << 3 | 2, *digits, length]) + content


@pytest.mark.parametrize("depth", [100, 3_000])
def test_graphs_nested_without_end(depth: int) -> None:
    graph = b""
    for _ in range(depth):
        graph = message(1, message(4, b"If") + message(5, message(6, graph)))
    with pytest.raises(opgraft.ModelError, match="nested more than 64 deep"):
        opgraft.prepare(message(7, graph) + message(8, b"\x10\x15"))


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**63, 2**64 - 1])
def test_a_length_that_claims_more_than_there_is(length: int) -> None:
    claimed = bytes([7 << 3 | 2])
    while length > 127:
        claimed += bytes([length & 127 | 128])
        length >>= 7
    with pytest.raises(opgraft.ModelError, match="truncated"):
        opgraft.prepare(claimed + bytes([length]) + b"abc")


def test_a_type_that_a_declared_value_contradicts(write_module: Write) -> None:
    """Memory is allotted by the declared type: writing another one would overrun it."""
    model = pyop_model(write_module(ECHO), outputs=("y",), output_types=[TensorProto.DOUBLE])
    with pytest.raises(opgraft.ModelError, match="'y' is float64 in 'output_types', but"):
        opgraft.prepare(model)
