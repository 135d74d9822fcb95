"""The wheel: its contents, and that it works without a compiler and without the sources."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from conftest import floats, pyop_model

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds in the build folder of `make test`, so that nothing is compiled twice."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    command += ["--config-settings=build-dir=build"]
    command += ["--config-settings=cmake.define.OPGRAFT_TESTS=ON", "--wheel-dir", str(folder), "."]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True)
    (path,) = folder.glob("opgraft-*.whl")
    return path


class Environment:
    """A virtual environment with the wheel, and onnx, onnxruntime and NumPy from this one."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        packages = {Path(module.__file__ or "").parents[1] for module in (np, onnx, onnxruntime)}
        own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        (own / "packages.pth").write_text("\n".join(map(str, sorted(packages))))
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q"]
        self.run(*command, "--no-deps", "--ignore-installed", str(wheel))

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Returns what a command prints without a compiler or other programs of the system."""
        variables = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder)}
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd or self.folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment") / "fresh", wheel)


def test_what_it_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    for name in (
        "__init__.py",
        "py.typed",
        "_pyop.pyi",
        "lib/libopgraft.so",
        "_pyop" + sysconfig.get_config_var("EXT_SUFFIX"),
        "bin/opgraft-run",
        "include/opgraft/host.h",
        "include/opgraft/onnxruntime.h",
        "include/opgraft/status.h",
        "cmake/opgraft-config.cmake",
        "adapter/pack/exports.map",
        "adapter/pack/library.cc",
        "templates/operator/name.cc.in",
        "templates/operator/test_name.py.in",
        "testing.py",
        "testing/op_tester.cc",
        "include/opgraft/testing.h",
    ):
        assert f"opgraft/{name}" in names, sorted(names)
    assert modes["opgraft/bin/opgraft-run"] & 0o111
    assert any(name.endswith("licenses/LICENSE") for name in names)
    names = {name for name in names if "/templates/" not in name}
    assert not any(re.search(r"_test\.|/test_|/tests/", name) for name in names)


def test_no_binary_names_a_folder_of_the_build(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    binaries = [*tmp_path.rglob("*.so"), tmp_path / "opgraft" / "bin" / "opgraft-run"]
    assert len(binaries) == 5
    for binary in binaries:
        content = binary.read_bytes()
        assert str(REPOSITORY).encode() not in content, binary
        assert sys.prefix.encode() not in content, binary
        dynamic = subprocess.run(
            ["readelf", "-d", str(binary)], capture_output=True, text=True, check=True
        ).stdout
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        # Binaries that use libopgraft find it relative to themselves.
        expected = {"opgraft-run": ["$ORIGIN/../lib"], "_pyop": ["$ORIGIN/lib"]}
        assert paths == expected.get(binary.name.partition(".")[0], []), binary


def test_the_readmes_example(environment: Environment) -> None:
    code = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)[0]
    (environment.folder / "example.py").write_text(code)
    (expected,) = re.findall(r"# (\[array.*)", code)
    assert environment.run(environment.python, "example.py").strip() == expected
    where = environment.run(environment.python, "-c", "import opgraft; print(opgraft.__file__)")
    assert where.startswith(str(environment.folder))


def test_the_commands(environment: Environment, tmp_path: Path) -> None:
    onnx.save(pyop_model("doubling"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", floats(3))
    (tmp_path / "doubling.py").write_text("class Op:\n    def compute(self, x): return x + x\n")
    command = [environment.folder / "bin" / "opgraft", "run", "model.onnx", "--input", "x=x.npy"]
    command += ["--allow", "doubling"]
    for host in ("python", "cpp"):
        printed = environment.run(*command, "--host", host, cwd=tmp_path)
        assert printed == "y float32 (3)\n0 2 4\n"
