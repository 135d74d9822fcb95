"""`opgraft new` and `opgraft test`: a folder for an operator that builds and passes its tests."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from opgraft import _command
from opgraft._build import _run_tests
from opgraft._build._compiler import Compiler
from opgraft._build._new import snake_case
from packs import command, needs_gtest, needs_nvcc, run_plainly


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unchanged folder, which tests copy."""
    folder = tmp_path_factory.mktemp("new")
    done = command("new", "my.domain::TimesFactor", cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder / "times_factor"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "times_factor"))


def test_what_is_in_the_folder(made: Path) -> None:
    names = ["CMakeLists.txt", "README.md", "requirements-test.txt", "test_times_factor.py"]
    names += ["times_factor.cc", "times_factor_test.cc"]
    assert sorted(path.name for path in made.iterdir()) == names
    for path in made.iterdir():
        text = path.read_text()
        assert "TimesFactor" in text or path.suffix == ".txt"
        assert not re.search(r"@[A-Z]+@", text)
        assert max(map(len, text.splitlines())) <= 120
    assert (made / "times_factor.cc").read_text().startswith("// my.domain::TimesFactor: ")


def test_what_is_in_the_folder_for_cuda(tmp_path: Path) -> None:
    done = command("new", "my.domain::TimesFactor", "--cuda", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    names = [path.name for path in sorted((tmp_path / "times_factor").iterdir())]
    assert names == [
        *("CMakeLists.txt", "README.md", "requirements-test.txt"),
        *("test_times_factor.py", "times_factor.cc"),
        *("times_factor_cuda.cu", "times_factor_cuda.h", "times_factor_test.cc"),
    ]
    for name in names:
        assert not re.search(r"@[A-Z]+@", (tmp_path / "times_factor" / name).read_text())
    # Without nvcc, it builds for the CPU.
    done = command("build", "times_factor.cc", cwd=tmp_path / "times_factor")
    assert done.returncode == 0, done.stderr
    library = tmp_path / "times_factor" / "libtimes_factor.so"
    assert run_plainly(library, "TimesFactor", domain="my.domain") == [2, 4]


@needs_nvcc
def test_half_floats_are_a_line_each(tmp_path: Path) -> None:
    """In the list of types and at the end of the kernel's file, as the comments there say."""
    assert command("new", "my.domain::TimesFactor", "--cuda", cwd=tmp_path).returncode == 0
    folder = tmp_path / "times_factor"
    source = folder / "times_factor.cc"
    kernel = folder / "times_factor_cuda.cu"
    types = ["opgraft::Float16", "opgraft::BFloat16"]
    source.write_text(source.read_text().replace("double)", f"double, {', '.join(types)})"))
    assert "needs a line at the end of times_factor_cuda.cu" in source.read_text()
    last = kernel.read_text().splitlines()[-1]
    kernel.write_text(kernel.read_text() + "\n".join(last.replace("double", t) for t in types))
    options = ["--flag=-Wextra", "--flag=-Werror", "--cuda-flag=-Werror=all-warnings"]
    done = command("build", "--cuda-arch", "90", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    library = folder / "libtimes_factor.so"
    assert run_plainly(library, "TimesFactor", domain="my.domain") == [2, 4]
    assert b"6__half" in library.read_bytes()  # part of the name of its kernel
    assert b"13__nv_bfloat16" in library.read_bytes()


def test_another_folder(tmp_path: Path) -> None:
    done = command("new", "my::Ops2D", "--folder", "deep/Größe x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "deep" / "Größe x" / "ops2d.cc").exists()
    assert done.stdout.endswith("next: cd 'deep/Größe x' && opgraft build && opgraft test\n")


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Scale", "scale"),
        ("CustomOpOne", "custom_op_one"),
        ("LayerNorm2D", "layer_norm2d"),
        ("Conv2Relu", "conv2_relu"),
        ("GELUTanh", "gelu_tanh"),
        ("GELU", "gelu"),
        ("already_snake", "already_snake"),
    ],
)
def test_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Scale", "expected 'domain::Name', such as my.domain::Scale"),
        ("::Scale", "expected 'domain::Name'"),
        ("my.domain::", "'' is not an identifier"),
        ("my::a::B", "'a::B' is not an identifier"),
        ("my::2Scale", "'2Scale' is not an identifier"),
        ("my::Größe", "'Größe' is not an identifier"),
        ("my::Sc ale", "'Sc ale' is not an identifier"),
        ('my"domain::Scale', "a domain consists of words of letters, digits and _"),
        ("my..domain::Scale", "a domain consists of words of letters, digits and _"),
        ("../my::Scale", "a domain consists of words of letters, digits and _"),
        ("ai.onnx::Scale", "the domain ai.onnx is ONNX's own"),
        ("ai.onnx.ml::Scale", "the domain ai.onnx.ml is ONNX's own"),
        ("com.microsoft.nchwc::Scale", "the domain com.microsoft.nchwc is ONNX Runtime's own"),
        ("ai.opgraft::Scale", "the domain ai.opgraft is Opgraft's own"),
        ("my::ScaleTest", "scale_test.cc would count as a test"),
    ],
)
def test_bad_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _command.main(["new", name]) == 1
    said = f"opgraft: Error: an operator cannot be called '{name}': {reason}"
    assert said in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "scale").mkdir()
    done = command("new", "my::Scale", cwd=tmp_path)
    assert done.returncode == 1
    assert "scale exists already. Fix: --folder FOLDER names another place" in done.stderr
    assert not list((tmp_path / "scale").iterdir())


