"""`opgraft doctor`: what it finds in a model, and that its fixes work."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnxruntime
import onnxruntime_extensions
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import FLOAT, pyop_model
from opgraft import _command
from opgraft._doctor import _diagnosis

VERSION = onnxruntime.__version__
Doctor = Callable[..., tuple[int, dict[str, Any]]]

MARK = 'open("imported", "w").close()\n'
CLASS = "class Op:\n    def compute(self, x): return x + x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the modules and the model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("mymodule", "another", "package", "names"):  # from other tests
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def parse(graph: str, imports: str = '"": 21', ir_version: int = 10) -> onnx.ModelProto:
    head = f"<ir_version: {ir_version}, opset_import: [{imports}]>"
    return onnx.parser.parse_model(f"{head} graph {graph}")


@pytest.fixture
def doctor(folder: Path, capfd: pytest.CaptureFixture[str]) -> Doctor:
    """Examines a model; returns the exit status, and the report for programs."""

    def examine(model: onnx.ModelProto | None, *options: str) -> tuple[int, dict[str, Any]]:
        if model is not None:
            onnx.save(model, "model.onnx")
        importlib.invalidate_caches()
        status = _command.main(["doctor", "model.onnx", "--json", *options])
        report = json.loads(capfd.readouterr().out)
        assert report["schema"] == 1
        assert status == {"ok": 0, "missing": 1, "bad": 2}[report["status"]]
        return status, report

    return examine


def only(report: dict[str, Any]) -> dict[str, Any]:
    (operator,) = report["operators"]
    assert isinstance(operator, dict)
    return operator


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def paste(operator: dict[str, Any]) -> None:
    """Applies the report's stub, as a user would."""
    file = Path(operator["stub"]["file"])
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a") as stream:
        stream.write(operator["stub"]["text"])


# Python classes.


