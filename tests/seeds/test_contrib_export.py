"""The Python of document 003 as it stands there: an operator is registered, exported and run."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from conftest import SEEDS

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"the documents are not here: {SEEDS.parent.name}/{SEEDS.name}"
)

ADDED = "import opgraft.torch.compat\n"

# The document is of a time when this was the only exporter.
TORCH_SCRIPT = """
import functools, torch
torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
"""

# After the document's own: its model is kept, and so is that of its last line.
KEEP = """
import opgraft, pathlib
def keep(name):
    pathlib.Path(name).write_bytes(f.getvalue())
    session = opgraft.InferenceSession(f.getvalue())
    (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    numpy.testing.assert_allclose(pt_outputs.numpy(), output, rtol=1e-03, atol=1e-05)
keep("EXPORTER_1.onnx")
f = io.BytesIO()
HIGHER
keep("EXPORTER_5.onnx")
"""


def document() -> tuple[str, str, str]:
    """What registers, the end-to-end script, and the export to a higher version."""
    (path,) = SEEDS.glob("003_*.txt")
    text = path.read_text()
    registration, script = re.findall(r"```python\n(.*?)```", text, re.S)
    (higher,) = re.findall(r"```\n(torch\.onnx\.export\(.*?\)) *\n```", text, re.S)
    return registration, script, higher


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    # Its matrix is a random one, and one in some thousands is too close to a singular one.
    code = "import torch\ntorch.manual_seed(0)\n" + code
    (folder / "script.py").write_text(code)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_document(order: str, tmp_path: Path) -> None:
    """By both exporters; the added line stands before or after the registration."""
    registration, script, higher = document()
    assert "torch.inverse(x) + x" in script
    assert "assert_allclose" in script
    code = ADDED + registration if order == "before" else registration + ADDED
    keep = script + KEEP.replace("HIGHER", higher)
    code += keep.replace("EXPORTER", "new") + TORCH_SCRIPT + keep.replace("EXPORTER", "old")
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    for exporter, version in itertools.product(("new", "old"), (1, 5)):
        model = onnx.load(tmp_path / f"{exporter}_{version}.onnx")
        nodes = [f"{node.domain}::{node.op_type}" for node in model.graph.node]
        assert nodes == ["com.microsoft::Inverse", "::Add"]
        versions = {entry.domain: entry.version for entry in model.opset_import}
        assert versions["com.microsoft"] == version
        # Only one of the exporters tells where a node comes from.
        assert bool(model.graph.node[0].metadata_props) == (exporter == "new")


@pytest.mark.parametrize("exporter", ["new", "old"])
def test_it_does_not_run_without_the_added_line(exporter: str, tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    registration, script, _ = document()
    begin = registration + (TORCH_SCRIPT if exporter == "old" else "")
    done = run(tmp_path, begin + script)
    assert done.returncode != 0
    assert "inv" in done.stderr
