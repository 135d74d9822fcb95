"""Shared by the tests of packs: a small operator's source, the command, a plain session."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from pack_building import alone

import opgraft

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLE = REPOSITORY / "examples" / "custom_op_library"
# A cache for the tests, kept between runs, since compiling the adapter takes most of their time.
CACHE = REPOSITORY / "build" / "cache"

needs_gtest = pytest.mark.skipif(
    not Path("/usr/include/gtest/gtest.h").exists(),
    reason="GoogleTest is not installed: apt-get install libgtest-dev",
)
needs_clang = pytest.mark.skipif(
    shutil.which("clang++") is None, reason="clang++ is not installed: apt-get install clang"
)


needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="nvcc is not installed: install the CUDA toolkit"
)


def operator_source(name: str, expression: str, domain: str = "test.build") -> str:
    """Returns an operator of one float tensor, with y[i] = an expression of x[i]."""
    return f"""#include <opgraft/op.h>
        OPGRAFT_OP("{domain}::{name}").Input<float>("x").Output<float>("y")
            .Shape(opgraft::SameAs("x"))
            .Cpu([](auto x, auto y) {{
              for (std::size_t i = 0; i < x.size(); ++i) y[i] = {expression};
            }});
        """


def command(
    *arguments: str | Path, cwd: Path, cache: Path = CACHE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `opgraft`; a variable given as "" is removed from the environment."""
    variables = {**os.environ, "XDG_CACHE_HOME": str(cache), "CXX": "", **environment}
    return subprocess.run(
        [sys.executable, "-m", "opgraft", *map(str, arguments)],
        cwd=cwd,
        env={name: value for name, value in variables.items() if value},
        capture_output=True,
        text=True,
        check=False,
    )


def run_plainly(library: Path, *nodes: str, domain: str = "test.build") -> list[float]:
    """Returns the result of a chain of these operators on [1, 2] in plain ONNX Runtime."""
    values = ["x", *(f"v{i}" for i in range(len(nodes)))]
    body = " ".join(
        f"{values[i + 1]} = {domain}.{node} ({values[i]})" for i, node in enumerate(nodes)
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21, "{domain}": 1]> '
        f"graph (float[n] x) => (float[n] {values[-1]}) {{ {body} }}"
    )
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    result: Any = session.run(None, {"x": np.float32([1, 2])})[0]
    return [float(value) for value in result]


def needed_libraries(library: Path) -> set[str]:
    lines = _lines("--dynamic", library)
    return {line[-1].strip("[]") for line in lines if "(NEEDED)" in line}


def linked_how(library: Path) -> set[str]:
    """Returns the flags that a library was linked with, such as NODELETE."""
    return {
        word
        for line in _lines("--dynamic", library)
        if "(FLAGS_1)" in line or "(FLAGS)" in line
        for word in line[2:]
        if word != "Flags:"
    }


def exported_symbols(library: Path) -> set[str]:
    """Reads lines such as `5: 0000000000001119 12 FUNC GLOBAL DEFAULT 12 opgraft_pack`."""
    lines = [line for line in _lines("--dyn-syms", library) if len(line) == 8]
    return {
        line[7] for line in lines if line[4] in ("GLOBAL", "WEAK", "UNIQUE") and line[6] != "UND"
    }


def all_symbols(library: Path) -> set[str]:
    """Those that are hidden, too."""
    return {line[7] for line in _lines("--syms", library) if len(line) == 8}


def _lines(option: str, library: Path) -> list[list[str]]:
    done = subprocess.run(
        ["readelf", "-W", option, str(library)], capture_output=True, text=True, check=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def build_once(name: str, source: str) -> Path:
    """Builds lib<name>.so from this source, and caches it between runs until something changes."""
    digest = hashlib.sha256(source.encode())
    package = Path(opgraft.get_include()).parent
    for path in sorted([*package.glob("include/**/*"), *package.glob("adapter/**/*")]):
        if path.is_file():
            digest.update(path.read_bytes())
    folder = CACHE / "packs" / digest.hexdigest()[:16]
    library = folder / f"lib{name}.so"
    with alone(library):
        if not library.exists():
            (folder / f"{name}.cc").write_text(source)
            done = command("build", f"{name}.cc", cwd=folder)
            assert done.returncode == 0, done.stderr
    return library


def build_c_library(folder: Path, source: str, name: str = "libplain.so") -> Path:
    """Builds a library from C, which exports everything."""
    library = folder / name
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-xc", "-", "-I", opgraft.get_include(), "-o", str(library)],
        input=source,
        text=True,
        check=True,
    )
    return library
