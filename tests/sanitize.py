"""Builds everything with sanitizers, apart from the ordinary build, and runs the tests with it.

    python tests/sanitize.py address    # `make test-asan`: address and undefined behaviour
    python tests/sanitize.py thread     # `make test-tsan`

Python and ONNX Runtime are not sanitized, so the sanitizer's library is preloaded; it checks our
code and calls of the C library. Its reports go to files, because a test may expect a process to
fail. Arguments after the first are passed to pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from shutil import copytree, rmtree

REPOSITORY = Path(__file__).resolve().parents[1]
SUPPRESSIONS = REPOSITORY / "tests" / "thread_sanitizer.txt"
LEAKS = REPOSITORY / "tests" / "leak_sanitizer.txt"

FINDING = re.compile(r"ERROR: |WARNING: ThreadSanitizer")

KINDS = {
    # The sanitizer delays freeing memory, so memory grows, and it handles faults itself.
    "address": (
        "asan",
        "address,undefined",
        "libasan.so",
        "not take_memory and not takes_more_memory and not memory_does_not_grow "
        "and not memory_of_the_fake_faults",
    ),
    # It does not see that ONNX Runtime orders a run on its own threads after making the session;
    # and a process with threads cannot fork.
    "thread": (
        "tsan",
        "thread",
        "libtsan.so",
        "(thread or overlap or gil) and not async and not other_threads_at_exit and not fork",
    ),
}


def compile_options(sanitizers: str) -> list[str]:
    """Returns the options that CMakeLists.txt uses for our code, for the packs that tests build."""
    options = [f"-fsanitize={sanitizers}", "-fno-sanitize=null", "-fno-sanitize-recover=all"]
    if "undefined" in sanitizers:
        options.append("-fsanitize-undefined-trap-on-error")
    # With a sanitizer, GCC 12 warns about values that std::variant never reads.
    return [*options, "-fno-omit-frame-pointer", "-g", "-Wno-maybe-uninitialized"]


def build(folder: Path, sanitizers: str) -> None:
    configure = ["cmake", "-S", str(REPOSITORY), "-B", str(folder), "-DOPGRAFT_TESTS=ON"]
    configure += [f"-DOPGRAFT_SANITIZE={sanitizers}", f"-DPython_EXECUTABLE={sys.executable}"]
    if "undefined" in sanitizers:  # it ignores log_path; the other sanitizer logs a trap
        configure += ["-DCMAKE_CXX_FLAGS=-fsanitize-undefined-trap-on-error"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    make = ["cmake", "--build", str(folder), "--parallel", "2"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)


def environment_with(folder: Path) -> Path:
    """Returns the Python of an environment with this build, and all else from the current one."""
    environment = folder / "venv"
    if not environment.is_dir():
        venv.create(environment, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = environment / "lib" / version / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    rmtree(packages / "opgraft", ignore_errors=True)
    copytree(REPOSITORY / "python" / "opgraft", packages / "opgraft")
    install = ["cmake", "--install", str(folder), "--prefix", str(packages)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    python = environment / "bin" / "python"
    command = environment / "bin" / "opgraft"
    command.write_text(f"#!{python}\nfrom opgraft._command import main\nraise SystemExit(main())\n")
    command.chmod(0o755)
    return python


def library(name: str) -> str:
    """Returns the real path of a library of the compiler."""
    answer = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return str(Path(answer.stdout.strip()).resolve())


def main() -> int:
    name, sanitizers, runtime, chosen = KINDS[sys.argv[1]]
    folder = REPOSITORY / "build" / name
    print(
        f"== building with -fsanitize={sanitizers} in {folder.relative_to(REPOSITORY)}", flush=True
    )
    build(folder, sanitizers)
    findings = folder / "findings"
    rmtree(findings, ignore_errors=True)
    findings.mkdir()
    logged = f"log_path={findings}/report:exitcode=99"
    options = {
        "ASAN_OPTIONS": f"{logged}:allocator_may_return_null=1:handle_sigill=1",
        "LSAN_OPTIONS": f"suppressions={LEAKS}:print_suppressions=0",
        # A mutex that ONNX Runtime locks and libstdc++ unlocks in a wait is only half seen.
        "TSAN_OPTIONS": f"{logged}:suppressions={SUPPRESSIONS}:report_mutex_bugs=0",
    }
    print("== C++ tests", flush=True)
    failed = subprocess.run(
        # The test copies up to the memory limit; a sanitizer needs several times as much.
        [
            *"ctest --output-on-failure --progress -E CopiesComeToALimit".split(),
            "--test-dir",
            folder,
        ],
        env={**os.environ, **options},
        check=False,
    ).returncode
    print(f"== Python tests: -k '{chosen}'", *sys.argv[2:], flush=True)
    python = environment_with(folder)
    options["ASAN_OPTIONS"] += ":detect_leaks=0"  # Python does not free everything at exit
    options["OPGRAFT_TEST_PACK_FLAGS"] = " ".join(compile_options(sanitizers))
    options["LD_PRELOAD"] = f"{library(runtime)} {library('libstdc++.so')}"
    failed |= subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *sys.argv[2:]],
        cwd=REPOSITORY,
        env={**os.environ, **options},
        check=False,
    ).returncode
    texts = {path.name: path.read_text(errors="replace") for path in sorted(findings.iterdir())}
    # A failed allocation is not a finding: some tests cause it on purpose.
    reports = {name: text for name, text in texts.items() if FINDING.search(text)}
    for report, text in reports.items():
        print(f"== {report}\n{text[:5000]}")
    print(f"== {len(reports)} reports of the sanitizer")
    return 1 if failed or reports else 0


if __name__ == "__main__":
    sys.exit(main())
