"""Runs the README's commands, and its operator in C++, in order in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from packs import CACHE, REPOSITORY, command, needs_gtest

README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


@needs_gtest
def test_the_commands(tmp_path: Path) -> None:
    """All except the one for a GPU."""
    (script,) = (block for block in blocks("sh") if "opgraft new" in block)
    script = "".join(line for line in script.splitlines(True) if "--gpu" not in line)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "XDG_CACHE_HOME": str(CACHE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("y float32 (2)\n2 4") == 2
    assert (tmp_path / "prepared.onnx").exists()


def test_the_operator_in_cpp(tmp_path: Path) -> None:
    (source,) = (block for block in blocks("cpp") if "OPGRAFT_OP" in block)
    (code,) = (block for block in blocks("python") if "libmedian.so" in block)
    (tmp_path / "median.cc").write_text(source)
    (tmp_path / "example.py").write_text(code)
    done = command("build", "median.cc", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
