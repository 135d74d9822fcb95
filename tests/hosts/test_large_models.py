"""Models with large weights: references into the model's file, and models over 2 GB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opgraft
from conftest import DOUBLE, FLOAT, Write, floats, tells_the_folder

LARGE = 16 << 20  # the size in bytes from which on weights become references
DISK_NEEDED = 64 << 20  # for the parts of a model with holes that are really written


def pyop(module: str, source: str, target: str) -> onnx.NodeProto:
    return helper.make_node(
        "PyOp",
        [source],
        [target],
        domain="py",
        module=module,
        class_name="Op",
        output_types=[FLOAT],
    )


def model_with(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], outputs: str
) -> onnx.ModelProto:
    """Returns a model without inputs; an unused weight makes it large."""
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    tensors.append(numpy_helper.from_array(np.zeros(LARGE, np.uint8), "filler"))
    used = helper.make_node("Size", ["filler"], ["size"])
    values = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph([*nodes, used], "graph", [], values, tensors)
    imports = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def large_model(module: str, value: float = 1) -> onnx.ModelProto:
    nodes = [pyop(module, "w", "doubled"), helper.make_node("Add", ["w", "doubled"], ["y"])]
    return model_with(nodes, {"w": np.full(5000, value, np.float32)}, "y")


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def handed_over(session: opgraft.InferenceSession) -> bytes:
    """Returns the model that ONNX Runtime was given."""
    return bytes(session._model_bytes)


@tells_the_folder
def test_weights_become_references(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    session = opgraft.InferenceSession(path, allow=[module])
    np.testing.assert_array_equal(session.run(None, {})[0], np.full(5000, 3, np.float32))
    handed = handed_over(session)
    assert len(handed) < 4096
    for tensor in onnx.load_from_string(handed).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        assert entries["location"] == "model.onnx"
        offset, length = int(entries["offset"]), int(entries["length"])
        expected = np.float32(1).tobytes() * 5000 if tensor.name == "w" else bytes(LARGE)
        assert path.read_bytes()[offset : offset + length] == expected


@tells_the_folder
def test_a_name_of_any_kind(
    write_module: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module(DOUBLE)
    folder = tmp_path / "with spaces, ümläute & more"
    folder.mkdir()
    path = save(large_model(module), folder / "模型 1.onnx")
    monkeypatch.chdir(folder)
    for name in (path, path.name, Path("..", folder.name, path.name)):
        session = opgraft.InferenceSession(name, allow=[module])
        assert len(handed_over(session)) < 4096
        assert session.run(None, {})[0][0] == 3


def test_a_runtime_that_cannot_be_told_the_folder_gets_copies(tmp_path: Path) -> None:
    from opgraft._run._prepare import prepare_to_open

    path = save(large_model("m"), tmp_path / "model.onnx")
    for version, refers in {"1.21.0": False, "1.21.1": True}.items():
        prepared, check = prepare_to_open(path, may_refer=True, runtime=version)
        assert (check is not None, len(prepared.bytes) < 4096) == (refers, refers)


def test_a_small_model_is_copied(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    model = large_model(module)
    del model.graph.initializer[1], model.graph.node[2]
    path = save(model, tmp_path / "model.onnx")
    session = opgraft.InferenceSession(path, allow=[module])
    path.write_bytes(b"overwritten")
    assert session.run(None, {})[0][0] == 3


def test_a_prepared_model_stands_alone(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    (tmp_path / "other").mkdir()
    prepared = opgraft.prepare(path)
    prepared.save(tmp_path / "other" / "saved.onnx")
    assert not prepared.has_external_data
    assert len(prepared.bytes) > LARGE
    command = [sys.executable, "-m", "opgraft", "prepare", "model.onnx", "other/command.onnx"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    path.unlink()
    for name in ("saved.onnx", "command.onnx"):
        session = opgraft.InferenceSession(tmp_path / "other" / name, allow=[module])
        assert session.run(None, {})[0][0] == 3
    session = opgraft.InferenceSession(prepared, allow=[module])
    assert session.run(None, {})[0][0] == 3


def test_saving_in_place_leaves_sessions_alone(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    path.chmod(0o640)
    session = opgraft.InferenceSession(path, allow=[module])
    opgraft.prepare(large_model(module, value=5)).save(path)
    assert session.run(None, {})[0][0] == 3
    assert opgraft.InferenceSession(path, allow=[module]).run(None, {})[0][0] == 15
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["model.onnx"]


def test_the_file_deleted_or_replaced_afterwards(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    session = opgraft.InferenceSession(path, allow=[module])
    path.unlink()
    assert session.run(None, {})[0][0] == 3
    save(large_model(module, value=7), tmp_path / "new.onnx").rename(path)
    assert session.run(None, {})[0][0] == 3


@tells_the_folder
def test_the_weights_of_another_file_are_never_taken(write_module: Write, tmp_path: Path) -> None:
    """Making the session again reads the file again."""
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    session = opgraft.InferenceSession(path, allow=[module])
    save(large_model(module, value=7), tmp_path / "new.onnx").rename(path)
    with pytest.raises(opgraft.ModelError, match="model.onnx' was changed or replaced"):
        session.set_providers(["CPUExecutionProvider"])


@tells_the_folder
def test_the_file_replaced_while_it_is_opened(
    write_module: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    other = save(large_model(module, value=7), tmp_path / "new.onnx")
    original = opgraft._run._prepare.prepare_to_open

    def prepare_and_replace(*arguments: Any, **named: Any) -> Any:
        prepared = original(*arguments, **named)
        os.replace(other, path)
        return prepared

    monkeypatch.setattr("opgraft._run._session.prepare_to_open", prepare_and_replace)
    with pytest.raises(opgraft.ModelError, match="model.onnx' was changed or replaced"):
        opgraft.InferenceSession(path, allow=[module])


def test_what_the_runtime_writes_stands_alone(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    opgraft.InferenceSession(path, options, allow=[module])
    path.unlink()
    session = opgraft.InferenceSession(tmp_path / "optimized.onnx", allow=[module])
    assert session.run(None, {})[0][0] == 3


def with_external_weight(model: onnx.ModelProto, folder: Path) -> Path:
    """Saves the model with one more weight, in a separate file."""
    weight = np.full(2000, 4, np.float32)
    (folder / "beside.bin").write_bytes(weight.tobytes())
    tensor = numpy_helper.from_array(weight, "beside")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="beside.bin")
    model.graph.initializer.append(tensor)
    model.graph.node.append(helper.make_node("Neg", ["beside"], ["z"]))
    model.graph.output.append(helper.make_empty_tensor_value_info("z"))
    return save(model, folder / "model.onnx")


@tells_the_folder
def test_the_runtime_has_nothing_to_warn_of(
    write_module: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It warns about each change of an entry of the options, such as the folder of the data."""
    module = write_module(DOUBLE)
    path = save(large_model(module), tmp_path / "model.onnx")
    session = opgraft.InferenceSession(path, allow=[module])
    session.set_providers(["CPUExecutionProvider"])  # makes the session again
    assert session.run(None, {})[0][0] == 3
    assert capfd.readouterr().err == ""


