"""A pack for another processor, by a cross compiler. `make test-aarch64` tries the rest of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from packs import EXAMPLE, REPOSITORY, command

EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
LIBRARIES = Path("/usr/aarch64-linux-gnu")  # of the cross compiler

PROGRAM = """
#include <dlfcn.h>
#include <cstdio>
int main(int, char** arguments) {
  void* pack = dlopen(arguments[1], RTLD_NOW);
  if (pack == nullptr) return std::puts(dlerror()), 1;
  for (const char* name : {"RegisterCustomOps", "opgraft_pack"})
    if (dlsym(pack, name) == nullptr) return std::printf("no %s\\n", name), 1;
  std::puts("it loads");
}
"""


def compiler() -> str:
    found = shutil.which("aarch64-linux-gnu-g++")
    if found is None:
        pytest.skip("there is no compiler for aarch64: apt-get install g++-aarch64-linux-gnu")
    return found


def test_a_pack_for_aarch64(tmp_path: Path) -> None:
    chosen = ["--compiler", compiler()]
    done = command("build", EXAMPLE / "custom_op_library.cc", *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pack = tmp_path / "libcustom_op_library.so"
    assert int.from_bytes(pack.read_bytes()[18:20], "little") == 183  # the number of aarch64 in ELF
    if EMULATOR is None:
        pytest.skip(
            "it is built, but there is no qemu to load it: apt-get install qemu-user-static"
        )
    (tmp_path / "load.cc").write_text(PROGRAM)
    build = [compiler(), "-o", "load", "load.cc", "-ldl"]
    subprocess.run(build, cwd=tmp_path, check=True)
    loaded = subprocess.run(
        [EMULATOR, "-L", str(LIBRARIES), "./load", str(pack)],
        cwd=tmp_path,
        env={**os.environ, "LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.stdout == "it loads\n", loaded.stdout + loaded.stderr


def test_what_make_needs_is_named(tmp_path: Path) -> None:
    """Without the cross compiler, tests/aarch64.py says which packages bring it."""
    done = subprocess.run(
        [shutil.which("python3") or "python3", REPOSITORY / "tests" / "aarch64.py"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Fix: sudo apt-get install g++-aarch64-linux-gnu qemu-user-static" in done.stderr
