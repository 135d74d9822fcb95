"""Names of a model in reports, messages and printed code: they stay within their line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import helper

import opgraft
from conftest import Write, floats, pyop_model

#: Ends the line that it stands in, adds one of its own, and colours what follows.
BREAK = "y\nimport os; os.system('id')\r#\x1b[31m\u2028\u202e"


def model(text: str) -> onnx.ModelProto:
    head = '<ir_version: 10, opset_import: ["": 21, "my": 1]> graph (float[n] x) => (float[n] y) '
    made = onnx.parser.parse_model(head + "{" + text + "}")
    (node,) = made.graph.node
    node.name = node.output[0] = made.graph.output[0].name = BREAK
    node.attribute.append(helper.make_attribute(BREAK, 1))
    return made


@pytest.mark.parametrize(
    "text", ['y = my.PyOp <module = "mymodule", class_name = "A", output_types = [1]> (x)',
             "y = my.Foo (x)"],
)  # fmt: skip
def test_in_code_that_the_doctor_prints(text: str, tmp_path: Path) -> None:
    """A user pastes it: it must be the stub and nothing else."""
    onnx.save(model(text), tmp_path / "model.onnx")
    (tmp_path / "mymodule.py").write_text("")
    command = [sys.executable, "-m", "opgraft", "doctor", "model.onnx", "--allow", "mymodule"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not any(sign in done.stdout for sign in "\r\x1b\u2028\u202e"), done.stdout
    lines = done.stdout.split("\n")
    assert not any(line.strip().startswith("import os") for line in lines), done.stdout
    code = "\n".join(line[4:] for line in lines if line.startswith("    "))
    parsed = ast.parse(code)
    imported = [one.name for node in ast.walk(parsed) if isinstance(node, ast.Import)
                for one in node.names]  # fmt: skip
    assert "numpy" in imported and "os" not in imported


def test_in_messages(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x):\n        raise ValueError(1)\n")
    made = pyop_model(module)
    made.graph.node[0].name = BREAK
    with pytest.raises(opgraft.PolicyError) as refusal:
        opgraft.InferenceSession(made)
    assert "\n" not in str(refusal.value)
    with pytest.raises(opgraft.PyOpError) as failure:
        opgraft.InferenceSession(made, allow=[module]).run(None, {"x": floats(1)})
    assert "\nimport os" not in str(failure.value)
