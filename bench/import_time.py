"""The time of `import opgraft` beyond `import onnxruntime`: milliseconds, each in a new process.

All are run in turn; medians. Parts that are imported on first use are not counted:
`opgraft.InferenceSession` has a row of its own. `make bench` runs it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

TURNS = 15
PROGRAMS = {
    "import onnxruntime": "import onnxruntime",
    "import opgraft, onnxruntime": "import opgraft, onnxruntime",
    "... and opgraft.InferenceSession": "import opgraft, onnxruntime; opgraft.InferenceSession",
    "... and opgraft.op": "import opgraft, onnxruntime; opgraft.InferenceSession; opgraft.op",
}


def import_time(program: str) -> float:
    code = (
        f"import time; start = time.perf_counter(); {program}; print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1000


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(TURNS):
        for name, program in PROGRAMS.items():
            taken[name].append(import_time(program))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    first = next(iter(medians.values()))
    print("| program | ms | over onnxruntime alone |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.0f} | {median - first:+.1f} |")


if __name__ == "__main__":
    main()
