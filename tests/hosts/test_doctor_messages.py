"""Messages of `opgraft doctor`, sessions and programs about models that cannot run, with fixes.

ONNX Runtime's own messages name neither the node nor a fix.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import opgraft
from conftest import FLOAT, HOST_PYTHON, pyop_model, tells_the_folder
from opgraft import _command, _pyop
from opgraft._doctor import _doctor, _doctor_report

VERSION = onnxruntime.__version__
VERSION_PARTS = tuple(int(part) for part in VERSION.split(".")[:2])
CLASS = "class Op:\n    def compute(self, x, y=None): return x\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("OPGRAFT_PYTHON", HOST_PYTHON)
    (tmp_path / "message_operators.py").write_text(CLASS)
    return tmp_path


def parse(graph: str, imports: str = '"": 21', ir_version: int = 10) -> onnx.ModelProto:
    head = f"<ir_version: {ir_version}, opset_import: [{imports}]>"
    return onnx.parser.parse_model(f"{head} graph {graph}")


def examine(model: onnx.ModelProto) -> tuple[str, dict[str, Any]]:
    """Returns the output for people, and the report for programs."""
    onnx.save(model, "model.onnx")
    diagnosis = _doctor.diagnose("model.onnx", VERSION, allow=["message_operators"])
    said = _doctor.render(diagnosis)
    return said, _doctor_report.as_json(diagnosis)


# Without libtorch.


def aten_model(*operators: str) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    given = {
        "domain": "org.pytorch.aten",
        "arguments": "(%0)",
        "encoding": 1,
        "results": "float32[2]",
    }
    nodes = [
        helper.make_node("ATen", ["x"], [f"y{i}"], f"n{i}", operator=one, **given)
        for i, one in enumerate(operators)
    ]
    outputs = [value(node.output[0], FLOAT, [2]) for node in nodes]
    graph = helper.make_graph(nodes, "g", [value("x", FLOAT, [2])], outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("org.pytorch.aten", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def test_every_operator_of_aten_lacks_libtorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGRAFT_LIBTORCH", "/nowhere")
    said, report = examine(aten_model("aten::relu", "aten::exp", "aten::relu"))
    assert report["status"] == "missing"
    assert [one["operator"] for one in report["operators"]] == ["aten::relu", "aten::exp"]
    for one in report["operators"]:
        assert "where there is no libtorch_cpu.so" in one["problem"]
        assert one["remedy"].startswith("install torch 2.10 or newer (pip install torch), or set")
    assert "1 thing is missing" in said.splitlines()[0]
    assert "\naten::relu, aten::exp: OPGRAFT_LIBTORCH is '/nowhere'" in said
    assert "  nodes 'n0', 'n2', 'n1'\n  Fix: install torch" in said
    assert said.count("Fix: ") == 1


def test_an_operator_beside_one_that_fails_is_not_called_ok() -> None:
    """ONNX Runtime stops at the first one, so the state of the others is unknown."""
    (Path.cwd() / "message_operators.py").write_text(
        "class Op:\n    def __init__(self): raise ValueError\n    def compute(self, x): pass\n"
        "class Other(Op): pass\n"
    )
    model = pyop_model("message_operators")
    other = helper.make_node(
        "PyOp", ["x"], ["z"], "other", module="message_operators", class_name="Other",
        output_types=[FLOAT], domain=model.graph.node[0].domain,
    )  # fmt: skip
    model.graph.node.append(other)
    said, _ = examine(model)
    (line,) = [one for one in said.splitlines() if one.startswith("message_operators.Other")]
    assert line.endswith("  found")
    assert "  Fix: correct it in " in said


# Versions that Opgraft does not know.


def test_an_ir_version_that_is_not_known() -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Neg(x) }", ir_version=99)
    said, report = examine(model)
    assert (report["status"], report["versions"][0]["action"]) == ("missing", "refused")
    assert report["versions"][0]["known"] == onnx.IR_VERSION
    assert "does not change the results" not in said
    assert (
        f"IR version 99: refused: the newest version that this Opgraft knows is "
        f"{onnx.IR_VERSION}" in said
    )
    assert "Fix: export the model for an older version of onnx, or install a newer Opgraft" in said
    with pytest.raises(opgraft.ModelError, match="IR version 99"):
        opgraft.InferenceSession(model)


def test_an_opset_that_is_not_known() -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Neg(x) }", '"": 99')
    said, report = examine(model)
    assert (report["status"], report["versions"][1]["action"]) == ("missing", "refused")
    assert "lowered" not in said
    assert "Fix: export the model for opset" in said
    with pytest.raises(opgraft.ModelError, match="does not know whether these operators are"):
        opgraft.InferenceSession(model)


# Inputs that nothing defines.

PYOP = 'py.PyOp <module="message_operators", class_name="Op", output_types=[1]>'
DANGLING = {
    "y = Add(x, nowhere)": "node 'Add_y', operator Add: input 1",
    f"y = {PYOP}(x, nowhere)": "node 'PyOp_y', operator message_operators.Op: input 1",
    "[choice] y = If(c) <then_branch = t () => (float[n] f) { [deep] f = Neg(nowhere) }, "
    "else_branch = o () => (float[n] g) { g = Neg(x) }>": "node 'deep', operator Neg: input 0",
}


def runs(model: str) -> dict[str, Callable[[], str]]:
    """Returns the message of each way of running a model."""

    def session() -> str:
        with pytest.raises(opgraft.ModelError) as caught:
            opgraft.InferenceSession(model, allow=["message_operators"])
        return str(caught.value)

    def program() -> str:
        command = [sys.executable, "-m", "opgraft", "run", "--host", "cpp", model]
        command += ["--allow", "message_operators"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    return {"session": session, "program": program}


@pytest.mark.parametrize("nodes", DANGLING)
def test_an_input_that_nothing_gives(nodes: str) -> None:
    said, report = examine(parse(f"(float[n] x, bool c) => (float[n] y) {{ {nodes} }}"))
    expected = f"{DANGLING[nodes]} is 'nowhere', which nothing defines: "
    assert said.count("nowhere") == 1
    assert expected in said
    assert "ONNXRuntimeError" not in said
    assert "use the name of an existing value, or add an input of the graph or a weight" in said
    assert report["status"] == "bad"
    assert "session: tried, and refused: the reason is below\n" in said
    assert report["trial"]["text"] == "tried, and refused: the reason is under 'error'"
    ways = runs("model.onnx") if "Add" in nodes else {"session": runs("model.onnx")["session"]}
    for way in ways.values():
        assert expected in way()


def test_a_value_that_comes_from_another_graph() -> None:
    nodes = (
        "z = If(c) <then_branch = t () => (float[n] f) { [deep] f = Neg(x) }, "
        "else_branch = o () => (float[n] g) { g = Neg(x) }> [late] y = Add(z, f)"
    )
    said, _ = examine(parse(f"(float[n] x, bool c) => (float[n] y) {{ {nodes} }}"))
    assert (
        "node 'late', operator Add: input 1 is 'f', which node 'deep', operator Neg computes"
        in said
    )


# Weights that are not there.


@pytest.mark.parametrize(
    "nodes",
    ["y = Add(x, w)", pytest.param(f"t = Add(x, w) y = {PYOP}(t)", marks=tells_the_folder)],
)
@pytest.mark.parametrize("size", [None, 4])
def test_weights_that_are_not_there(folder: Path, nodes: str, size: int | None) -> None:
    model = parse(f"(float[3] x) => (float[3] y) {{ {nodes} }}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    onnx.save(
        model, "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    Path("weights.bin").unlink()
    if size is not None:
        Path("weights.bin").write_bytes(bytes(size))
    diagnosis = _doctor.diagnose("model.onnx", VERSION, allow=["message_operators"])
    said = _doctor.render(diagnosis)
    assert diagnosis.status == ("missing" if size is None else "bad")
    assert "ONNXRuntimeError" not in said
    assert said.count(str(folder)) <= 2  # the model's path, and the folder
    what = (
        f"there is no such file in the folder {folder}. Fix: copy 'weights.bin' there"
        if size is None
        else f"but that file in the folder {folder} has only 4 bytes. Fix: copy it again"
    )
    assert "its weight 'w' is stored in 'weights.bin'" in said
    assert said.count(what) == 1
    ways = runs("model.onnx") if size is None else {"session": runs("model.onnx")["session"]}
    for way in ways.values():
        assert "'model.onnx': its weight 'w' is stored in 'weights.bin'" in way()
        assert what in way()


@pytest.mark.skipif(VERSION_PARTS < (1, 26), reason="older runtimes look less")
@pytest.mark.parametrize("location", ["../secret.bin", "/nowhere/secret.bin", "link.bin"])
def test_weights_outside_of_the_folder(folder: Path, location: str) -> None:
    Path("inner").mkdir()
    Path("secret.bin").write_bytes(bytes(12))
    Path("inner/link.bin").symlink_to(folder / "secret.bin")
    model = parse("(float[3] x) => (float[3] y) { y = Add(x, w) }")
    weight = model.graph.initializer.add(name="w", data_type=FLOAT, dims=[3], data_location=1)
    weight.external_data.add(key="location", value=location)
    Path("inner/model.onnx").write_bytes(model.SerializeToString())
    diagnosis = _doctor.diagnose("inner/model.onnx", VERSION)
    assert diagnosis.status == "bad"
    ways = runs("inner/model.onnx")
    for said in (_doctor.render(diagnosis), ways["session"](), ways["program"]()):
        assert f"its weight 'w' is stored in '{location}', outside of the model's folder" in said
        assert "Fix: copy the file into that folder" in said
        assert "xternal data path" not in said


# Operators that must not be allowed.


def test_what_must_not_be_allowed_is_not_missing() -> None:
    said, report = examine(pyop_model("os", "system"))
    headline = said.splitlines()[0]
    assert headline.endswith(": 1 operator is refused. WARNING: it asks for os.system")
    (row,) = [line for line in said.splitlines() if line.startswith("os.system  ")]
    assert row.endswith("  WARNING: refused, see below")
    assert report["operators"][0]["is_doubtful"]


def test_no_state_is_cut() -> None:
    for module in ("os", "numpy", "message_operators", "not_there"):
        said, _ = examine(pyop_model(module, "a_class_of_a_name_that_is_long"))
        assert "..." not in said.partition("\n\n")[2].partition("\n\n")[0]


def test_an_import_that_an_operator_lacks_too_is_told_once() -> None:
    onnx.save(pyop_model("not_there"), "model.onnx")
    given = ["not_there"]
    diagnosis = _doctor.diagnose("model.onnx", VERSION, allow=given, imports=given)
    assert "1 thing is missing" in _doctor.render(diagnosis).splitlines()[0]
    assert diagnosis.problems == []
    assert "there is no module 'not_there'" in (diagnosis.operators[0].problem or "")


def test_what_cannot_be_explained_is_left_as_it_is() -> None:
    text = "Node input 'a' is not a graph input, initializer, or output of a previous node."
    for model in (b"", b"no model at all", pyop_model("any").SerializeToString()):
        assert _pyop.explain(model, "the model", "", text) == ""
    assert _pyop.explain(pyop_model("any").SerializeToString(), "m", "", "something else") == ""


# Messages of other commands with a line to paste.


def test_prepare_gives_no_line_for_what_is_no_operator(capfd: pytest.CaptureFixture[str]) -> None:
    onnx.save(pyop_model("os", "system"), "model.onnx")
    assert _command.main(["prepare", "model.onnx", "prepared.onnx"]) == 0
    said = capfd.readouterr()
    assert "allow" not in said.out
    assert "WARNING: this model asks to run 'os', of Python's standard library" in said.err
    onnx.save(pyop_model("message_operators"), "model.onnx")
    assert _command.main(["prepare", "model.onnx", "prepared.onnx"]) == 0
    said = capfd.readouterr()
    assert "opgraft.register(sess_options, allow=['message_operators'])" in said.out
    assert said.err == ""
