"""`opgraft bundle`: what it gathers runs by itself, and is what the doctor lists."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import pyop_model
from opgraft._bundle._bundle import WRITTEN
from packs import build_once, command, operator_source

PLAIN = "graph (float[n] x) => (float[n] y) { y = Neg (x) }"
MODULE = "import beside\nclass Op:\n    def compute(self, x): return beside.double(x)\n"


def parse(graph: str, imports: str = '"": 21') -> onnx.ModelProto:
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> {graph}")


def bundle(
    folder: Path, *arguments: str, status: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    done = command("bundle", *arguments, cwd=folder, **variables)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def files_of(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def check_list(folder: Path, model: str, *options: str) -> list[dict[str, object]]:
    """The files in a bundle are those that the doctor lists for the model, and no others."""
    done = command("doctor", model, "--json", *options, cwd=folder)
    ship: list[dict[str, object]] = json.loads(done.stdout)["ship"]
    listed = {str(one["name"]) for one in ship if one["source"]}
    assert files_of(folder / "out") == {*listed, *WRITTEN}
    for one in ship:
        if one["source"]:
            source = Path(folder, str(one["source"]))
            copy = folder / "out" / str(one["name"])
            assert copy.stat().st_size == one["size"] == source.stat().st_size
            assert copy.read_bytes() == source.read_bytes()
    return ship


def run_alone(folder: Path, x: Any, moved: Path) -> Any:
    """Moves the bundle, removes what it was made of, and runs it: env -i, from /."""
    bundle = moved / "some where"
    shutil.copytree(folder / "out", bundle)
    shutil.rmtree(folder)
    np.save(moved / "x.npy", np.float32(x))
    arguments = ["--input", f"x={moved}/x.npy", "--output", f"y={moved}/y.npy"]
    done = subprocess.run(
        ["/usr/bin/env", "-i", str(bundle / "run.sh"), *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return np.load(moved / "y.npy").tolist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    folder.mkdir()
    return folder


def test_a_plain_model(folder: Path, tmp_path: Path) -> None:
    onnx.save(parse(PLAIN), folder / "model.onnx")
    done = bundle(folder, "model.onnx", "out")
    assert "out: it runs in a fresh process, in the folder /, with an empty environment" in (
        done.stdout
    )
    ship = check_list(folder, "model.onnx")
    kinds = {str(one["kind"]) for one in ship}
    assert kinds == {"model", "program", "library", "runtime", "system", "licence"}
    licences = {one for one in files_of(folder / "out") if one.startswith("licences/")}
    assert {"licences/opgraft/LICENSE", "licences/onnxruntime/LICENSE"} <= licences
    assert "licences/onnxruntime/ThirdPartyNotices.txt" in licences
    for one in ship:
        assert one["version"] or one["kind"] in ("model", "licence")
    script = (folder / "out" / "run.sh").read_text()
    assert str(tmp_path) not in script and sys.executable not in script
    assert run_alone(folder, [1, -2], tmp_path) == [-1, 2]


def test_external_data(folder: Path, tmp_path: Path) -> None:
    """In a file below the model's folder, and in a Constant of a branch."""
    model = parse("graph (float[300] x) => (float[300] y) { y = Add (x, w) }")
    weights = np.arange(300, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    (folder / "data").mkdir()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="data/weights.bin")
    bundle(folder, "model.onnx", "out")
    ship = check_list(folder, "model.onnx")
    (found,) = [one for one in ship if one["kind"] == "weights"]
    assert (found["name"], found["size"]) == ("model/data/weights.bin", 1200)
    assert run_alone(folder, [1.0] * 300, tmp_path) == [i + 1.0 for i in range(300)]


def test_a_pack(folder: Path, tmp_path: Path) -> None:
    library = build_once("bundled", operator_source("Half", "x[i] / 2", domain="test.bundle"))
    pack = Path(shutil.copy(library, folder / "libbundled.so"))
    (folder / "LICENSE.txt").write_text("of the pack")
    graph = "graph (float[n] x) => (float[n] y) { y = test.bundle.Half (x) }"
    onnx.save(parse(graph, '"": 21, "test.bundle": 1'), folder / "model.onnx")
    bundle(folder, "model.onnx", "out", "--pack", str(pack))
    ship = check_list(folder, "model.onnx", "--pack", str(pack))
    assert "packs/libbundled.so" in [one["name"] for one in ship if one["kind"] == "pack"]
    assert (folder / "out/licences/libbundled/LICENSE.txt").read_text() == "of the pack"
    assert run_alone(folder, [4, 6], tmp_path) == [2, 3]


