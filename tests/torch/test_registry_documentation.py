"""The code about the registry and symbolic functions in docs/torch.md and in docstrings, run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from packs import REPOSITORY

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

SECTIONS = ("The registry tutorial, as it stands", "register_custom_op_symbolic")

DOCSTRINGS = """
import doctest, importlib, sys
import torch
import opgraft.torch
x, y = torch.randn(3), torch.randn(3)
program = opgraft.torch.dynamo_export(lambda a, b: a["a"] + b[0], {"a": x}, (y, None))
model, args = torch.nn.ReLU(), (x,)
names = dict(globals())
legacy = "_dynamo_export _legacy_program _registry _symbolic".split()
for name in [*("_legacy." + name for name in legacy), "symbolics", "compat"]:
    module = importlib.import_module("opgraft.torch." + name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=False)
    own = [one for one in vars(module).values() if callable(one)]
    homes = ("opgraft.torch", module.__name__)
    own = [one for one in own if getattr(one, "__module__", "") in homes]
    methods = [method for one in own for method in vars(one).values() if callable(method)]
    found = 0
    for one in [module, *own, *methods]:
        for test in finder.find(one, name, module=False, globs=dict(names)):
            found += len(test.examples)
            runner.run(test)
    assert found > 0, name
    assert runner.summarize(verbose=False).failed == 0
"""


def run(code: str, folder: Path) -> None:
    (folder / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guide(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "torch.md").read_text()
    sections = re.split(r"^## (.*)\n", page, flags=re.M)
    code = ""
    for title in SECTIONS:
        text = sections[sections.index(title) + 1]
        code += "".join(re.findall(r"```python\n(.*?)```", text, re.S))
    run(code, tmp_path)
    for name, version in (("gelu", 1), ("inverse", 5)):
        model = onnx.load(tmp_path / f"{name}.onnx")
        assert model.graph.node[0].op_type.lower() == name
        versions = {entry.domain: entry.version for entry in model.opset_import}
        assert versions["com.microsoft"] == version


def test_docstrings(tmp_path: Path) -> None:
    run(DOCSTRINGS, tmp_path)


def test_the_command_that_runs_the_symbolics_tests() -> None:
    """It is the same wherever it is stated, and there is such a file."""
    from opgraft.torch import symbolics

    command = "python -m pytest -v tests/torch/test_symbolics.py"
    assert command in (symbolics.__doc__ or "")
    assert command in (REPOSITORY / "docs" / "torch.md").read_text()
    assert (REPOSITORY / command.split()[-1]).is_file()
