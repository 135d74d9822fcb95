"""A process has one core, that of libopgraft, which the Python module uses too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx

import opgraft
from conftest import HOST_PYTHON, Write, pyop_model
from opgraft._base._library import runner_path, runtime_library, shipped_packs

PROGRAM = """
import ctypes, sys
import opgraft
from opgraft._declare import _packs

path, pack = opgraft.library_path(), sys.argv[1]
before = len(_packs.operators())
text = ctypes.c_char_p()
assert ctypes.CDLL(path).opgraft_load(pack.encode(), ctypes.byref(text)) == 0, text.value
print(before, {one.pack for one in _packs.operators()} == {pack})
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libopgraft.so" in line}
print(mapped == {path})
"""


def test_a_pack_that_the_library_has_loaded_is_loaded_for_python() -> None:
    pack = os.path.realpath(shipped_packs()[0])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, pack], capture_output=True, text=True, check=False
    )
    assert done.stdout == "0 True\nTrue\n", done.stdout + done.stderr


def test_a_library_of_another_version(tmp_path: Path, write_module: Write) -> None:
    """A program whose libopgraft has another version than its Python package."""
    module = write_module("class Op:\n    def compute(self, x): return x + x")
    onnx.save(pyop_model(module), tmp_path / "model.onnx")
    for place, source in (("bin", runner_path()), ("lib", opgraft.library_path())):
        (tmp_path / place).mkdir()
        content = Path(source).read_bytes()
        changed, count = re.subn(rb"OPGRAFT_CORE_\d+", lambda name: name[0][:-1] + b"x", content)
        assert count > 0
        (tmp_path / place / Path(source).name).write_bytes(changed)
    program = tmp_path / "bin" / "opgraft-run"
    program.chmod(0o755)
    done = subprocess.run(
        [program, "--onnxruntime", runtime_library(), "--allow", module, tmp_path / "model.onnx"],
        env=dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "belongs to another version of Opgraft than this program's libopgraft" in done.stderr