def test_a_pack_of_ours(folder: Path, tmp_path: Path) -> None:
    """A preferred operator: the pack that comes with Opgraft is copied, and found by itself."""
    graph = "graph (float[n] x) => (float[n] y) { y = com.microsoft.Gelu (x) }"
    onnx.save(parse(graph, '"": 21, "com.microsoft": 1'), folder / "model.onnx")
    preferred = ("--prefer", "com.microsoft::Gelu")
    bundle(folder, "model.onnx", "out", *preferred)
    check_list(folder, "model.onnx", *preferred)
    assert "opgraft/packs/libopgraft_contrib.so" in files_of(folder / "out")
    assert run_alone(folder, [0, 100], tmp_path) == [0, 100]


def test_a_python_module(folder: Path, tmp_path: Path) -> None:
    """The module and the one that it imports are copied; packages and Python are named."""
    (folder / "bundled_module.py").write_text("import scipy\n" + MODULE)
    (folder / "beside.py").write_text("def double(x): return x + x\n")
    (folder / "unused.py").write_text("")
    onnx.save(pyop_model("bundled_module"), folder / "model.onnx")
    allow = ("--allow", "bundled_module")
    done = bundle(folder, "model.onnx", "out", *allow)
    assert "OPGRAFT_PYTHON names the command" in done.stdout
    ship = check_list(folder, "model.onnx", *allow)
    modules = {one["name"] for one in ship if one["kind"] == "module"}
    assert modules == {"python/bundled_module.py", "python/beside.py"}
    packages = {one["name"]: one["version"] for one in ship if one["kind"] == "package"}
    assert set(packages) == {"opgraft", "numpy", "scipy"}
    assert packages["numpy"] == np.__version__
    assert [one["name"] for one in ship if one["kind"] == "allowance"] == ["bundled_module"]
    assert any(one["kind"] == "python" for one in ship)
    assert run_alone(folder, [1, 2], tmp_path) == [2, 4]


def test_a_module_that_is_not_allowed(folder: Path) -> None:
    (folder / "bundled_module.py").write_text("open('imported', 'w')\n" + MODULE)
    onnx.save(pyop_model("bundled_module"), folder / "model.onnx")
    done = bundle(folder, "model.onnx", "out", status=1)
    assert "its module is not allowed" in done.stderr
    assert "nothing is bundled" in done.stderr
    assert not (folder / "out").exists()
    assert not (folder / "imported").exists()


def test_an_allowance_of_the_environment(folder: Path, tmp_path: Path) -> None:
    """It becomes one of the bundle, which has no environment."""
    (folder / "bundled_module.py").write_text(MODULE)
    (folder / "beside.py").write_text("def double(x): return x + x\n")
    onnx.save(pyop_model("bundled_module"), folder / "model.onnx")
    bundle(folder, "model.onnx", "out", OPGRAFT_ALLOW="bundled_module")
    assert run_alone(folder, [1], tmp_path) == [2]


