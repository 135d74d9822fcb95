"""What the tests of packs share: a small operator's source, the command, a plain session."""

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
# Of the tests' own, and kept between their runs: compiling the adapter is most of their time.
CACHE = REPOSITORY / "build" / "cache"

needs_gtest = pytest.mark.skipif(
    not Path("/usr/include/gtest/gtest.h").exists(),
    reason="GoogleTest is missing: apt-get install libgtest-dev",
)
needs_clang = pytest.mark.skipif(
    shutil.which("clang++") is None, reason="clang++ is missing: apt-get install clang"
)


needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="nvcc is missing: install the CUDA toolkit"
)


def operator_source(name: str, expression: str, domain: str = "test.build") -> str:
    """An operator of one float tensor, y[i] = expression of x[i]."""
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
    """Runs `opgraft`; a variable that is given as "" is taken out."""
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
    """What a plain ONNX Runtime session makes of x = [1, 2] by these operators, one by one."""
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
    """The flags that a library was linked with, such as NODELETE."""
    return {
        word
        for line in _lines("--dynamic", library)
        if "(FLAGS_1)" in line or "(FLAGS)" in line
        for word in line[2:]
        if word != "Flags:"
    }


def exported_symbols(library: Path) -> set[str]:
    """Of lines such as `5: 0000000000001119 12 FUNC GLOBAL DEFAULT 12 opgraft_pack`."""
    lines = [line for line in _lines("--dyn-syms", library) if len(line) == 8]
    return {
        line[7] for line in lines if line[4] in ("GLOBAL", "WEAK", "UNIQUE") and line[6] != "UND"
    }


def _lines(option: str, library: Path) -> list[list[str]]:
    done = subprocess.run(
        ["readelf", "-W", option, str(library)], capture_output=True, text=True, check=True
    )
    return [line.split() for line in done.stdout.splitlines()]


def build_once(name: str, source: str) -> Path:
    """lib<name>.so of this source, kept between runs of the tests until something of it changes."""
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
    """A library in C, with whatever it exports."""
    library = folder / name
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-xc", "-", "-I", opgraft.get_include(), "-o", str(library)],
        input=source,
        text=True,
        check=True,
    )
    return library
