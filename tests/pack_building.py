"""Builds packs for the tests, as an author does: one call of a compiler, nothing but our package.

What is built once is kept under build/packs, by all that went into it, so that every ONNX Runtime
of `make test-matrix` gets one and the same file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import opgraft

REPOSITORY = Path(__file__).resolve().parents[1]
PACKS = REPOSITORY / "tests" / "packs"
PACKAGE = Path(opgraft.__file__).parent
KEPT = REPOSITORY / "build" / "packs"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-restrict", "-Wno-unknown-warning-option"]
COMPILE = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
INCLUDE = [f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'adapter'}"]
LINK = [
    "-shared",
    "-Wl,--no-undefined",
    f"-Wl,--version-script={PACKAGE / 'adapter' / 'pack' / 'exports.map'}",
]
# tests/sanitize.py sets it, so that packs are watched as the library is.
MORE = os.environ.get("OPGRAFT_TEST_PACK_FLAGS", "").split()
# A sanitizer that is loaded before all else is not for the compiler.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """One process at a time makes a file that is kept: tests run side by side, and a library that
    somebody has loaded must not be replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_compiler(name: str) -> str:
    """Its path; a test without one is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


def compile_only(compiler: str, source: Path) -> subprocess.CompletedProcess[str]:
    """Tries to compile a file, and returns what the compiler said."""
    command = [find_compiler(compiler), "-std=c++20", "-fsyntax-only", *WARNINGS, *INCLUDE]
    return subprocess.run(
        [*command, str(source)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


def build_pack(
    sources: Sequence[Path], compiler: str = "g++", include: Sequence[Path] = ()
) -> Path:
    """The library of these sources and of the adapter, built unless it is there already.

    The sources find headers in the folders `include`, too.
    """
    more = MORE if compiler == "g++" else []  # one sanitizer in a process
    command = [find_compiler(compiler), *COMPILE, *WARNINGS, *more]
    adapter = sorted(PACKAGE.glob("adapter/*/*.cc"))
    headers = sorted([*PACKAGE.glob("adapter/*/*.h"), *PACKAGE.glob("include/**/*.h")])
    beside = sorted(path for folder in {*include, sources[0].parent} for path in folder.glob("*.h"))
    folders = [f"-I{folder}" for folder in include]
    library = _kept([*sources, *adapter, *headers, *beside], command, "so")

    def compile_one(source: Path) -> Path:
        own = source in sources
        made = _kept([source, *headers, *(beside if own else ())], command, "o")
        if not made.exists():
            _run([*command, *(folders if own else ()), *INCLUDE, "-c", str(source)], made)
        return made

    with alone(library):
        if not library.exists():
            with ThreadPoolExecutor(2) as pool:
                objects = list(pool.map(compile_one, [*sources, *adapter]))
            _run([command[0], *more, *LINK, *map(str, objects)], library)
    return library


def _kept(files: Sequence[Path], command: Sequence[str], ending: str) -> Path:
    """Where what is made of these files is kept."""
    digest = hashlib.sha256(repr(command).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return KEPT / f"{files[0].stem}-{digest.hexdigest()[:16]}.{ending}"


_refused: dict[Path, str] = {}  # what did not compile, so that it is tried once


def _run(command: Sequence[str], output: Path) -> None:
    assert output not in _refused, _refused[output]
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [*command, "-o", str(unfinished)],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    if done.returncode != 0:
        _refused[output] = done.stderr
    assert done.returncode == 0, done.stderr
    unfinished.replace(output)