def test_what_only_this_environment_has(folder: Path, tmp_path: Path) -> None:
    """A module that is not seen in the sources: the check finds that it is missing."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "hidden.py").write_text("")
    (folder / "bundled_module.py").write_text(
        "__import__('hidden')\nclass Op:\n    def compute(self, x): return x\n"
    )
    onnx.save(pyop_model("bundled_module"), folder / "model.onnx")
    arguments = ("model.onnx", "out", "--allow", "bundled_module")
    done = bundle(folder, *arguments, status=1, PYTHONPATH=str(elsewhere))
    assert "does not run" in done.stderr and "No module named 'hidden'" in done.stderr
    assert "The files are left in 'out'" in done.stderr


@pytest.fixture
def aten_model(folder: Path) -> Path:
    """A model with an ATen node, and a value for its input."""
    torch = pytest.importorskip("torch", reason="ATen nodes need torch")
    from aten_models import of_call

    model = of_call(torch.ops.aten.linalg_inv.default, [torch.eye(2)]).model
    (given,) = model.graph.input
    (gives,) = model.graph.output
    for node in model.graph.node:
        node.input[:] = ["x" if one == given.name else one for one in node.input]
        node.output[:] = ["y" if one == gives.name else one for one in node.output]
    given.name, gives.name = "x", "y"
    onnx.save(model, folder / "model.onnx")
    np.save(folder / "eye.npy", np.eye(2, dtype=np.float32))
    return folder


def test_aten_nodes(aten_model: Path, tmp_path: Path) -> None:
    """libtorch is named, with its size and version; that of this Python is found."""
    import torch

    done = bundle(aten_model, "model.onnx", "out", "--input", "x=eye.npy")
    assert "libtorch_cpu.so" in done.stdout
    ship = check_list(aten_model, "model.onnx")
    (libtorch,) = [one for one in ship if one["kind"] == "libtorch"]
    assert libtorch["source"] == "" and libtorch["version"] == torch.__version__
    assert isinstance(libtorch["size"], int) and libtorch["size"] > 10**7
    assert not any(one["kind"] == "python" for one in ship)
    assert run_alone(aten_model, [[2, 0], [0, 4]], tmp_path) == [[0.5, 0], [0, 0.25]]


def test_libtorch_in_the_bundle(aten_model: Path) -> None:
    """With --libtorch no Python is asked for it, and its licences are there."""
    bundle(aten_model, "model.onnx", "out", "--libtorch", "--input", "x=eye.npy")
    found = files_of(aten_model / "out")
    assert {"torch/lib/libtorch_cpu.so", "torch/lib/libc10.so"} <= found
    assert "licences/torch/LICENSE" in found
    assert "OPGRAFT_PYTHON" not in (aten_model / "out" / "run.sh").read_text()
    (aten_model / "out/torch/lib/libc10.so").unlink()
    done = bundle(aten_model, "--check", "out", status=1)
    assert "is broken: torch/lib/libc10.so is missing" in done.stderr
    shutil.rmtree(aten_model / "out")


def test_a_broken_bundle(folder: Path) -> None:
    onnx.save(parse(PLAIN), folder / "model.onnx")
    bundle(folder, "model.onnx", "out")
    assert "out: it runs" in bundle(folder, "--check", "out").stdout
    library = folder / "out/opgraft/lib/libopgraft.so"
    kept = library.read_bytes()
    library.unlink()
    done = bundle(folder, "--check", "out", status=1)
    assert "is broken: opgraft/lib/libopgraft.so is missing" in done.stderr
    library.write_bytes(kept)
    model = folder / "out/model/model.onnx"
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Abs"))
    done = bundle(folder, "--check", "out", status=1)
    assert "is broken: model/model.onnx is not the file that was bundled" in done.stderr
    (folder / "out/bundle.json").unlink()
    assert "it has no bundle.json" in bundle(folder, "--check", "out", status=1).stderr


def test_inputs_of_the_check(folder: Path) -> None:
    """A model that refuses made-up inputs is run with those that are given."""
    graph = "graph (int64[1] x) => (float[1, 1] y) { i = Sub (x, one) y = Gather (w, i) }"
    model = parse(graph)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((3, 1), "f4"), "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([9]), "one"))
    onnx.save(model, folder / "model.onnx")
    done = bundle(folder, "model.onnx", "out", status=1)
    assert "The inputs x were made up; give others by --input" in done.stderr
    np.save(folder / "x.npy", np.int64([10]))
    bundle(folder, "--check", "out", "--input", "x=x.npy")
    done = bundle(folder, "--check", "out", "--input", "z=x.npy", status=1)
    assert "--input z: the model has no such input" in done.stderr


def test_folders_that_are_refused(folder: Path) -> None:
    onnx.save(parse(PLAIN), folder / "model.onnx")
    (folder / "full").mkdir()
    (folder / "full" / "kept").write_text("kept")
    done = bundle(folder, "model.onnx", "full", status=1)
    assert "'full' is not empty. Fix: " in done.stderr
    assert files_of(folder / "full") == {"kept"}
    assert "is not a folder" in bundle(folder, "model.onnx", "model.onnx", status=1).stderr
    assert "expected a model and a folder" in bundle(folder, "model.onnx", status=1).stderr
    (folder / "empty").mkdir()
    bundle(folder, "model.onnx", "empty")
    assert sorted(os.listdir(folder)) == ["empty", "full", "model.onnx"]
