"""Runs the tests, with one build of Opgraft, against every supported ONNX Runtime and NumPy.

Run by `make test-matrix`; prints the tables of docs/compatibility.md. The other versions are
installed beside the environment, under build/matrix, and put before it on Python's path. The second
table is for C++ programs: the same libopgraft.so and opgraft-run, with every Python on the machine,
for each of which the module _pyop is built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "build" / "matrix"
RUNTIMES = ["1.19.2", "1.20.1", "1.22.1", "1.24.4", "1.28.0", "1.31.1"]
NUMPY = "1.26.4"  # the other version is that of the environment, 2.x
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
# Tests of compilers, the wheel and exporters do not depend on the runtime.
OTHER_TESTS = [
    *("tests/test_build.py", "tests/test_cmake.py", "tests/test_new.py", "tests/test_wheel.py"),
    *("tests/test_pack_refusals.py", "tests/test_pack_guide.py", "tests/test_documentation.py"),
    *("tests/torch/test_[!a]*.py", "tests/torch/test_aten_list.py", "tests/sklearn/test_*.py"),
]
HOST_TESTS = [
    "tests/hosts/test_lifetime.py",
    "tests/hosts/test_cpp_host.py::test_runs",
    "tests/hosts/test_cpp_host.py::test_an_exception_is_an_error",
    "tests/hosts/test_cpp_host.py::test_misdeeds",
    "tests/hosts/test_cpp_host.py::test_control_c_ends_the_program_as_ever",
    "tests/hosts/test_cpp_host.py::test_what_an_operator_prints_and_leaves_to_the_end",
    "tests/hosts/test_cpp_host.py::test_eight_threads",
]


def install(package: str, version: str) -> Path | None:
    """Returns the folder with that version, or None if it has no wheel for this Python."""
    folder = FOLDER / f"{package}-{version}"
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        done = subprocess.run(
            [*command, str(folder), f"{package}=={version}", "--only-binary=:all:"],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            return None
    return folder


def run_tests(*tests: str, **environment: str) -> str:
    """Returns pytest's summary, such as "430 passed"."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=REPOSITORY,
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        check=False,
    )
    print("\n".join(re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M)), file=sys.stderr)
    lines = done.stdout.strip().splitlines() or ["crashed"]
    return re.sub(r"(, \d+ deselected)? in .*", "", lines[-1].strip("= "))


def is_failure(result: str) -> bool:
    return "passed" not in result or "failed" in result or "error" in result


def find_python(version: str) -> str | None:
    """Returns the command of that version; pyenv may hide it behind a shim."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    commands = [*sorted(pyenv.glob(f"{version}.*/bin/python{version}")), f"python{version}"]
    for command in map(str, commands):
        try:
            subprocess.run([command, "-c", "import ensurepip"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return None


def make_environment(version: str, python: str) -> Path:
    """Makes a virtual environment of that Python, with a wheel of Opgraft built for it."""
    folder = FOLDER / f"python-{version}"
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    if not folder.is_dir():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        packages = ["numpy>=2", "onnx", "onnxruntime", "scikit-build-core", "nanobind", "ninja"]
        subprocess.run([*command, *packages], check=True, capture_output=True)
    command += ["--no-deps", "--no-build-isolation", "--force-reinstall"]
    command += [f"--config-settings=build-dir={folder}/build", str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "bin" / "python"


def python_table() -> int:
    """Tests C++ programs with each Python; returns the number of failures."""
    print("\n| Python of a C++ program | NumPy | tests |\n|---|---|---|", flush=True)
    failures = 0
    for version in PYTHONS:
        command = find_python(version)
        if command is None:
            print(f"| {version} | - | not on this machine |", flush=True)
            continue
        python = make_environment(version, command)
        ask = "import numpy, sysconfig; print(numpy.__version__, sysconfig.get_config_var('{}'))"
        answer = subprocess.run(
            [python, "-c", ask.format("Py_ENABLE_SHARED")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        if answer[1] != "1":
            result = "has no shared library"
        else:
            result = run_tests(*HOST_TESTS, "-k", "cpp", OPGRAFT_TEST_PYTHON=str(python))
            failures += is_failure(result)
        print(f"| {version} | {answer[0]} | {result} |", flush=True)
    return failures


def main() -> int:
    import numpy

    if sys.argv[1:] == ["pythons"]:
        return 1 if python_table() else 0
    python = ".".join(map(str, sys.version_info[:2]))
    print(f"Python {python}\n\n| ONNX Runtime | NumPy | tests |\n|---|---|---|", flush=True)
    failures = 0
    for runtime in RUNTIMES:
        for version in (
            (numpy.__version__, NUMPY) if runtime == RUNTIMES[-1] else (numpy.__version__,)
        ):
            folders = [install("onnxruntime", runtime)]
            if version == NUMPY:
                folders.append(install("numpy", version))
            found = [folder for folder in folders if folder is not None]
            missing = len(found) < len(folders)
            path = os.pathsep.join(map(str, found))
            result = "no wheel for this Python"
            if not missing:
                others = [f"--ignore-glob={test}" for test in OTHER_TESTS]
                result = run_tests("tests", *others, PYTHONPATH=path)
                failures += is_failure(result)
            print(f"| {runtime} | {version} | {result} |", flush=True)
    failures += python_table()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
