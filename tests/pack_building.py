"""Builds packs for the tests as an author does: by calling a compiler, with only our package.

Results are cached under build/packs, by a hash of all their inputs, so that every ONNX Runtime of
`make test-matrix` gets the same file.
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
INCLUDE = [f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'adapter'}", f"-I{PACKAGE}"]
LINK = [
    "-shared",
    "-Wl,--no-undefined",
    f"-Wl,--version-script={PACKAGE / 'adapter' / 'pack' / 'exports.map'}",
]
# tests/sanitize.py sets it, so that packs are sanitized like the library.
MORE = os.environ.get("OPGRAFT_TEST_PACK_FLAGS", "").split()
# A preloaded sanitizer must not be loaded into the compiler.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Lets only one process at a time make a cached file: tests run in parallel, and a library that
    another process has loaded must not be replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_compiler(name: str) -> str:
    """Returns its path; skips the test if there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


def compile_only(compiler: str, source: Path) -> subprocess.CompletedProcess[str]:
    """Tries to compile a file, and returns the compiler's output."""
    command = [find_compiler(compiler), "-std=c++20", "-fsyntax-only", *WARNINGS, *INCLUDE]
    return subprocess.run(
        [*command, str(source)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


def build_pack(
    sources: Sequence[Path], compiler: str = "g++", include: Sequence[Path] = ()
) -> Path:
    """Returns the library of these sources and the adapter; builds it if it is not cached.

    The sources also find headers in the folders `include`.
    """
    command = _command(compiler)
    ours = adapter_of(sources)
    adapter = [path for folder in ours for path in sorted(folder.glob("*.cc"))]
    headers = sorted(PACKAGE.glob("**/*.h"))
    beside = sorted(path for folder in {*include, sources[0].parent} for path in folder.glob("*.h"))
    folders = [f"-I{folder}" for folder in include]
    library = _kept([*sources, *adapter, *headers, *beside], command, "so")

    def compile_one(source: Path) -> Path:
        made = _kept([source, *headers, *beside], command, "o")
        if not made.exists():
            _run([*command, *folders, *INCLUDE, "-c", str(source)], made)
        return made

    with alone(library):
        if not library.exists():
            with ThreadPoolExecutor(2) as pool:
                objects = [
                    *pool.map(compile_one, sources),
                    *pool.map(lambda folder: compile_folder(folder, compiler), ours),
                ]
            _run([*command, *LINK, *map(str, objects)], library)
    return library


def adapter_of(sources: Sequence[Path]) -> list[Path]:
    """Returns the folders of the package whose sources are needed for a pack of these sources."""
    asks = any("opgraft/contrib" in source.read_text() for source in sources)
    return [*sorted(PACKAGE.glob("adapter/*")), *([PACKAGE / "contrib"] if asks else [])]


def compile_folder(folder: Path, compiler: str = "g++", *, is_sanitized: bool = True) -> Path:
    """Returns one object of all sources in a folder of the package; compiles it if not cached. In
    `make test-asan`, the object is sanitized like a pack, unless `is_sanitized` is False."""
    command = _command(compiler, is_sanitized=is_sanitized)
    sources = sorted(folder.glob("*.cc"))
    assert sources, folder
    made = _kept([*sources, *sorted(PACKAGE.glob("**/*.h"))], command, "o")
    with alone(made):
        if not made.exists():
            together = made.with_suffix(".cc")
            together.write_text("".join(f'#include "{source}"\n' for source in sources))
            _run([*command, *INCLUDE, "-c", str(together)], made)
    return made


def _command(compiler: str, *, is_sanitized: bool = True) -> list[str]:
    # A process can have one sanitizer only.
    more = MORE if compiler == "g++" and is_sanitized else []
    return [find_compiler(compiler), *COMPILE, *WARNINGS, *more]


def _kept(files: Sequence[Path], command: Sequence[str], ending: str) -> Path:
    """Returns the path in the cache for what is made from these files."""
    digest = hashlib.sha256(repr(command).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return KEPT / f"{files[0].stem}-{digest.hexdigest()[:16]}.{ending}"


_refused: dict[Path, str] = {}  # the errors of failed compilations, which are tried only once


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