def test_all_is_there(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert status == 0
    operator = only(report)
    assert operator["operator"] == "mymodule.Op"
    assert operator["run_by"] == "Python class"
    assert (operator["module"], operator["allowed"]) == ("mymodule", True)
    assert operator["file"].endswith("mymodule.py")
    assert operator["nodes"] == [{"name": "node", "place": ""}]
    assert operator["problem"] is operator["remedy"] is operator["stub"] is None
    assert report["trial"]["done"] and report["trial"]["loaded"]
    assert (report["runtime"], report["error"], report["problems"]) == (VERSION, None, [])


def test_the_table_for_people(folder: Path) -> None:
    write("mymodule.py", CLASS)
    onnx.save(pyop_model("mymodule"), "model.onnx")
    command = [str(Path(sys.executable).with_name("opgraft")), "doctor", "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith(f"model.onnx, for ONNX Runtime {VERSION}: 1 thing is missing\n")
    assert re.search(r"^operator +nodes +run by +module +state$", done.stdout, re.M)
    row = r"^mymodule.Op +1 +Python class +mymodule +its module is not allowed$"
    assert re.search(row, done.stdout, re.M)
    assert 'Fix: --allow mymodule (in a program allow=["mymodule"])' in done.stdout
    assert re.search(r"^opset ai.onnx \d+: lowered to \d+ by preparing", done.stdout, re.M)
    done = subprocess.run(
        [*command, "--allow", "mymodule"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"ONNX Runtime {VERSION}: nothing is missing" in done.stdout
    assert "session: ONNX Runtime opens the model" in done.stdout


@pytest.mark.parametrize("module", ["mymodule", "package.inner.mymodule", "names.inner.mymodule"])
def test_what_is_not_allowed_is_found_but_not_imported(doctor: Doctor, module: str) -> None:
    """Nor are its packages, since importing would run them."""
    if module.startswith("package"):
        write("package/__init__.py", MARK)
        write("package/inner/__init__.py", MARK)
    write(module.replace(".", "/") + ".py", MARK + CLASS)
    status, report = doctor(pyop_model(module), "--allow", "another")
    assert status == 1
    operator = only(report)
    assert operator["allowed"] is False
    assert operator["file"] == str(Path(module.replace(".", "/") + ".py").absolute())
    assert operator["problem"] == "its module is not allowed"
    assert operator["remedy"] == f'--allow {module} (in a program allow=["{module}"])'
    assert not report["trial"]["done"]
    assert not Path("imported").exists()
    assert module not in sys.modules
    assert doctor(None, "--allow", module)[0] == 0
    assert Path("imported").exists()


def test_the_environment_allows_too(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    write("mymodule.py", CLASS)
    monkeypatch.setenv("OPGRAFT_ALLOW", "mymodule")
    assert doctor(pyop_model("mymodule"))[0] == 0


@pytest.mark.parametrize("allow", [[], ["--allow", "package.mymodule"]])
def test_a_module_that_is_not_there(doctor: Doctor, allow: list[str]) -> None:
    model = pyop_model(
        "package.mymodule",
        "Outer.Inner",
        inputs=("a/x:0", "class", ""),
        input_types=None,
        compute="go",
        low=1.5,
    )
    status, report = doctor(model, *allow)
    operator = only(report)
    assert status == 1
    assert (
        "package.mymodule" in operator["problem"] if allow else "nor found" in operator["problem"]
    )
    assert operator["stub"]["file"] == "package/mymodule.py"
    assert "def go(self, x_0, class_, x2=None):" in operator["stub"]["text"]
    assert "low: float" in operator["stub"]["text"]
    paste(operator)
    assert doctor(None, "--allow", "package.mymodule")[0] == 0


def test_a_class_that_is_not_there(doctor: Doctor) -> None:
    write("mymodule.py", "class Another: pass\n\n\n")
    status, report = doctor(pyop_model("mymodule", names=["a"], size=3), "--allow", "mymodule")
    assert status == 1
    assert only(report)["problem"] == "its module has no class 'Op'"
    assert only(report)["stub"]["file"] == str(Path("mymodule.py").absolute())
    Path("mymodule.py").write_text("")
    paste(only(report))
    assert doctor(None, "--allow", "mymodule")[0] == 0


def test_a_method_that_is_not_there(doctor: Doctor) -> None:
    write("mymodule.py", "class Op:\n    pass\n\n")
    status, report = doctor(pyop_model("mymodule", compute="go"), "--allow", "mymodule")
    assert status == 1
    assert only(report)["problem"] == "its class has no method 'go'"
    assert "def go(self, x):" in only(report)["stub"]["text"]
    paste(only(report))
    assert doctor(None, "--allow", "mymodule")[0] == 0


def test_a_method_that_only_the_object_has(doctor: Doctor) -> None:
    """If a session can be made, nothing is missing, whatever it looks like."""
    write("mymodule.py", "class Op:\n    def __init__(self): self.compute = lambda x: x\n")
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert report["trial"]["loaded"] is (status == 0)


def test_an_import_that_raises(doctor: Doctor) -> None:
    write("mymodule.py", "\nimport not_there_at_all\n" + CLASS)
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert status == 1
    problem = only(report)["problem"]
    assert "raised ModuleNotFoundError: No module named 'not_there_at_all'" in problem
    assert problem.endswith("mymodule.py, line 2)")
    assert only(report)["stub"] is None


def test_an_object_that_cannot_be_made(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    status, report = doctor(pyop_model("mymodule", low=1.5), "--allow", "mymodule")
    assert status == 1
    assert "TypeError" in only(report)["problem"]
    assert "low: float" in only(report)["stub"]["text"]
    assert report["trial"] == {
        "done": True, "loaded": False, "text": report["trial"]["text"]
    }  # fmt: skip


def test_a_class_of_a_module_that_is_not_allowed(doctor: Doctor) -> None:
    write("mymodule.py", "from another import Op")
    write("another.py", CLASS)
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert status == 1
    assert "runs the Python module 'another'" in only(report)["problem"]
    assert only(report)["remedy"] == '--allow another (in a program allow=["another"])'
    assert doctor(None, "--allow", "mymodule", "--allow", "another")[0] == 0


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import os; os.abort()", "was ended by SIGABRT while importing 'mymodule'"),
        ("import os; os._exit(3)", "ended with status 3 while importing 'mymodule'"),
    ],
)
def test_a_module_that_ends_the_process(doctor: Doctor, code: str, end: str) -> None:
    write("mymodule.py", f"print('spoils the report')\n{code}\n")
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert status == 1
    assert report["problems"] == [f"the process that tried it {end}"]


def test_a_module_that_exits(doctor: Doctor) -> None:
    write("mymodule.py", "import sys\nsys.exit(3)\n")
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    assert status == 1
    assert "raised SystemExit: 3" in only(report)["problem"]


def test_a_module_that_leaves_a_thread_and_a_process(doctor: Doctor) -> None:
    """The doctor does not wait for them: neither has ended when the report is done."""
    code = """
import subprocess, threading, time

def wait():
    time.sleep(30)
    open("ended", "w").close()

threading.Thread(target=wait).start()
left = subprocess.Popen(["sh", "-c", "sleep 30; touch ended"], close_fds=False)
with open("pid", "w") as file:
    file.write(str(left.pid))
"""
    write("mymodule.py", code + CLASS)
    try:
        assert doctor(pyop_model("mymodule"), "--allow", "mymodule")[0] == 0
        assert not Path("ended").exists()
    finally:
        os.kill(int(Path("pid").read_text()), signal.SIGKILL)


def test_the_main_program_is_no_module(doctor: Doctor) -> None:
    status, report = doctor(pyop_model("__main__"), "--allow", "__main__")
    assert status == 1
    assert "put it into a module of its own" in only(report)["remedy"]


def test_many_nodes_in_many_places(doctor: Doctor) -> None:
    pyop = 'py.PyOp <module="mymodule", class_name="Op", output_types=[1]>'
    model = parse(
        f"""(float[n] x, bool c) => (float[n] y) {{
            a = {pyop}(x) b = {pyop}(a) d = {pyop}(b) e = {pyop}(d)
            [choice] y = If (c) <
                then_branch = t () => (float[n] f) {{ f = {pyop}(e) }},
                else_branch = o () => (float[n] g) {{ g = {pyop}(e) }}> }}""",
    )
    _, report = doctor(model)
    operator = only(report)
    assert operator["count"] == 6
    assert [node["name"] for node in operator["nodes"][:2]] == ["PyOp_a", "PyOp_b"]
    assert operator["nodes"][4] == {"name": "PyOp_f", "place": "then_branch of 'choice'"}
    assert len(operator["nodes"]) == 5


def test_a_prepared_model(doctor: Doctor) -> None:
    model = pyop_model("written_nowhere", inputs=("x", "", "z"), input_types=None, low=1.5)
    prepared = onnx.load_from_string(opgraft.prepare(model).bytes)
    status, report = doctor(prepared)
    assert status == 1
    assert "def compute(self, x, x1=None, z=None):" in only(report)["stub"]["text"]
    assert "low: float" in only(report)["stub"]["text"]


# The model's own functions.


def functions(call: str, body: str) -> onnx.ModelProto:
    imports = '"": 21, "local": 1, "py": 1'
    return onnx.parser.parse_model(
        f"<ir_version: 10, opset_import: [{imports}]> "
        f"graph (float[n] x) => (float[n] y) {{ {call} }}"
        f'<domain: "local", opset_import: [{imports}]> {body}'
    )


def test_a_function_of_the_model(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    pyop = 'py.PyOp <module="mymodule", class_name="Op", output_types=[1]>'
    model = functions("y = local.f(x)", f"f (x) => (y) {{ t = {pyop}(x) y = Neg(t) }}")
    status, report = doctor(model, "--allow", "mymodule")
    assert status == 0
    found = {one["operator"]: one for one in report["operators"]}
    assert found["local::f"]["run_by"] == "function of the model"
    assert found["mymodule.Op"]["nodes"] == [{"name": "PyOp_t", "place": "function local.f"}]


def test_a_function_whose_calls_say_what_is_run(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    model = functions(
        'y = local.f <module="mymodule">(x)',
        "f <module> (x) => (y) "
        '{ y = py.PyOp <module: string = @module, class_name="Op", output_types=[1]>(x) }',
    )
    status, report = doctor(model)
    assert status == 1
    found = {one["operator"]: one for one in report["operators"]}
    assert found.keys() == {"local::f", "mymodule.Op"}
    assert found["mymodule.Op"]["problem"] == "its module is not allowed"
    assert doctor(None, "--allow", "mymodule")[0] == 0


# Operators that nobody runs, and declared ones.


def test_an_operator_that_nobody_runs(doctor: Doctor) -> None:
    model = parse(
        """(float[n] x, int64[k] i) => (float[n] y, int64[k] z, float[n] w) {
        y, z = far.away.TopFew <k = 3, mode = "fast", axes = [1], scale = 0.5>(x, i)
        w = far.away.TopFew <k = 4, mode = "slow", axes = [1], note = "none">(x) }""",
        '"": 21, "far.away": 1',
    )
    status, report = doctor(model)
    operator = only(report)
    assert status == 1
    assert (operator["run_by"], operator["allowed"], operator["count"]) == ("nobody", None, 2)
    assert "register_custom_ops_library" in operator["remedy"]
    assert '--import away_operators (imports=["away_operators"])' in operator["remedy"]
    text = operator["stub"]["text"]
    assert '@opgraft.op("far.away::TopFew")\ndef top_few(' in text
    for line in (
        "x: npt.NDArray[np.float32],",
        "i: npt.NDArray[np.int64] | None = None,",
        "k: int,",
        "mode: str,",
        "axes: list[int],",
        "scale: float | None = None,",
        "note: str | None = None,",
        ") -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:",
    ):
        assert line in text, text
    paste(operator)
    status, report = doctor(None, "--import", "away_operators")
    assert status == 0, report
    assert only(report)["run_by"] == "declared operator"
    assert only(report)["module"] == "away_operators"


@pytest.mark.parametrize(
    ("node", "line"),
    [
        ("y = far.Op()", "def op() -> npt.NDArray[np.float32]:"),
        ("y = far.Op(x, , x)", "x_2: npt.NDArray[np.float32] | None = None"),
        ("y = far.Op<x = 1>(x)", "x_2: npt.NDArray[np.float32], *, x: int"),
        (f"y = far.Op({', '.join(['x'] * 13)})", "def op(*inputs: np.ndarray)"),
        ("t = far.Op(x) y = Neg(t)", "def op(x: npt.NDArray[np.float32]) -> np.ndarray:"),
        ("y = far.Op<t = float[1] {1}>(x)", "t: np.ndarray"),
        ("b = Cast<to = 16>(x) t = far.Op(b) y = Cast<to = 1>(t)", "def op(b: np.ndarray)"),
    ],
)
def test_stubs_of_every_shape(doctor: Doctor, node: str, line: str) -> None:
    model = parse(f"(float[n] x) => (float[n] y) {{ {node} }}", '"": 21, "far": 1')
    status, report = doctor(model)
    assert status == 1
    assert line in only(report)["stub"]["text"], only(report)["stub"]["text"]
    paste(only(report))
    status, report = doctor(None, "--import", "far_operators")
    assert status == 0, report


def test_a_stub_without_outputs(doctor: Doctor) -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Neg(x) }", '"": 21, "far": 1')
    model.graph.node.append(helper.make_node("Op", ["x"], [], domain="far"))
    _, report = doctor(model)
    assert "def op(x: npt.NDArray[np.float32]) -> None:" in only(report)["stub"]["text"]
    paste(only(report))
    assert doctor(None, "--import", "far_operators")[0] == 0


def test_an_attribute_that_cannot_be_declared(doctor: Doctor) -> None:
    graph = helper.make_graph([], "g", [], [])
    model = pyop_model("mymodule")
    node = helper.make_node("Op", ["x"], ["y"], domain="far", body=graph)
    model.graph.node[0].CopyFrom(node)
    _, report = doctor(model)
    text = only(report)["stub"]["text"]
    assert "# its attribute 'body' cannot be declared: it is of ONNX's kind GRAPH" in text


def test_names_in_a_model_are_not_code(doctor: Doctor) -> None:
    """A stub is pasted and run, so names that the model's author chose must not be code."""
    evil = 'f"); open("imported", "w"); ("'
    model = pyop_model("mymodule", f"Op: {evil}", compute=evil, inputs=(evil,))
    model.graph.node.append(helper.make_node("Op", [evil], ["z"], domain=evil))
    model.graph.node.append(helper.make_node(evil, [evil], ["w"], domain="far"))
    far = helper.make_node("Op", [evil], ["v\n\x1b[2J"], domain="far")
    far.attribute.append(helper.make_attribute(evil, 1))
    model.graph.node.append(far)
    _, report = doctor(model)
    stubs = [one["stub"]["text"] for one in report["operators"] if one["stub"]]
    assert len(stubs) == 1
    assert 'open("' not in re.sub(r"#.*", "", stubs[0])
    assert "\x1b" not in json.dumps(report)
    paste(next(one for one in report["operators"] if one["stub"]))
    subprocess.run([sys.executable, "far_operators.py"], check=True)
    assert not Path("imported").exists()


def declared_model(module: str) -> onnx.ModelProto:
    model = parse("(float[n] x) => (float[n] y) { y = far.Twice(x) }", '"": 21, "far": 1')
    entry = model.metadata_props.add()
    entry.key, entry.value = "opgraft.module.far::Twice", module
    return model


DECLARATION = """
import numpy as np
import opgraft

@opgraft.op("far::Twice")
def twice(x: np.ndarray) -> np.ndarray:
    return x + x
"""


def test_a_declared_operator_whose_module_the_model_names(doctor: Doctor) -> None:
    write("mymodule.py", MARK + DECLARATION)
    status, report = doctor(declared_model("mymodule"))
    operator = only(report)
    assert (status, operator["run_by"]) == (1, "declared operator")
    assert operator["problem"] == "its module is not allowed"
    assert not Path("imported").exists()
    status, report = doctor(None, "--allow", "mymodule")
    assert (status, only(report)["problem"]) == (0, None)
    assert doctor(None, "--import", "mymodule")[0] == 0


def test_a_module_that_does_not_declare_it_any_more(doctor: Doctor) -> None:
    write("mymodule.py", "")
    status, report = doctor(declared_model("mymodule"), "--allow", "mymodule")
    assert status == 1
    assert only(report)["problem"] == "its module 'mymodule' does not (or no longer) declare it"
    paste(only(report))
    assert doctor(None, "--allow", "mymodule")[0] == 0


def test_a_prepared_declared_operator(doctor: Doctor) -> None:
    write("mymodule.py", DECLARATION)
    onnx.save(declared_model("mymodule"), "original.onnx")
    code = 'import opgraft; opgraft.prepare("original.onnx", allow=["mymodule"]).save("model.onnx")'
    subprocess.run([sys.executable, "-c", code], check=True)
    status, report = doctor(None)
    assert (status, only(report)["operator"]) == (1, "far::Twice")
    assert only(report)["problem"] == "its module is not allowed"
    assert doctor(None, "--allow", "mymodule")[0] == 0


def test_an_import_that_is_not_there(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule", "--import", "no_such")
    assert status == 1
    assert report["problems"] == ["--import no_such: there is no such module on Python's path"]


def test_operators_of_onnxruntime_extensions(doctor: Doctor) -> None:
    model = parse(
        "(string[n] x) => (string[n] y) { y = ai.onnx.contrib.StringUpper(x) }",
        '"": 21, "ai.onnx.contrib": 1',
    )
    status, report = doctor(model)
    assert (status, only(report)["run_by"]) == (1, "onnxruntime-extensions")
    line = "sess_options.register_custom_ops_library(onnxruntime_extensions.get_library_path())"
    assert only(report)["remedy"].startswith(line)
    library = onnxruntime_extensions.get_library_path()
    status, report = doctor(None, "--library", library)
    assert (status, only(report)["run_by"]) == (0, "a library of --library")
    model.graph.node[0].op_type = "NoSuchThing"
    status, report = doctor(model, "--library", library)
    assert (status, report["trial"]["loaded"]) == (1, False)
    assert only(report)["problem"] is not None


# The runtime's own domains.


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_an_operator_that_the_runtime_does_not_have(doctor: Doctor, domain: str) -> None:
    model = pyop_model("mymodule")
    node = helper.make_node("NoSuchThing", ["x"], ["y"], domain=domain)
    model.graph.node[0].CopyFrom(node)
    model.opset_import.add(domain="com.microsoft", version=1)
    status, report = doctor(model)
    assert status == 1
    assert only(report)["operator"] == f"{domain or 'ai.onnx'}::NoSuchThing"
    assert f"ONNX Runtime {VERSION} has no such operator" in only(report)["problem"]
    paste(only(report))
    status, report = doctor(None, "--import", Path(only(report)["stub"]["file"]).stem)
    assert status == 0, report


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_operators_without_a_kernel(doctor: Doctor, domain: str) -> None:
    """All of them are reported, not only the first, which the runtime would name."""
    node = "y = ImageDecoder(x)" if not domain else "z = com.microsoft.IsAllFinite(x)"
    kinds = (
        "uint8[n] x) => (uint8[a, b, c] y" if not domain else "float[n] x) => (bool z, float[n] y"
    )
    more = "" if not domain else " y = com.microsoft.BiasAdd(x, x, x)"
    model = parse(f"({kinds}) {{ {node}{more} }}", '"": 21, "com.microsoft": 1')
    status, report = doctor(model)
    assert status == 1
    assert len(report["operators"]) == 1 + bool(more)
    for operator in report["operators"]:
        assert "but has no kernel for it" in operator["problem"]
        paste(operator)
    module = Path(report["operators"][0]["stub"]["file"]).stem
    assert doctor(None, "--import", module)[0] == 0


def test_functions_of_onnx_need_no_kernel(doctor: Doctor) -> None:
    model = parse("(float[n] x) => (float[n] y) { t = Mish(x) y = CastLike(t, x) }")
    assert doctor(model) == (0, {**doctor(None)[1], "operators": []})


def test_types_that_an_operator_is_not_implemented_for(doctor: Doctor) -> None:
    """The schema allows uint64, but no kernel does, nor for a wider type; only a trial shows it."""
    model = parse("(uint64[n] x) => (uint64[m] y) { y = ReduceProd(x) }")
    status, report = doctor(model)
    assert (status, report["trial"]["loaded"]) == (1, False)
    assert only(report)["operator"] == "ai.onnx::ReduceProd"
    assert "not for these types" in only(report)["problem"]
    paste(only(report))
    assert doctor(None, "--import", "onnx_operators")[0] == 0


@pytest.mark.skipif(not VERSION.startswith("1.31"), reason="what changed depends on the runtime")
def test_a_newer_model_is_converted(doctor: Doctor) -> None:
    model = parse(
        """(float[3] x) => (float[3] y)
        <float start = {0}, float limit = {3}, float delta = {1}>
        { r = Range <stash_type = 1> (start, limit, delta) y = Add(r, x) }""",
        '"": 28',
        14,
    )
    status, report = doctor(model)
    assert (status, report["operators"]) == (0, [])
    opset = report["versions"][1]
    assert opset["action"] == "converted"
    assert opset["in_the_way"] == ["Range with 'stash_type' (since opset 27)"]


def test_a_newer_model_is_lowered(doctor: Doctor) -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Neg(x) }", '"": 28, "ai.onnx.ml": 5', 14)
    status, report = doctor(model)
    assert status == 0
    ir, opset, ml = report["versions"]
    assert (ir["domain"], ir["model"], ir["action"]) == (None, 14, "lowered")
    assert (opset["domain"], opset["model"], opset["action"]) == ("", 28, "lowered")
    assert opset["limit"] < 28 and opset["in_the_way"] == []
    assert (ml["domain"], ml["action"]) == ("ai.onnx.ml", "kept")


def test_a_newer_model_is_refused(doctor: Doctor) -> None:
    pool = "MaxPool <kernel_shape = [2], ceil_mode = 1> (x)"
    model = parse(f"(float[1, 1, n] x) => (float[1, 1, m] y) {{ y = {pool} }}", '"": 28', 14)
    status, report = doctor(model, "--runtime", "1.19.2")
    assert status == 1
    opset = report["versions"][1]
    changed = ["MaxPool with 'ceil_mode' (since opset 22)"]
    assert (opset["action"], opset["in_the_way"]) == ("refused", changed)
    assert "newer than ONNX Runtime 1.19.2" in only(report)["problem"]
    assert f"export the model for opset {opset['limit']}" in only(report)["remedy"]


def test_another_runtime_than_the_one_installed(doctor: Doctor) -> None:
    write("mymodule.py", CLASS)
    status, report = doctor(pyop_model("mymodule"), "--allow", "mymodule", "--runtime", "1.22.9")
    assert status == 0
    assert [one["limit"] for one in report["versions"]] == [10, 22]
    assert report["trial"] == {
        "done": False,
        "loaded": None,
        "text": "not tried: this ONNX Runtime is not the installed one",
    }


def test_types_that_a_runtime_is_too_old_for(doctor: Doctor) -> None:
    """The model is not bad: another runtime supports it."""
    write("mymodule.py", CLASS)
    model = pyop_model("mymodule", type=TensorProto.INT4)
    status, report = doctor(model, "--allow", "mymodule", "--runtime", "1.19.9")
    assert status == 1
    assert "int4 and uint4 need 1.21" in report["problems"][0]


# Bad models.


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x0a", None])
def test_what_is_no_model(
    folder: Path, capfd: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        Path("model.onnx").write_bytes(content)
    assert _command.main(["doctor", "model.onnx"]) == 2
    printed = capfd.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("opgraft: ModelError: ")
    assert _command.main(["doctor", "model.onnx", "--json"]) == 2
    report = json.loads(capfd.readouterr().out)
    assert (report["status"], report["operators"]) == ("bad", [])
    assert report["error"] and report["error"] in printed.err


def test_models_cut_short(doctor: Doctor, capfd: pytest.CaptureFixture[str]) -> None:
    whole = pyop_model("mymodule").SerializeToString()
    for length in (10, len(whole) // 2, len(whole) - 3):
        Path("model.onnx").write_bytes(whole[:length])
        assert doctor(None, "--allow", "mymodule")[0] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda node: node.attribute.append(helper.make_attribute("module", 3)),
            "expected a string",
        ),
        (lambda node: node.output.append("z"), "output"),
    ],
)
def test_a_node_that_cannot_be(
    doctor: Doctor, change: Callable[[onnx.NodeProto], None], message: str
) -> None:
    write("mymodule.py", CLASS)
    model = pyop_model("mymodule")
    change(model.graph.node[0])
    status, report = doctor(model, "--allow", "mymodule")
    assert status == 2
    assert message in report["error"]


def test_a_model_that_the_runtime_refuses(doctor: Doctor) -> None:
    model = parse("(float[n] x, int64[n] i) => (float[n] y) { y = Add(x, i) }")
    status, report = doctor(model)
    assert status == 2
    assert "Type" in report["error"]


@pytest.mark.parametrize(
    "options", [["--allow", "a b"], ["--runtime", "old"], ["--runtime", "1.18.0"], ["--no-such"]]
)
def test_wrong_use(folder: Path, capfd: pytest.CaptureFixture[str], options: list[str]) -> None:
    onnx.save(pyop_model("mymodule"), "model.onnx")
    try:
        status = _command.main(["doctor", "model.onnx", *options])
    except SystemExit as error:
        status = int(error.code or 0)
    assert status == 2
    assert "Traceback" not in capfd.readouterr().err


# Around it.


def test_without_the_package_onnx(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    write("without/onnx/__init__.py", "raise ImportError('there is no onnx here')")
    write("mymodule.py", CLASS)
    onnx.save(pyop_model("mymodule"), "model.onnx")
    environment = dict(os.environ, PYTHONPATH=f"without{os.pathsep}{os.environ.get('PYTHONPATH')}")
    command = [sys.executable, "-m", "opgraft", "doctor", "model.onnx", "--json"]
    for options, expected in (([], 1), (["--allow", "mymodule"], 0)):
        done = subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == expected, done.stdout + done.stderr


def test_the_runtimes_own_format(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "model.ort"
    model = parse("(float[n] x) => (float[n] y) { y = Neg(x) }")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    assert Path("model.ort").read_bytes()[4:8] == b"ORTM"
    assert _command.main(["doctor", "model.ort", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["versions"], report["operators"]) == ([], [])
    assert report["trial"]["loaded"]


def test_a_plain_model(doctor: Doctor) -> None:
    status, report = doctor(parse("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    assert (status, report["operators"], report["trial"]["loaded"]) == (0, [], True)


def test_nothing_is_run(doctor: Doctor) -> None:
    """An optimiser might compute a PyOp of constants while the session is made."""
    write("mymodule.py", f"class Op:\n    def compute(self, x):\n        {MARK}        return x\n")
    model = pyop_model("mymodule", inputs=("weight",))
    del model.graph.input[:]
    model.graph.initializer.append(helper.make_tensor("weight", FLOAT, [1], [1.0]))
    assert doctor(model, "--allow", "mymodule")[0] == 0
    assert not Path("imported").exists()


def test_the_list_of_functions_is_that_of_onnx() -> None:
    from onnx import defs

    functions = {
        schema.name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and (schema.has_function or schema.has_context_dependent_function)
    }
    assert functions - _diagnosis._FUNCTIONS <= {"DepthToSpace", "SpaceToDepth"}


def test_the_schema_is_that_of_the_page(doctor: Doctor) -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    write("mymodule.py", "")
    _, report = doctor(pyop_model("mymodule"), "--allow", "mymodule")
    parts = [report, only(report), only(report)["stub"], report["versions"][0], report["trial"]]
    for part in parts:
        for field in part:
            assert f"`{field}`" in page, field
