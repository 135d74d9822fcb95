"""The tutorial of document 002 as it stands there, with one line added, and the library's path."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import onnx
import pytest

from conftest import SEEDS
from packs import EXAMPLE, command

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"the documents are not here: {SEEDS.parent.name}/{SEEDS.name}"
)

ADDED = "import opgraft.torch.compat\n"


def tutorial() -> str:
    """All its Python, in order; what is left open there is the path of the library alone."""
    (path,) = SEEDS.glob("002_*.txt")
    blocks = re.findall(
        r"^\.\. code-block:: (?:default|python)\n\n(.*?)(?=^\S|\Z)", path.read_text(), re.S | re.M
    )
    return "\n".join(textwrap.dedent(block) for block in blocks)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    done = command("build", EXAMPLE / "custom_op_library.cc", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "libcustom_op_library.so"


@pytest.fixture(scope="module")
def folder(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tutorial was run, as a file: onnxscript reads the source of functions."""
    made = tmp_path_factory.mktemp("tutorial")
    code = tutorial()
    # What its models must be is asserted by the tutorial itself: that all of it is here, by this.
    assert code.count("\nassert ") == 8
    assert code.count("    torch.testing.assert_close(") == 2
    assert code.count("/path/to/libcustom_op_library.so") == 1
    code = ADDED + code.replace("/path/to/libcustom_op_library.so", str(library))
    (made / "tutorial.py").write_text(code + '\nprint("to the end")\n')
    done = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=made, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made / "said.txt").write_text(done.stdout)
    return made


def test_it_runs_to_its_end(folder: Path) -> None:
    first, *_, last = (folder / "said.txt").read_text().splitlines()
    assert re.fullmatch(r"aten::gelu.default is supported by ONNX registry: +True", first)
    assert last == "to the end"


def test_it_does_not_run_without_the_added_line(tmp_path: Path) -> None:
    """Or the tests above would show nothing."""
    (tmp_path / "tutorial.py").write_text(tutorial())
    done = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "has no attribute 'OnnxRegistry'" in done.stderr


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("custom_gelu_model", ["com.microsoft::Gelu"]),
        (
            "custom_addandround_model",
            ["test.customop::CustomOpOne", "test.customop::CustomOpTwo", "::Cast"],
        ),
    ],
)
def test_what_it_saves(folder: Path, name: str, nodes: list[str]) -> None:
    model = onnx.load(folder / f"{name}.onnx")
    assert [f"{node.domain}::{node.op_type}" for node in model.graph.node] == nodes
    versions = {entry.domain: entry.version for entry in model.opset_import}
    assert versions[""] == 18
    assert versions[model.graph.node[0].domain] == 1
