"""Tests the CUDA kernels of our operators on the CPU, compiled with an emulation of CUDA.

On a GPU, the tests are a separate program; docs/cuda.md says how to build it.
"""

from __future__ import annotations

import os
import platform
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = [
    *(
        source
        for source in sorted((REPOSITORY / "ops").glob("**/*.cu"))
        if not source.stem.endswith("_bench")  # times are meaningless there
    ),
    REPOSITORY / "tests" / "cuda" / "kernel_testing.cu",
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the emulation is for x86-64")
def test_kernels_are_right(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX", "g++")

    def compile_one(source: Path) -> Path:
        made = tmp_path / f"{source.stem}.o"
        command = [compiler, "-std=c++20", "-O1", "-x", "c++", "-c", str(source), "-o", str(made)]
        folders = ("tests/cuda/emulation", ".", "include")  # not CUDA's own headers
        subprocess.run(
            [*command, *(f"-I{folder}" for folder in folders)], cwd=REPOSITORY, check=True
        )
        return made

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(compile_one, SOURCES))
    program = tmp_path / "kernels"
    subprocess.run([compiler, *map(str, made), "-o", str(program), "-ldl"], check=True)
    done = subprocess.run([program, "--small"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
