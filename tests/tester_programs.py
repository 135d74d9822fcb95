"""Builds and runs programs of OpTester's cases in C++, with the operators of a pack."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import opgraft
from pack_building import KEPT, PACKAGE, find_compiler


def compile_tests(compiler: str, source: Path) -> Path:
    """A program of GoogleTest, of a file of tests and OpTester."""
    target = KEPT / f"{source.stem}-{compiler}"
    sources = [str(source), *map(str, sorted(PACKAGE.glob("testing/*.cc")))]
    command = [find_compiler(compiler), "-std=c++20", f"-I{PACKAGE / 'include'}", *sources]
    libraries = ["-lgtest_main", "-lgtest", "-ldl", "-pthread"]
    done = subprocess.run(
        [*command, "-o", str(target), *libraries], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


def run_tests(program: Path, pack: Path) -> str:
    runtime = {"OPGRAFT_TEST_RUNTIME": opgraft.runtime_library(), "OPGRAFT_TEST_PACKS": str(pack)}
    done = subprocess.run(
        [str(program)], env={**os.environ, **runtime}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
