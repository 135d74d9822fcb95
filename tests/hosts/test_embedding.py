"""Which Python a program without one gets: environments of every layout, moved and copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import opgraft
from conftest import Write, floats, pyop_model
from opgraft._base._library import runner_path, runtime_library

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = {Path(module.__file__ or "").parents[1] for module in (np, opgraft, onnxruntime)}


class Runner:
    """Runs a model with opgraft-run; its operator prints the paths of its Python."""

    def __init__(self, folder: Path, modules: Path, module: str) -> None:
        self.folder, self.modules, self.module = folder, modules, module
        onnx.save(pyop_model(module), folder / "model.onnx")
        np.save(folder / "x.npy", floats(2))

    def __call__(self, python: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [runner_path(), "--onnxruntime", runtime_library(), "--allow", self.module]
        command += ["--input", "x=x.npy", "model.onnx"]
        variables = dict(os.environ, OPGRAFT_PYTHON=str(python), PYTHONPATH=str(self.modules))
        variables.pop("PYTHONHOME", None)
        variables.update(environment)
        return subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )


@pytest.fixture
def run(write_module: Write, tmp_path: Path, module_folder: Path) -> Runner:
    module = write_module(
        """
        import re, sys
        class Op:
            def compute(self, x):
                print("prefix", sys.prefix)
                maps = open("/proc/self/maps").read()
                print("library", *set(re.findall(r"/.*/libpython3.*", maps)))
                return x
        """
    )
    return Runner(tmp_path, module_folder, module)


def packages_path(*more: Path) -> str:
    return os.pathsep.join(map(str, [*more, *sorted(PACKAGES)]))


def make_environment(folder: Path) -> Path:
    """Makes a virtual environment with the packages of this one."""
    venv.create(folder, symlinks=True)
    own = folder / "lib" / VERSION / "site-packages" / "packages.pth"
    own.write_text("\n".join(map(str, sorted(PACKAGES))))
    return folder


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """The layout of conda: <prefix>/bin/python and <prefix>/lib/libpython, after a move.

    A copy of this Python, with links to its standard library.
    """
    name = sysconfig.get_config_var("INSTSONAME") or ""
    library = Path(sysconfig.get_config_var("LIBDIR") or "", name)
    program = Path(sys.base_prefix, "bin", VERSION)
    if ".so" not in name or not library.is_file() or not program.is_file():
        pytest.skip("this Python has no shared library beside it that could be copied")
    folder = tmp_path / "relocated"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy(program, folder / "bin" / "python")
    shutil.copy(library, folder / "lib" / name)
    (folder / "lib" / VERSION).symlink_to(Path(sysconfig.get_path("stdlib")))
    return folder


def test_an_environment_that_was_moved(run: Runner, tmp_path: Path) -> None:
    make_environment(tmp_path / "first").rename(tmp_path / "second")
    done = run(tmp_path / "second" / "bin" / "python")
    assert done.returncode == 0, done.stderr
    assert f"prefix {tmp_path / 'second'}\n" in done.stdout


def test_a_folder_with_an_environment_that_is_linked_to(run: Runner, tmp_path: Path) -> None:
    make_environment(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    done = run(tmp_path / "link" / "bin" / "python")
    assert done.returncode == 0, done.stderr
    assert f"prefix {tmp_path / 'link'}\n" in done.stdout


def test_a_command_that_is_a_link_to_another_python(run: Runner, tmp_path: Path) -> None:
    """Python uses the prefix of the link's target, but not its virtual environment."""
    (tmp_path / "python").symlink_to(Path(sys.base_prefix, "bin", VERSION).resolve())
    done = run(tmp_path / "python", PYTHONPATH=packages_path(run.modules))
    assert done.returncode == 0, done.stderr
    assert f"prefix {sys.base_prefix}\n" in done.stdout
    make_environment(tmp_path / "environment")
    (tmp_path / "linked").symlink_to(tmp_path / "environment" / "bin" / "python")
    done = run(tmp_path / "linked")
    assert done.returncode == 1
    assert f"{tmp_path}/linked' has no package opgraft" in done.stderr


def test_a_prefix_like_condas(run: Runner, prefix: Path) -> None:
    """Its own library is loaded, not the one at the place that it was built for."""
    done = run(prefix / "bin" / "python", PYTHONPATH=packages_path(run.modules))
    assert done.returncode == 0, done.stderr
    assert f"prefix {prefix}\n" in done.stdout
    assert f"library {prefix}/lib/libpython3" in done.stdout


def test_pythonhome(run: Runner, prefix: Path) -> None:
    """It is respected, as by the python command itself."""
    path = packages_path(run.modules)
    base = Path(sys.base_prefix, "bin", VERSION)
    done = run(base, PYTHONPATH=path, PYTHONHOME=str(prefix))
    assert done.returncode == 0, done.stderr
    assert f"prefix {prefix}\n" in done.stdout
    done = run(base, PYTHONPATH=path)
    assert f"prefix {sys.base_prefix}\n" in done.stdout


def test_a_pythonhome_without_python(run: Runner, tmp_path: Path) -> None:
    done = run(sys.executable, PYTHONHOME=str(tmp_path))
    assert done.returncode == 1
    assert "UnavailableError: node 'node'" in done.stderr
    assert f"'{sys.executable}' cannot serve Python operators" in done.stderr
    assert "set OPGRAFT_PYTHON" in done.stderr


@pytest.mark.parametrize("allow", ["right", "wrong"])
def test_a_host_that_can_only_register_a_library(run: Runner, tmp_path: Path, allow: str) -> None:
    """Like C# and Java, here in C: an entry of the options, the library, a prepared model."""
    source = Path(__file__).with_name("plain_host.c")
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(source)]
    subprocess.run([*command, "-o", "plain_host", "-ldl"], cwd=tmp_path, check=True)
    opgraft.prepare(str(tmp_path / "model.onnx")).save(tmp_path / "prepared.onnx")
    module = run.module if allow == "right" else "another"
    arguments = [runtime_library(), opgraft.library_path(), "prepared.onnx", module]
    done = subprocess.run(
        [tmp_path / "plain_host", *arguments],
        cwd=tmp_path,
        env=dict(os.environ, OPGRAFT_PYTHON=sys.executable, PYTHONPATH=str(run.modules)),
        capture_output=True,
        text=True,
        check=False,
    )
    if allow == "right":
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 2 3\n" in done.stdout
    else:
        assert done.returncode == 1
        assert "opgraft.PolicyError: node 'node'" in done.stdout
