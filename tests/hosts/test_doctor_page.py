"""The page of `opgraft doctor --html`, in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from browser import WIDTHS, chromium, click, opened, wait_until

MODEL = """<ir_version: 10, opset_import: ["": 21, "local": 1, "my": 1, "far": 1]>
    graph (float[n] x, bool c) => (float[n] z, float[n] q) {
      [first] a = Relu (x)
      [call] b = local.twice (a)
      [choice] z = If (c) <
        then_branch = yes () => (float[n] t) { [inner] t = Neg (b) },
        else_branch = no () => (float[n] u) { [other] u = Abs (b) }>
      [python] p = my.PyOp <module = "mymodule", class_name = "Op", output_types = [1]> (z)
      [last] q = far.Mystery <k = 3> (p)
    }
    <domain: "local", opset_import: ["": 21]>
    twice (v) => (w) { [body] s = Add (v, v)  w = Exp (s) }
"""
CLASS = "class Op:\n    def compute(self, x):\n        return x + 1\n"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mymodule.py").write_text(CLASS)
    return tmp_path


def doctor(*options: str, status: int = 0) -> str:
    command = [str(Path(sys.executable).with_name("opgraft")), "doctor", "model.onnx"]
    done = subprocess.run(
        [*command, "--html", "report.html", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text().partition('<script type="application/json" id="data">')[2]
    found = json.loads(text.partition("</script>")[0])
    assert isinstance(found, dict)
    return found


def test_who_runs_what(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    doctor("--allow", "mymodule", status=1)
    data = data_of(folder / "report.html")
    kinds = {
        node["name"]: data["kinds"][node["kind"]][0]
        for graph in data["graphs"]
        for node in graph["nodes"]
        if node["name"]
    }
    assert kinds == {
        "first": "runtime", "call": "function", "choice": "runtime", "inner": "runtime",
        "other": "runtime", "python": "python", "last": "missing", "body": "runtime",
    }  # fmt: skip
    types = dict(data["graphs"][0]["types"])
    assert types["a"] == types["x"] == "float32[n]"  # a's is inferred
    assert data["findings"][data["graphs"][0]["nodes"][-1]["finding"]]["stub"]["text"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opened_folded_and_clicked(folder: Path, browser: Any, width: int, scheme: str) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    doctor("--allow", "mymodule", status=1)
    with opened(browser, folder / "report.html", width, scheme) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        chips = page.locator("#legend button").all_inner_texts()
        counts = dict(
            one.replace("\n", "").rsplit(" ", 1) if " " in one else (one, "") for one in chips
        )
        assert len(counts) == 4, chips
        click(page, "last")
        panel = page.locator("#panel")
        assert panel.locator(".what").inner_text().startswith("Mystery")
        assert "the operator is not defined" in panel.inner_text()
        assert "@opgraft.op" in panel.inner_text()  # the stub
        assert "k" in panel.locator("table").last.inner_text()
        assert page.evaluate("opgraft.where('inner')") is None
        click(page, "choice", at_fold=True)
        assert page.evaluate("opgraft.where('inner')") is not None
        click(page, "inner")
        assert panel.locator(".what").inner_text().startswith("Neg")
        assert "float32[n]" in panel.inner_text()  # of a value around the body
        click(page, "choice")
        page.get_by_role("button", name="Fold", exact=True).click()
        assert page.evaluate("opgraft.where('inner')") is None
        page.fill("#query", "body")
        page.locator("#results button").first.click()
        assert page.evaluate("opgraft.where('body')") is not None
        assert panel.locator(".what").inner_text().startswith("Add")


def test_times_of_real_runs(folder: Path, browser: Any) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]>
        graph (float[2, n] x) => (float[2, 2] z) {
          t = Transpose (x)
          [product] y = MatMul (x, t)
          [python] z = my.PyOp <module = "mymodule", class_name = "Op", output_types = [1]> (y)
        }"""
    )
    onnx.save(model, "model.onnx")
    np.save("x.npy", np.ones((2, 50), np.float32))
    doctor("--allow", "mymodule", "--profile", "--input", "x=x.npy")
    times = data_of(folder / "report.html")["times"]
    assert times["inputs"] == ["x: float[2, 50], from x.npy"]
    placed = {one[1]: one[5] for one in times["drawn"]["kernels"]}
    assert placed == {"Transpose": [0, 0], "MatMul": [0, 1], "PyOp": [0, 2]}
    total = sum(one[3] for one in times["drawn"]["kernels"])
    assert 0 < total <= times["drawn"]["microseconds"]
    doctor("--allow", "mymodule", "--profile")
    assert data_of(folder / "report.html")["times"]["inputs"] == ["x: float[2, 1], made up"]
    with opened(browser, folder / "report.html", 1280) as page:
        page.get_by_role("tab", name="Time").click()
        page.get_by_role("button", name="MatMul · product").first.click()
        assert page.locator("#panel .what").inner_text().startswith("MatMul")
        page.select_option("#mode", "time")


