"""Builds and runs C++ programs with OpTester cases for the operators of a pack."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pack_building import KEPT, PACKAGE, find_compiler

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


def _tester(compiler: str) -> list[Path]:
    """Returns OpTester's own objects, cached until their sources change."""
    digest = hashlib.sha256(compiler.encode())
    for file in sorted([*PACKAGE.glob("testing/*"), *PACKAGE.glob("include/opgraft/*.h")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    folder = KEPT / f"testing-{digest.hexdigest()[:16]}"

    def compile_one(source: Path) -> Path:
        made = folder / f"{source.stem}.o"
        options = ["-fvisibility=hidden", "-c", source]
        return made if made.exists() else _compile(compiler, options, made)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_one, sorted(PACKAGE.glob("testing/*.cc"))))


def compile_tests(compiler: str, source: Path) -> Path:
    """Builds a GoogleTest program from a file of tests and OpTester."""
    libraries = ["-lgtest_main", "-lgtest", "-ldl", "-pthread"]
    target = KEPT / f"{source.stem}-{compiler}"
    return _compile(compiler, [source, *_tester(compiler), *libraries], target)


def run_tests(program: Path, pack: Path) -> str:
    """Returns the output; all tests must pass with the operators of the pack."""
    runtime = {"OPGRAFT_TEST_RUNTIME": opgraft.runtime_library(), "OPGRAFT_TEST_PACKS": str(pack)}
    done = subprocess.run(
        [str(program)], env={**os.environ, **runtime}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
