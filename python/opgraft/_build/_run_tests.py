"""Runs the tests of an operator's folder, in C++ and in Python: `opgraft test`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from opgraft._build._build import (
    Settings,
    build_pack,
    compile_sources,
    pack_of_folder,
    run_linker,
    settings_of,
)
from opgraft._base._errors import Error, UnavailableError
from opgraft._base._library import cuda_library_path, library_path, runtime_library
from opgraft._build._objects import Objects
from opgraft._terminal._screen import complain


# What the Python tests need besides Opgraft; templates/operator/requirements-test.txt.in too.
_PACKAGES = ("pytest", "onnx")


def missing_packages() -> list[str]:
    """Returns the packages that the Python tests of a pack need and that are not installed."""
    return [package for package in _PACKAGES if importlib.util.find_spec(package) is None]


def install_line(packages: Sequence[str]) -> str:
    """Returns the command that installs packages for this Python, whatever `pip` is on the path."""
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(packages)}"


def test(options: argparse.Namespace) -> int:
    """Builds the pack and runs all tests of the folder, even if some fail."""
    folder = Path(options.folder)
    sources, library = pack_of_folder(folder)
    cpp_tests = sorted(folder.glob("*_test.cc"))
    python_tests = sorted(folder.glob("test_*.py"))
    if not cpp_tests and not python_tests:
        raise Error(f"there is nothing to test in {folder}: neither *_test.cc nor test_*.py")
    settings = settings_of(options)
    build_pack(sources, library, settings)
    environment = {
        **os.environ,
        "OPGRAFT_TEST_PACKS": str(library.resolve()),
        "OPGRAFT_TEST_RUNTIME": os.environ.get("OPGRAFT_TEST_RUNTIME") or runtime_library(),
        "OPGRAFT_TEST_CUDA": os.environ.get("OPGRAFT_TEST_CUDA") or cuda_library_path(),
    }
    passed = True
    for run, tests in ((_run_cpp, cpp_tests), (_run_python, python_tests)):
        if not tests:
            continue
        try:
            passed = run(tests, folder, settings, environment) and passed
        except Error as error:
            complain(str(error), type(error).__name__)
            passed = False
    return 0 if passed else 1


def _run_cpp(
    tests: Sequence[Path], folder: Path, settings: Settings, environment: Mapping[str, str]
) -> bool:
    if not settings.compiler.can_include("gtest/gtest.h", settings.compile_options):
        raise UnavailableError(
            "the C++ tests need GoogleTest, which is not installed. Fix: apt-get install "
            "libgtest-dev"
        )
    with tempfile.TemporaryDirectory(prefix="opgraft-") as scratch:
        testing = Objects("testing", settings.compiler, settings.adapter_options, Path(scratch))
        objects = compile_sources(tests, settings, Path(scratch), beside=[testing])
        objects += testing.files()
        program = Path(scratch, "tests")
        ours = Path(library_path())
        arguments: list[str | Path] = [*objects, "-Wl,--as-needed", ours]
        arguments += [
            "-Xlinker",
            f"-rpath={ours.parent}",
            "-lgtest_main",
            "-lgtest",
            *settings.link_options,
            "-pthread",
            "-ldl",
        ]
        run_linker(settings, arguments, program, tests[0])
        return _succeeds([str(program)], folder, environment)


def _run_python(
    tests: Sequence[Path], folder: Path, _: Settings, environment: Mapping[str, str]
) -> bool:
    missing = missing_packages()
    if missing:
        raise UnavailableError(
            f"the Python tests need {' and '.join(missing)}, not installed for {sys.executable}. "
            f"Fix: {install_line(missing)}"
        )
    command = [sys.executable, "-m", "pytest", "-q", "--", *(test.name for test in tests)]
    return _succeeds(command, folder, environment)


def _succeeds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    sys.stdout.flush()
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0
