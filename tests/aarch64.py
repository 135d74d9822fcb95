"""Builds for aarch64 on another processor, and tries it under qemu: `make test-aarch64`.

Cross-built: libopgraft, opgraft._pyop, opgraft-run, our packs, all C++ tests, and the examples of a
pack and of a C++ program. Tried under qemu, with ONNX Runtime's library for aarch64 from its wheel:
the C++ tests, both examples, and Python operators in C++ and Python programs, with Debian's Python
for aarch64. All lies in build/aarch64; the system gets only the cross compiler and qemu.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "build" / "aarch64"
ROOT = FOLDER / "root"  # the C library and Python, from packages of Debian for arm64
SITE = FOLDER / "site"  # packages of Python for aarch64: ONNX Runtime, NumPy, onnx, ours
TOOLCHAIN = FOLDER / "toolchain.cmake"
COMPILER = "aarch64-linux-gnu-g++"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# The C library of Debian 12 is 2.36, so that wheels for older ones fit.
PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in range(36, 16, -1)]
PLATFORMS += ["manylinux2014_aarch64"]
# What qemu does otherwise than Linux: a program that is missing is noticed late, and
# /proc/self/cmdline has a size.
NOT_UNDER_QEMU = (
    "RunProgramTest.AMissingProgramIsNamed",
    "MappedFileTest.TakesAnEmptyFileAndOneWithoutASize",
)


def say(text: str) -> None:
    print(text, flush=True)


def run(*command: str | Path, cwd: Path = REPOSITORY, **variables: str) -> str:
    """Returns what a command prints; ends with all that it printed if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def find_emulator() -> str:
    """Returns the path of qemu; ends where it or the cross compiler is missing."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None or shutil.which(COMPILER) is None:
        sys.exit(
            "The cross compiler or qemu is missing. Fix: "
            "sudo apt-get install g++-aarch64-linux-gnu qemu-user-static"
        )
    return emulator


def fetch_root() -> None:
    """Unpacks the C library and Python for arm64, with all that they need, into ROOT.

    apt works on folders of its own, so that the system gets no second architecture.
    """
    own = FOLDER / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True, exist_ok=True)
    (own / "status").touch()
    settings = ["APT::Architecture=arm64", "APT::Architectures=arm64", "Debug::NoLocking=1"]
    settings += [f"Dir::State::lists={own}/lists", f"Dir::State::status={own}/status"]
    settings += [f"Dir::Cache={own}/cache", "APT::Sandbox::User="]
    apt = ["apt-get", "-q", *(f"-o{setting}" for setting in settings)]
    run(*apt, "update")
    if not run("apt-cache", *apt[2:], "search", "--names-only", f"^libpython{PYTHON}-dev$"):
        sys.exit(
            f"The packages of this system for arm64 have no Python {PYTHON}, which .venv has. Fix: "
            "use the system's own Python: make clean; make test-aarch64 PYTHON=/usr/bin/python3"
        )
    packages = [f"libpython{PYTHON}-dev", f"python{PYTHON}-minimal", "libstdc++6"]
    run(*apt, "-y", "--no-install-recommends", "--download-only", "install", *packages)
    for package in sorted((own / "cache" / "archives").glob("*.deb")):
        run("dpkg", "-x", package, ROOT)
    describe_processor()


def describe_processor() -> None:
    """Hides the processor of this machine, which makes ONNX Runtime end when it is loaded.

    qemu takes a file below ROOT in place of the one of this machine.
    """
    lines = ["processor : 0", "Features : fp asimd atomics", "CPU implementer : 0x41"]
    lines += ["CPU architecture: 8", "CPU variant : 0x0", "CPU part : 0xd07", "CPU revision : 0"]
    (ROOT / "proc").mkdir()
    (ROOT / "proc" / "cpuinfo").write_text("\n".join(lines) + "\n\n")
    folder = ROOT / "sys" / "devices" / "system" / "cpu"
    folder.mkdir(parents=True)
    for name in ("possible", "present"):
        (folder / name).write_text("0\n")


def fetch_site() -> None:
    """Puts the packages of the tests for aarch64 into SITE, in the versions of this environment."""
    names = ("onnxruntime", "numpy", "onnx", "ml_dtypes")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", SITE]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    run(*command, *(f"{name}=={version(name)}" for name in names))


def once(folder: Path, wanted: str, make: Callable[[], None]) -> None:
    """Calls make() with the folder empty, unless that was done before for what is wanted."""
    stamp = folder / ".made"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    stamp.write_text(wanted)


def write_toolchain(emulator: str) -> None:
    """Says how CMake compiles for aarch64; writes the python command that C++ programs ask."""
    (FOLDER / "python").write_text(
        f'#!/bin/sh\nexec {emulator} -L "{ROOT}" "{ROOT}/usr/bin/python{PYTHON}" "$@"\n'
    )
    (FOLDER / "python").chmod(0o755)
    text = f"""set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER {COMPILER})
