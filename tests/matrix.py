"""The tests, with one build of Opgraft, against every ONNX Runtime and NumPy that it promises.

Run by `make test-matrix`; prints the table that docs/compatibility.md holds. The other versions are
installed beside the environment, under build/matrix, and put before it on Python's path.
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
NUMPY = "1.26.4"  # the other is that of the environment, 2.x


def install(package: str, version: str) -> Path | None:
    """The folder with that version, None where there is no wheel of it for this Python."""
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


def run_tests(folders: list[Path]) -> str:
    """The last line of pytest, such as "430 passed in 30.1s"."""
    path = os.pathsep.join(str(folder) for folder in folders)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=REPOSITORY,
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    print("\n".join(re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M)), file=sys.stderr)
    return done.stdout.strip().splitlines()[-1].strip("= ") if done.stdout.strip() else "crashed"


def main() -> int:
    import numpy

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
            result = "no wheel for this Python" if missing else run_tests(found)
            result = re.sub(r" in .*", "", result)
            failures += "passed" not in result or "failed" in result if not missing else 0
            print(f"| {runtime} | {version} | {result} |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