@tells_the_folder
def test_external_data_beside_it(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = with_external_weight(large_model(module), tmp_path)
    session = opgraft.InferenceSession(path, allow=[module])
    y, z = session.run(None, {})
    assert (y[0], z[0]) == (3, -4)
    assert len(handed_over(session)) < 4096


@tells_the_folder
def test_links(write_module: Write, tmp_path: Path) -> None:
    """As in the cache of Hugging Face: links in one folder, the files in another."""
    module = write_module(DOUBLE)
    for name in ("blobs", "snapshot", "beside", "elsewhere"):
        (tmp_path / name).mkdir()
    blob = save(large_model(module), tmp_path / "blobs" / "0123abc")
    link = tmp_path / "snapshot" / "model.onnx"
    link.symlink_to("../blobs/0123abc")
    session = opgraft.InferenceSession(link, allow=[module])
    assert session.run(None, {})[0][0] == 3
    assert len(handed_over(session)) < 4096
    (tmp_path / "linked").symlink_to("blobs")
    session = opgraft.InferenceSession(tmp_path / "linked" / blob.name, allow=[module])
    assert session.run(None, {})[0][0] == 3
    # With external data, which is in the folder of the link, weights are copied.
    with_external_weight(large_model(module), tmp_path / "beside")
    shutil.move(tmp_path / "beside" / "model.onnx", tmp_path / "elsewhere")
    (tmp_path / "beside" / "model.onnx").symlink_to("../elsewhere/model.onnx")
    session = opgraft.InferenceSession(tmp_path / "beside" / "model.onnx", allow=[module])
    y, z = session.run(None, {})
    assert (y[0], z[0]) == (3, -4)


@tells_the_folder
def test_weights_of_inner_graphs(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    branches = {}
    for name, value in (("then_branch", 2), ("else_branch", 3)):
        weight = numpy_helper.from_array(np.full(3000, value, np.float32), f"w_{name}")
        nodes = [helper.make_node("Add", ["doubled", weight.name], [f"y_{name}"])]
        output = helper.make_tensor_value_info(f"y_{name}", FLOAT, [3000])
        branches[name] = helper.make_graph(nodes, name, [], [output], [weight])
    nodes = [pyop(module, "w", "doubled"), helper.make_node("If", ["c"], ["y"], **branches)]
    model = model_with(nodes, {"w": np.full(3000, 1, np.float32)}, "y")
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    session = opgraft.InferenceSession(save(model, tmp_path / "m.onnx"), allow=[module])
    assert len(handed_over(session)) < 4096
    for condition, expected in {True: 4, False: 5}.items():
        assert session.run(None, {"c": np.array(condition)})[0][0] == expected


@tells_the_folder
@pytest.mark.parametrize("shift", range(8))
def test_weights_lie_at_any_place_in_the_file(
    write_module: Write, tmp_path: Path, shift: int
) -> None:
    """The runtime uses them in place, whatever their alignment."""
    module = write_module(
        """
        class Op:
            def compute(self, x):
                assert x.flags.aligned == (x.ctypes.data % 4 == 0)
                return x + 1
        """
    )
    random = np.random.default_rng(0)
    weights = {
        "floats": random.random((64, 65), np.float32),
        "doubles": random.random((30, 31)),
        "halves": random.random((50, 51)).astype(np.float16),
        "integers": random.integers(0, 64, 900),
        "bytes": random.integers(-9, 9, (64, 70)).astype(np.int8),
        "flags": random.random(5000) > 0.5,
        "filter": random.random((16, 3, 7, 7), np.float32),
        "image": random.random((1, 3, 20, 20), np.float32),
    }
    nodes = [
        pyop(module, "floats", "a"),
        helper.make_node("MatMul", ["a", "transposed"], ["b"]),
        helper.make_node("Transpose", ["floats"], ["transposed"]),
        helper.make_node("Gather", ["floats", "integers"], ["c"]),
        helper.make_node("Cast", ["flags"], ["d"], to=FLOAT),
        helper.make_node("Conv", ["image", "filter"], ["e"]),
        helper.make_node("ReduceSum", ["doubles"], ["f"]),
        helper.make_node("Mul", ["halves", "halves"], ["g"]),
        helper.make_node("Cast", ["bytes"], ["h"], to=FLOAT),
    ]
    model = model_with(nodes, weights, "a b c d e f g h")
    for tensor in model.graph.initializer:
        tensor.doc_string = "x" * shift
    path = save(model, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = opgraft.InferenceSession(path, options, allow=[module])
    assert len(handed_over(session)) < 8192
    copied = opgraft.InferenceSession(path.read_bytes(), allow=[module])
    for value, expected in zip(session.run(None, {}), copied.run(None, {}), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_in_a_cpp_program(write_module: Write, module_folder: Path, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = with_external_weight(large_model(module), tmp_path)
    if tells_the_folder.args[0]:
        path = save(large_model(module), tmp_path / "model.onnx")
    command = [sys.executable, "-m", "opgraft", "run", path.name, "--allow", module]
    environment = {**os.environ, "PYTHONPATH": str(module_folder)}
    result = subprocess.run(
        [*command, "--host", "cpp"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "float32 (5000)\n3 3" in result.stdout


def varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def save_with_a_hole(model: onnx.ModelProto, size: int, path: Path) -> Path:
    """Saves the model with a weight "zeros" of `size` bytes, which is a hole in the file."""
    if shutil.disk_usage(path.parent).free < DISK_NEEDED:
        pytest.skip("there is not enough space on the disk")
    rows = size // 4096
    tensor = TensorProto(dims=[rows, 1024], data_type=FLOAT, name="zeros").SerializeToString()
    tensor += b"\x4a" + varint(size)  # raw_data
    graph = model.graph.SerializeToString() + b"\x2a" + varint(len(tensor) + size) + tensor
    model.ClearField("graph")
    head = model.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph
    path.write_bytes(head)
    try:
        os.truncate(path, len(head) + size)
    except OSError as error:
        pytest.skip(f"no file can be that large here: {error}")
    return path


def model_over_a_hole(module: str | None) -> onnx.ModelProto:
    gather = helper.make_node("Gather", ["zeros", "i"], ["row"])
    add = helper.make_node("Add", ["x", "row"], ["sum"])
    last = pyop(module, "sum", "y") if module else helper.make_node("Neg", ["sum"], ["y"])
    values = [helper.make_tensor_value_info(name, FLOAT, [1024]) for name in "xy"]
    index = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    graph = helper.make_graph([gather, add, last], "graph", [values[0], index], values[1:])
    imports = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@tells_the_folder
def test_a_model_file_over_2_gb_that_has_to_be_changed(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save_with_a_hole(model_over_a_hole(module), 3 << 30, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = opgraft.InferenceSession(path, options, allow=[module])
    (y,) = session.run(None, {"x": floats(1024), "i": np.array(700_000)})
    np.testing.assert_array_equal(y, 2 * floats(1024))


def test_a_model_file_over_2_gb_that_cannot_be_opened(tmp_path: Path) -> None:
    path = save_with_a_hole(model_over_a_hole(None), 3 << 30, tmp_path / "plain.onnx")
    with pytest.raises(
        opgraft.ModelError, match="plain.onnx' has .* 2 GB. Fix: save it with external"
    ):
        opgraft.InferenceSession(path)
    path = save_with_a_hole(model_over_a_hole("m"), 3 << 30, tmp_path / "pyop.onnx")
    with pytest.raises(
        opgraft.ModelError, match="when prepared, .* 2 GB. Fix: save it with external data"
    ):
        opgraft.prepare(path)
    path = save_with_a_hole(model_over_a_hole("m"), 5 << 30, tmp_path / "larger.onnx")
    with pytest.raises(opgraft.ModelError, match="at most 2 GB: .* must be saved as external data"):
        opgraft.InferenceSession(path)


@tells_the_folder
def test_external_data_over_2_gb(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    model = model_over_a_hole(module)
    tensor = TensorProto(dims=[3 << 18, 1024], data_type=FLOAT, name="zeros", data_location=1)
    tensor.external_data.add(key="location", value="zeros.bin")
    model.graph.initializer.append(tensor)
    (tmp_path / "zeros.bin").touch()
    os.truncate(tmp_path / "zeros.bin", 3 << 30)
    session = opgraft.InferenceSession(save(model, tmp_path / "m.onnx"), allow=[module])
    (y,) = session.run(None, {"x": floats(1024), "i": np.array(700_000)})
    np.testing.assert_array_equal(y, 2 * floats(1024))


def test_a_model_in_memory_over_2_gb() -> None:
    class TooLarge:  # raises like protobuf, but without 2 GB
        opset_import = ()

        def SerializeToString(self) -> bytes:
            raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB")

    with pytest.raises(
        opgraft.ModelError, match=r"save_as_external_data=True\), and give the path"
    ):
        opgraft.InferenceSession(TooLarge())  # type: ignore[arg-type]


def test_a_model_is_not_read_as_a_whole(tmp_path: Path) -> None:
    path = save_with_a_hole(model_over_a_hole(None), 1 << 30, tmp_path / "model.onnx")
    program = """
        import re, sys
        from opgraft._run._prepare import prepare_to_open
        prepare_to_open(sys.argv[1], may_refer=True)
        status = open("/proc/self/status").read()
        print(re.findall(r"VmHWM:\\s+(\\d+) kB", status)[0])
    """
    lines = "\n".join(line.strip() for line in program.splitlines())
    command = [sys.executable, "-c", lines, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(output) < 300_000
