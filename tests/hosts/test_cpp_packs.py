"""Packs in C++ programs: opgraft::Load, with Python operators, preferred, and refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest

import opgraft
from conftest import HOST_PYTHON, Write
from opgraft._base._library import runtime_library
from packs import build_c_library

Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loading") / "loading"
    library = Path(opgraft.library_path())
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(path)]
    command += [str(Path(__file__).with_name("loading.cc")), f"-I{opgraft.get_include()}"]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def run(program: Path, module_folder: Path) -> Run:
    """Returns what the program prints for each step."""

    def run(*steps: str) -> list[str]:
        variables = dict(os.environ, PYTHONPATH=str(module_folder), OPGRAFT_PYTHON=HOST_PYTHON)
        done = subprocess.run(
            [program, runtime_library(), *steps],
            capture_output=True,
            text=True,
            env=variables,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


def save(folder: Path, nodes: str, imports: str = '"test.packs": 3') -> Path:
    path = folder / "model.onnx"
    head = f'<ir_version: 10, opset_import: ["": 21, {imports}]>'
    graph = f"graph (float[n] x) => (float[n] y) {{ {nodes} }}"
    onnx.save(onnx.parser.parse_model(f"{head} {graph}"), path)
    return path


def test_a_pack_needs_no_python(run: Run, first_library: Path, tmp_path: Path) -> None:
    model = save(tmp_path, "t = test.packs.Step (x)  y = test.packs.Scale (t)")
    said = run(f"load={first_library}", f"load={first_library}", f"run={model}")
    assert said == ["loaded", "loaded", "8 10", "without Python"]


def test_a_pack_and_python_in_one_domain(
    run: Run, first_library: Path, write_module: Write, tmp_path: Path
) -> None:
    module = write_module("""
        import opgraft
        @opgraft.op("test.packs::Negative")
        def negative(x: np.ndarray) -> np.ndarray:
            return -x
    """)
    model = save(tmp_path, "t = test.packs.Negative (x)  y = test.packs.Scale (t)")
    said = run(f"load={first_library}", f"import={module}", f"run={model}")
    assert said == ["loaded", "-2 -4", "with Python"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_pack_and_python_that_claim_the_same(
    run: Run, first_library: Path, write_module: Write, tmp_path: Path, is_first: bool
) -> None:
    module = write_module("""
        import opgraft
        @opgraft.op("test.packs::Scale")
        def scale(x: np.ndarray) -> np.ndarray:
            return -x
    """)
    model = save(tmp_path, "[name] y = test.packs.Scale (x)")
    load = f"load={first_library}"
    steps = [load, f"import={module}", f"run={model}"]
    if not is_first:
        steps = [f"import={module}", f"run={model}", load, f"run={model}"]
    first, *others = run(*steps)
    if is_first:
        assert (first, others[0]) == (
            "loaded",
            f"opgraft.PyOpError: the import of '{module}' raised opgraft.Error: test.packs::Scale "
            f"is declared by the pack '{first_library}' and by the Python module '{module}'; only "
            "one of them can have it",
        )
    else:
        assert (first, others[1]) == ("-1 -2", "-1 -2")
        assert others[0] == (
            f"opgraft.Error: test.packs::Scale is declared by the Python module '{module}' and by "
            f"the pack '{first_library}'; only one of them can have it"
        )


def test_what_is_preferred(run: Run, runtimes_library: Path, tmp_path: Path) -> None:
    model = save(tmp_path, "y = com.microsoft.QuickGelu <alpha = 1.0> (x)", '"com.microsoft": 1')
    load = f"load={runtimes_library}"
    loaded, own, ours, python = run(load, f"run={model}", "prefer=com.microsoft", f"run={model}")
    assert (loaded, ours, python) == ("loaded", "101 102", "without Python")
    assert own.startswith("0.731")
    said = run(load, "prefer=com.microsoft::Nothing", f"run={model}")
    assert said[1].startswith("opgraft.Error: prefer: no loaded pack has 'com.microsoft::Nothing'")


def test_packs_that_are_refused(run: Run, first_library: Path, tmp_path: Path) -> None:
    plain = build_c_library(tmp_path, "int nothing;")
    newer = build_c_library(
        tmp_path,
        """#include <opgraft/c_api.h>
        static const OpgraftPack pack = {OPGRAFT_PACK_VERSION + 1, "not to be read", 0, 77};
        const OpgraftPack* opgraft_pack(void) { return &pack; }""",
        "libnewer.so",
    )
    copy = shutil.copy(first_library, tmp_path / "libcopy.so")
    packs = [tmp_path / "missing.so", tmp_path, plain, newer, first_library, copy]
    missing, folder, no_pack, too_new, loaded, twice, _ = run(*(f"load={pack}" for pack in packs))
    assert missing.startswith(f"opgraft.UnavailableError: there is no pack '{tmp_path}/missing.so'")
    assert folder.startswith(f"opgraft.UnavailableError: there is no pack '{tmp_path}'")
    assert no_pack.startswith(f"opgraft.UnavailableError: '{plain}' is not a pack")
    assert too_new.startswith(f"opgraft.UnavailableError: the pack '{newer}' has version 4 of the")
    assert loaded == "loaded"
    assert twice.startswith("opgraft.Error: test.packs::Scale is declared by the pack ")


def test_models_that_are_refused(run: Run, first_library: Path, tmp_path: Path) -> None:
    load = f"load={first_library}"
    model = save(tmp_path, "[name] y = test.packs.Late (x)")
    (refused,) = run(load, f"run={model}")[1:2]
    assert refused.startswith(
        "opgraft.ModelError: node 'name', operator test.packs::Late: the model impor"
    )
    model = save(tmp_path, '[name] y = test.packs.Fail <text = "as told"> (x)')
    (failed,) = run(load, f"run={model}")[1:2]
    assert failed.startswith("run: opgraft.Error: ")
    assert "'name'" in failed
    assert "as told" in failed
    assert "no pack" not in run(f"run={model}")[0]
    assert run(f"run={model}")[0].startswith("opgraft.ModelError: ")