@needs_gtest
def test_builds_and_passes_at_once(folder: Path) -> None:
    done = command("build", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "libtimes_factor.so\n"), done.stderr
    # Said where no test before has built a pack.
    assert done.stderr in ("", "opgraft: compiling the common part of every pack, only this once\n")
    library = folder / "libtimes_factor.so"
    assert run_plainly(library, "TimesFactor", domain="my.domain") == [2, 4]
    library.unlink()
    done = command("test", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ] 3 tests" in done.stdout
    assert "8 passed" in done.stdout
    assert library.exists()

    # A wrong kernel fails the tests in both languages.
    source = folder / "times_factor.cc"
    source.write_text(source.read_text().replace("factor * x[i]", "factor + x[i]"))
    done = command("test", "times_factor", "--flag=-Wextra", cwd=folder.parent)
    assert done.returncode == 1
    assert "[  FAILED  ]" in done.stdout
    assert re.search(r"\d failed", done.stdout)


@pytest.fixture
def empty_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pack that is not built, with a Python test that creates the file `ran`."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "pack.cc").write_text("#include <opgraft/op.h>\n")
    (folder / "test_pack.py").write_text("def test_pack():\n    open('ran', 'w').close()\n")
    monkeypatch.setattr(_run_tests, "build_pack", lambda *_: None)
    monkeypatch.setenv("OPGRAFT_TEST_RUNTIME", "libonnxruntime.so")
    return folder


def test_the_exit_status_of_the_python_tests(empty_pack: Path) -> None:
    assert _command.main(["test", str(empty_pack)]) == 0
    assert (empty_pack / "ran").exists()
    (empty_pack / "test_pack.py").write_text("def test_pack():\n    assert False\n")
    assert _command.main(["test", str(empty_pack)]) == 1
    (empty_pack / "test_pack.py").write_text("")
    assert _command.main(["test", str(empty_pack)]) == 1  # pytest finds no test in it


def test_the_environment_of_the_tests(empty_pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_pack / "test_pack.py").write_text(
        "import os\ndef test_pack():\n"
        f"    assert os.environ['OPGRAFT_TEST_PACKS'] == {str(empty_pack / 'libpack.so')!r}\n"
        "    assert os.environ['OPGRAFT_TEST_RUNTIME'] == 'libonnxruntime.so'\n"
    )
    monkeypatch.chdir(empty_pack)
    assert _command.main(["test"]) == 0


def test_without_googletest_the_python_tests_run(
    empty_pack: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """But the exit status is not 0."""
    (empty_pack / "pack_test.cc").write_text("#include <gtest/gtest.h>\n")
    monkeypatch.setattr(Compiler, "can_include", lambda *_: False)
    assert _command.main(["test", str(empty_pack)]) == 1
    assert "apt-get install libgtest-dev" in capfd.readouterr().err
    assert (empty_pack / "ran").exists()


def test_without_pytest_the_cpp_tests_run(
    empty_pack: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (empty_pack / "pack_test.cc").touch()
    ran = []
    monkeypatch.setattr(_run_tests, "_run_cpp", lambda tests, *_: ran.append(tests) or True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert _command.main(["test", str(empty_pack)]) == 1
    said = " ".join(capfd.readouterr().err.split())
    assert "the Python tests need pytest and onnx, not installed for" in said
    assert f"Fix: {sys.executable} -m pip install pytest onnx" in said
    assert ran == [[empty_pack / "pack_test.cc"]]


def test_only_what_is_missing_is_named(
    empty_pack: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    hiding = lambda name: None if name == "pytest" else find_spec(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hiding)
    assert _command.main(["test", str(empty_pack)]) == 1
    said = capfd.readouterr().err
    assert "-m pip install pytest\n" in said and "onnx" not in said
    assert not (empty_pack / "ran").exists()


def test_new_names_what_its_tests_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In an environment without them; in this one it says nothing about it."""
    monkeypatch.chdir(tmp_path)
    assert _command.main(["new", "my::Scale"]) == 0
    assert "pip install" not in capfd.readouterr().out
    required = [
        line
        for line in (tmp_path / "scale" / "requirements-test.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert _command.main(["new", "my::Shift"]) == 0
    line = f"opgraft test needs pytest and onnx: {sys.executable} -m pip install "
    assert line + " ".join(required) in capfd.readouterr().out


def test_nothing_to_test(empty_pack: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (empty_pack / "test_pack.py").unlink()
    assert _command.main(["test", str(empty_pack)]) == 1
    assert "there is nothing to test in" in capfd.readouterr().err
    assert _command.main(["test", str(empty_pack / "none")]) == 1
    assert "there is no folder" in capfd.readouterr().err
