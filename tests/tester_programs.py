"""Builds and runs C++ programs with OpTester cases for the operators of a pack."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pack_building import KEPT, PACKAGE, compile_folder, find_compiler

import opgraft

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-warning-option"]


def _compile(compiler: str, arguments: Sequence[str | Path], target: Path) -> Path:
    command = [find_compiler(compiler), "-std=c++20", *WARNINGS, f"-I{PACKAGE / 'include'}"]
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [*command, *map(str, arguments), "-o", str(unfinished)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return unfinished.replace(target)


def compile_tests(compiler: str, source: Path) -> Path:
    """Builds a GoogleTest program from a file of tests and OpTester."""
    tester = compile_folder(PACKAGE / "testing", compiler, is_sanitized=False)
    libraries = ["-lgtest_main", "-lgtest", "-ldl", "-pthread"]
    target = KEPT / f"{source.stem}-{compiler}"
    return _compile(compiler, [source, tester, *libraries], target)


def run_tests(program: Path, pack: Path) -> str:
    """Returns the output; all tests must pass with the operators of the pack."""
    runtime = {"OPGRAFT_TEST_RUNTIME": opgraft.runtime_library(), "OPGRAFT_TEST_PACKS": str(pack)}
    done = subprocess.run(
        [str(program)], env={**os.environ, **runtime}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