set(CMAKE_CXX_FLAGS_INIT "-isystem {ROOT}/usr/include")  # Python's headers
set(CMAKE_CROSSCOMPILING_EMULATOR "{emulator};-L;{ROOT}")
"""
    if not TOOLCHAIN.exists() or TOOLCHAIN.read_text() != text:
        TOOLCHAIN.write_text(text)


def build(source: Path, name: str, *options: str, install: Path | None = None) -> Path:
    """Builds a CMake project for aarch64 in a folder of that name, which is returned."""
    folder = FOLDER / name
    configure = ["cmake", "-S", source, "-B", folder, f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}"]
    run(*configure, "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", folder, "--parallel", str(os.cpu_count() or 1))
    if install is not None:
        run("cmake", "--install", folder, "--prefix", install)
    return folder


def emulated(*command: str | Path, **variables: str) -> str:
    """Returns what a program for aarch64 prints."""
    variables = {"PYTHONPATH": str(SITE), "OPGRAFT_PYTHON": str(FOLDER / "python"), **variables}
    return run(find_emulator(), "-L", ROOT, *command, **variables)


def expect(what: str, printed: str, expected: str) -> bool:
    right = printed.strip() == expected.strip()
    say(f"   {what}: " + ("passed" if right else f"printed {printed!r}, not {expected!r}"))
    return right


def try_tests(folder: Path, runtime: Path) -> bool:
    """Runs the C++ tests, a program at a time: to start one takes longer than most tests."""
    provider = folder / "src" / "cuda" / "libopgraft_cuda.so"
    passed = True
    for program in (folder / "opgraft_tests", *sorted((folder / "ops").glob("*_tests"))):
        pack = program.with_name(f"lib{program.name.removesuffix('_tests')}.so")
        done = subprocess.run(
            [
                *(find_emulator(), "-L", ROOT, program, "--gtest_brief=1"),
                f"--gtest_filter=-{':'.join(NOT_UNDER_QEMU)}",
            ],
            env={
                **os.environ,
                "OPGRAFT_TEST_RUNTIME": str(runtime),
                "OPGRAFT_TEST_PACKS": str(pack),
                "OPGRAFT_TEST_CUDA": str(provider),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        count = re.search(r"\[  PASSED  \] ([1-9]\d*) tests", done.stdout)
        if done.returncode != 0 or count is None:
            say(done.stdout + done.stderr)
        say(f"   {program.name}: {count[1] if count else 'no'} tests passed")
        passed &= done.returncode == 0 and count is not None
    return passed


def try_examples(runtime: Path) -> bool:
    """Runs the examples in C++ and Python; true if each prints what it should."""
    import numpy
    import onnx
    import onnx.parser

    work = FOLDER / "work"
    work.mkdir(exist_ok=True)
    modules = f"{SITE}:{REPOSITORY}/examples/pyop"
    options = [f"-Dopgraft_DIR={SITE}/opgraft/cmake"]
    host = build(REPOSITORY / "examples" / "cpp_host", "cpp_host", *options) / "cpp_host"
    pack = build(REPOSITORY / "examples" / "custom_op_library", "custom_op_library", *options)
    pack /= "libcustom_op_library.so"
    python = ROOT / "usr" / "bin" / f"python{PYTHON}"
    write = f"import demo, onnx; onnx.save(demo.make_model(), '{work}/demo.onnx')"
    emulated(python, "-c", write, PYTHONPATH=modules)
    command = [host, runtime, work / "demo.onnx", "mymodule"]
    passed = expect(
        "Python operators, examples/pyop in examples/cpp_host",
        emulated(*command, PYTHONPATH=modules),
        "22 37 56 79 106 137",
    )
    runner = [SITE / "opgraft" / "bin" / "opgraft-run", "--onnxruntime", runtime]
    model = """<ir_version: 8, opset_import: ["": 18, "test.customop": 1]>
        graph (float[n] x) => (float[n] y) {
            sum = test.customop.CustomOpOne (x, x)
            rounded = test.customop.CustomOpTwo (sum)
            y = Cast <to = 1> (rounded) }"""
    onnx.save(onnx.parser.parse_model(model), work / "pack.onnx")
    numpy.save(work / "x.npy", numpy.float32([0.1, -1.3, 0.75]))
    command = [*runner, "--pack", pack, "--input", f"x={work}/x.npy", work / "pack.onnx"]
    passed &= expect(
        "a pack, examples/custom_op_library in opgraft-run",
        emulated(*command),
        "y float32 (3)\n0 -3 2",
    )
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (work / "example.py").write_text(re.findall(r"```python\n(.*?)```", text, re.S)[0])
    (expected,) = re.findall(r"# (\[array.*)", text)
    printed = emulated(python, work / "example.py")
    return passed & expect("the README's first example in Python", printed, expected)


def main() -> int:
    emulator = find_emulator()
    say(f"== Python {PYTHON} and its packages for aarch64")
    once(ROOT, PYTHON, fetch_root)
    wanted = " ".join([PYTHON, *(version(name) for name in ("onnxruntime", "numpy", "onnx"))])
    once(SITE, wanted, fetch_site)
    (runtime,) = SITE.glob("onnxruntime/capi/libonnxruntime.so.*")
    write_toolchain(emulator)
    say("== building for aarch64 in build/aarch64")
    tests = FOLDER / "googletest"
    build(Path("/usr/src/googletest"), "googletest_build", "-DBUILD_GMOCK=OFF", install=tests)
    (numpy_headers,) = SITE.glob("numpy/_core/include")
    options = [f"-DGTest_DIR={tests}/lib/cmake/GTest", "-DOPGRAFT_TESTS=ON", "-DOPGRAFT_CUDA=OFF"]
    options += [f"-DPython_EXECUTABLE={sys.executable}"]
    options += [f"-DPython_INCLUDE_DIR={ROOT}/usr/include/python{PYTHON}"]
    options += [f"-DPython_NumPy_INCLUDE_DIR={numpy_headers}"]
    options += [f"-DSKBUILD_SOABI=cpython-{PYTHON.replace('.', '')}-aarch64-linux-gnu"]
    options += [f"-DOPGRAFT_TEST_RUNTIME={runtime}"]
    shutil.rmtree(SITE / "opgraft", ignore_errors=True)
    shutil.copytree(REPOSITORY / "python" / "opgraft", SITE / "opgraft")
    folder = build(REPOSITORY, "opgraft", *options, install=SITE)
    say(f"== C++ tests under {Path(emulator).name}; not there: {', '.join(NOT_UNDER_QEMU)}")
    passed = try_tests(folder, runtime)
    say("== examples")
    passed &= try_examples(runtime)
    say("== not tried: GPUs, libtorch, worker processes, the Python tests, real hardware")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