def test_a_model_that_fails_is_drawn_without_times(folder: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]> graph (float[n] x) => (float[n] z) {
          z = my.PyOp <module = "mymodule", class_name = "Op", output_types = [1]> (x) }"""
    )
    onnx.save(model, "model.onnx")
    (folder / "mymodule.py").write_text(CLASS.replace("return x + 1", "import os; os.abort()"))
    told = doctor("--allow", "mymodule", "--profile", status=1)
    assert "was ended by SIGABRT" in told
    data = data_of(folder / "report.html")
    assert "times" not in data
    assert data["graphs"][0]["nodes"]
    assert any("SIGABRT" in one for _, texts in data["lines"] for one in texts)


PYTHON_NODE = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    graph (float[n] x) => (float[n] z) {
      z = my.PyOp <module = "mymodule", class_name = "Op", output_types = [1]> (x) }"""


def test_a_profile_runs_nothing_that_is_not_allowed(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(PYTHON_NODE), "model.onnx")
    (folder / "mymodule.py").write_text("open('ran', 'w')\n" + CLASS)
    told = doctor("--profile", status=1)
    assert "the model cannot be run" in told and not (folder / "ran").exists()
    assert "times" not in data_of(folder / "report.html")
    doctor("--profile", "--allow", "mymodule")
    assert (folder / "ran").exists()


def test_a_profile_is_of_the_installed_runtime(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(PYTHON_NODE), "model.onnx")
    told = doctor("--profile", "--allow", "mymodule", "--runtime", "1.19.0", status=1)
    assert "ONNX Runtime 1.19.0 is not the installed one" in told
    assert "times" not in data_of(folder / "report.html")


@pytest.mark.parametrize("target", ["model.onnx", "link.onnx", "x.npy"])
def test_the_page_does_not_replace_what_is_read(folder: Path, target: str) -> None:
    onnx.save(onnx.parser.parse_model(PYTHON_NODE), "model.onnx")
    (folder / "link.onnx").symlink_to("model.onnx")
    np.save("x.npy", np.ones(2, np.float32))
    before = (folder / target).read_bytes()
    told = doctor("--html", target, "--profile", "--input", "x=x.npy", status=1)
    assert f"--html {target}: this would overwrite" in told
    assert (folder / target).read_bytes() == before


def test_five_thousand_nodes_stay_usable(folder: Path, browser: Any) -> None:
    nodes = []
    for i in range(2500):  # blocks with a branch around each node
        left, right = f"v{max(i - 1, 0)}", f"v{max(i - 20, 0)}"
        nodes.append(onnx.helper.make_node("Add", [left, right], [f"t{i}"], name=f"add_{i}"))
        nodes.append(
            onnx.helper.make_node("Relu", [f"t{i}"], [f"v{i}" if i else "v_0"], name=f"relu_{i}")
        )
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "large", [value("v0", 1, [4])], [value("v2499", 1, [4])])
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)]
        ),
        "model.onnx",
    )
    doctor()
    size = (folder / "report.html").stat().st_size
    begin = time.monotonic()
    with opened(browser, folder / "report.html", 1280) as page:
        wait_until(page, "Boolean(document.getElementById('canvas').dataset.drawn)")
        took = time.monotonic() - begin
        print(f"{size / 1e6:.2f} MB, opened in {took:.2f} s")
        assert len(page.evaluate("opgraft.ids()")) == 5002
        assert int(page.locator("#canvas").get_attribute("data-drawn")) < 200  # only what is shown
        page.fill("#query", "relu_2222")
        page.locator("#results button").first.click()
        assert "relu_2222" in page.locator("#panel").inner_text()
        page.click("#fit")
        wait_until(page, "document.getElementById('canvas').dataset.drawn >= 5000")


def test_options_that_do_not_fit(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    command = [str(Path(sys.executable).with_name("opgraft")), "doctor", "model.onnx", "--profile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "--profile needs --html FILE" in done.stderr) == (1, True)
