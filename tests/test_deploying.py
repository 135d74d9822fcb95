"""Runs the guide to C++ programs, docs/deploying.md, in order: on the CPU and on the fake GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from fake_gpu import FakeGpu, build_operators, needs_plugins

from packs import CACHE, REPOSITORY

PAGE = (REPOSITORY / "docs" / "deploying.md").read_text()
OLD = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.S)


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with this Python's commands first on the path, and without a GPU."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"PATH": path, "XDG_CACHE_HOME": str(CACHE), "OPGRAFT_CUDA_DRIVER": "/none.so"}
    return subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env={**os.environ, **variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's program, built by calling the compiler."""
    folder = tmp_path_factory.mktemp("deploying")
    (program,) = blocks(PAGE, "cpp")
    (folder / "service.cc").write_text(program)
    begin, build, _, _ = blocks(PAGE, "sh")
    done = shell(begin + build.replace("g++ ", "g++ -Wall -Wextra -Werror "), folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2 4 6 ")
    reason = "OpgraftCUDA needs ONNX Runtime 1.24" if OLD else "there is no driver of CUDA"
    assert re.search(f"on the CPU: .*{reason}", done.stderr)
    return folder


def test_with_cmake(folder: Path) -> None:
    (lists,) = blocks(PAGE, "cmake")
    (folder / "CMakeLists.txt").write_text(lists)
    done = shell(blocks(PAGE, "sh")[2], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2 4 6 ")


def test_the_bundle_of_the_page(folder: Path) -> None:
    np.save(folder / "x.npy", np.float32([1, 2, 3]))
    done = shell(blocks(PAGE, "sh")[3], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "y float32 (3)\n2 4 6\n" in done.stdout
    assert done.stdout.count("deployed: it runs in a fresh process") == 2


@needs_plugins
def test_without_the_library_for_cuda(folder: Path) -> None:
    """It belongs beside libopgraft.so; the error says so, and names it once."""
    library = folder / "lib" / "libopgraft_cuda.so"
    hidden = library.rename(folder / "hidden.so")
    try:
        done = shell("./service", folder)
    finally:
        hidden.rename(library)
    assert done.stdout == "2 4 6 "
    assert "on the CPU: opgraft.UnavailableError: OpgraftCUDA is not available: " in done.stderr
    assert done.stderr.count("libopgraft_cuda.so") == 1
    assert f"deploy it beside libopgraft.so ({folder}/lib/libopgraft.so)" in done.stderr


@needs_plugins
def test_a_stream_that_is_named(fake_gpu: FakeGpu, folder: Path) -> None:
    """The lines of cuda.md in the program: with an address, and with an invalid one."""
    (lines,) = (
        block
        for block in blocks((REPOSITORY / "docs" / "cuda.md").read_text(), "cpp")
        if "opgraft.cuda.stream" in block
    )
    # And one more from the test, which replaces the previous one.
    given = (
        '  if (count > 1) Check(ort::AddRunConfigEntry(api, run_options, "opgraft.cuda.stream", '
    )
    lines = lines.replace("  Check(ort::Run(", f"{given} arguments[1]));\n  Check(ort::Run(")
    program = (folder / "service.cc").read_text()
    program = re.sub(r"  Check\(ort::Run\(.*\n", lambda _: lines, program)
    main = "int main(int count, char** arguments) {\n  void* const stream = nullptr;"
    program = program.replace("int main() {", main).replace("model.onnx", "cuda.onnx")
    program = program.replace("libscale.so", str(build_operators()))
    (folder / "streams.cc").write_text(f"#include <string>\n{program}")
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21, "test.cuda": 1]> '
            "graph (float[n] x) => (float[n] y) { y = test.cuda.Twice (x) }"
        ),
        folder / "cuda.onnx",
    )
    build = re.search(r"g\+\+ .*?-o service", blocks(PAGE, "sh")[1], re.S)
    assert build is not None
    command = build[0].replace("service.cc", "streams.cc").replace("-o service", "-o streams")
    driver = {"OPGRAFT_CUDA_DRIVER": os.environ["OPGRAFT_CUDA_DRIVER"]}
    assert shell(command, folder).returncode == 0
    done = shell("./streams", folder, **driver)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 4 6 ", "")
    done = shell("./streams 0x12", folder, **driver)
    assert done.returncode == 1
    assert "'0x12', expected the address of a CUDA stream" in done.stderr
