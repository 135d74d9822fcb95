"""An operator is a folder: copied into ops/, it is built, tested, used by exports from torch,
measured and listed, without a change to any other file. A folder beside it is a second pack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pack_building import ENVIRONMENT, PACKAGE, REPOSITORY
from tester_programs import compile_tests, run_tests

import opgraft

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
FOLDERS = REPOSITORY / "tests" / "operator_folders"


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Copy:
    """A copy of the repository's ops/ and of the package, with the packs built from that copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ops = folder / "ops"
        self.package = folder / "site" / "opgraft"
        # Only one of our operators beside the new one; all of them would take long to compile.
        for path in (REPOSITORY / "ops").glob("*.*"):
            link_or_copy(str(path), str(_parent(self.ops / path.name)))
        for path in (REPOSITORY / "ops" / "contrib").glob("*.h"):
            link_or_copy(str(path), str(_parent(self.ops / "contrib" / path.name)))
        shutil.copytree(REPOSITORY / "ops" / "contrib" / "trilu", self.ops / "contrib" / "trilu")
        (folder / "docs").mkdir()
        shutil.copytree(PACKAGE, self.package, copy_function=link_or_copy)
        shutil.rmtree(self.package / "packs", ignore_errors=True)
        # Python finds this package before that of the tests, and all other packages there.
        self.environment = {**ENVIRONMENT, "PYTHONPATH": str(folder / "site")}

    def build(self) -> None:
        build = self.folder / "build"
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = [
            f"-Dopgraft_DIR={opgraft.cmake_dir()}",
            "-DOPGRAFT_CUDA=OFF",
            "-DCMAKE_BUILD_TYPE=None",  # not optimised, which is faster to compile
            f"-DCMAKE_INSTALL_PREFIX={self.package.parent}",
        ]
        if ccache := shutil.which("ccache"):
            options.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}")
        run(["cmake", "-S", str(self.ops), "-B", str(build), *ninja, *options])
        run(["cmake", "--build", str(build), "-j2"])
        run(["cmake", "--install", str(build)])

    def python(self, *arguments: str) -> str:
        return run([sys.executable, *arguments], self.environment, self.folder)


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(
    command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment or ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    made = Copy(tmp_path_factory.mktemp("folder"))
    shutil.copytree(FOLDERS / "bessel_j0", made.ops / "contrib" / "bessel_j0")
    shutil.copytree(FOLDERS / "bessel_j1", made.ops / "special" / "bessel_j1")
    made.build()
    return made


def test_it_is_built(copy: Copy) -> None:
    packs = sorted(path.name for path in (copy.package / "packs").glob("*"))
    assert packs == ["libopgraft_contrib.so", "libopgraft_special.so"]


def test_its_tests_run(copy: Copy) -> None:
    tests = copy.ops / "contrib" / "bessel_j0"
    assert "2 passed" in copy.python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests))
    program = compile_tests("g++", tests / "bessel_j0_test.cc")
    pack = copy.package / "packs" / "libopgraft_contrib.so"
    assert "[  PASSED  ] 2 tests" in run_tests(program, pack)


def test_torch_is_exported_to_it_and_sessions_find_it(copy: Copy) -> None:
    """In the Python host, in the C++ host, and as a symbolic function, without loading a pack."""
    (copy.folder / "export.py").write_text("""if True:
        import sys
        import numpy as np, opgraft, opgraft.torch, torch
        from opgraft.torch import symbolics

        x = torch.linspace(-3, 3, 6)
        def model(x):
            return torch.special.bessel_j0(x) + torch.special.bessel_j1(x)
        # Not functions of standard ONNX, which go before packs.
        program = opgraft.torch.export(model, (x,), "model.onnx", fallback="pack")
        became = {row.operator: (row.kind, row.became) for row in program.report.rows}
        assert became["aten::special_bessel_j0"] == ("pack", "ai.opgraft::BesselJ0"), became
        assert became["aten::special_bessel_j1"] == ("pack", "ai.opgraft::BesselJ1"), became
        assert program.report.verified
        assert {"aten::special_bessel_j0", "aten::special_bessel_j1"} <= set(symbolics.SYMBOLICS)
        np.save("x.npy", x.numpy())
        np.save("right.npy", model(x).numpy())
    """)
    copy.python("export.py")
    copy.python("-c", """if True:
        import numpy as np, opgraft
        session = opgraft.InferenceSession("model.onnx")
        (y,) = session.run(None, {session.get_inputs()[0].name: np.load("x.npy")})
        np.testing.assert_allclose(y, np.load("right.npy"), rtol=1e-4, atol=1e-6)
    """)  # fmt: skip
    runner = [str(copy.package / "bin" / "opgraft-run"), "--onnxruntime", opgraft.runtime_library()]
    run([*runner, "--input", "x=x.npy", "--output", "add=y.npy", "model.onnx"], folder=copy.folder)
    right, y = (np.load(copy.folder / name) for name in ("right.npy", "y.npy"))
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-6)


def test_it_is_measured_and_listed(copy: Copy) -> None:
    code = "import sys; sys.path.insert(0, 'ops'); import bench_rows; print(*bench_rows.modules())"
    assert copy.python("-c", code).split() == ["bessel_j0", "trilu"]
    copy.python("ops/index.py")
    listed = (copy.folder / "docs" / "operators.md").read_text()
    assert "[ai.opgraft BesselJ0](../ops/contrib/bessel_j0/README.md)" in listed
    assert "[ai.opgraft BesselJ1](../ops/special/bessel_j1/README.md)" in listed
    assert "| float, double | yes | `aten::special_bessel_j0` | `libopgraft_contrib.so` |" in listed


def test_the_list_in_the_documentation() -> None:
    done = run([sys.executable, str(REPOSITORY / "ops" / "index.py"), "--print"])
    page = REPOSITORY / "docs" / "operators.md"
    assert page.read_text() == done, "docs/operators.md is out of date. Fix: python ops/index.py"
