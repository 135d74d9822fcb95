"""Runs the documentation's code: the README, the docstrings; checks the files it refers to."""

from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from opgraft import extensions, testing
from opgraft._base import _library
from opgraft._declare import _declare, _shapes
from opgraft._run import _pool, _prepare, _session

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/**/*.md")]


def test_the_first_example_of_the_readme(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)[0]
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    (expected,) = re.findall(r"# (\[array.*)", code)
    assert done.stdout.strip() == expected, done.stderr


def test_the_guide_to_declaring(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "declaring.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    result = re.compile(r"^(session\.run.*?)  # (\[array.*)$", re.M)
    assert result.search(code)
    (tmp_path / "example.py").write_text(result.sub(r"assert repr(\1) == '\2'", code))
    command = [sys.executable, "example.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_guide_to_extensions(tmp_path: Path) -> None:
    """Both sessions of the page give what it says; with their import, so does the plain one."""
    page = (REPOSITORY / "docs" / "extensions.md").read_text()
    plain, ours, beside = re.findall(r"```python\n(.*?)```", page, re.S)
    assert "from opgraft.extensions import" in plain
    their = plain.replace("opgraft.extensions", "onnxruntime_extensions")
    codes = [plain, plain + ours]
    if importlib.util.find_spec("onnxruntime_extensions"):
        codes += [their, plain + beside]
    for code in codes:
        (tmp_path / "example.py").write_text(code)
        command = [sys.executable, "example.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == re.findall(r"^print.*  # (.*)$", code, re.M), done.stderr


def test_the_guide_to_isolation(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "isolation.md").read_text()
    module, program = re.findall(r"```python\n(.*?)```", guide, re.S)
    (tmp_path / "slow_operators.py").write_text(module)
    program = re.sub(r"^session.run(.*)  # .*", r"print(session.run\1)", program, flags=re.M)
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    expected = re.search(r"^session.run.*  # (.*)$", guide, re.M)
    assert expected is not None
    assert done.stdout == expected[1] + "\n", done.stderr


@pytest.mark.parametrize(
    "module", [_declare, _library, _pool, _prepare, _session, _shapes, extensions, testing]
)
def test_docstrings(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyop_example: Path
) -> None:
    from demo import make_model

    monkeypatch.chdir(tmp_path)
    onnx.save(make_model(), "model.onnx")
    names = {
        "np": np,
        "opgraft": opgraft,
        "onnxruntime": onnxruntime,
        "OpTester": testing.OpTester,
        "sess_options": onnxruntime.SessionOptions(),
        "inputs": {name: np.ones((2, 3), np.float32) for name in "ABCDE"},
    }
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found = 0
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs=names):
        found += len(test.examples)
        runner.run(test)
    assert found > 0
    assert runner.summarize(verbose=False).failed == 0


def test_every_public_function_has_an_example() -> None:
    for name in set(opgraft.__all__) - {"PreparedModel", "PythonOperator"}:
        if not name.endswith("Error"):
            assert ">>> " in (getattr(opgraft, name).__doc__ or ""), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_points_to_is_there(page: Path) -> None:
    text = page.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.S)  # a lambda looks like a link
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:tests|bench|examples|src|include|docs|python)/[\w/.]*)", text):
        assert (REPOSITORY / path).exists(), path
    for function in re.findall(r"`[^`]*::(test_\w+)`", text):
        assert any(
            f"def {function}(" in test.read_text() for test in REPOSITORY.glob("tests/**/*.py")
        ), function


def test_importing_opgraft_imports_neither_onnx_nor_onnxruntime() -> None:
    """A C++ program that runs Python operators already has its own ONNX Runtime."""
    others = {"onnx", "onnxruntime", "torch", "sklearn"}
    command = [sys.executable, "-c", f"import sys, opgraft; print({others} & {{*sys.modules}})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_demo() -> None:
    demo = REPOSITORY / "examples" / "pyop" / "demo.py"
    done = subprocess.run([sys.executable, demo], capture_output=True, text=True, check=False)
    assert "F = [[22.0, 37.0, 56.0], [79.0, 106.0, 137.0]]" in done.stdout, done.stderr
    assert "F float32 (2, 3)\n22 37 56 79 106 137" in done.stdout
