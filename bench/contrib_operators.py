"""Compares our kernels with those of ONNX Runtime and torch, one thread, float32.

The measurements of an operator are in its folder, ops/<pack>/<operator>/bench_<operator>.py, and
use ops/timing.py. `make bench` runs all, python bench/contrib_operators.py [inverse] some of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ops"))
import bench_rows


def main() -> None:
    torch.set_num_threads(1)
    print(f"Python {sys.version.split()[0]}, ONNX Runtime {onnxruntime.__version__}", end=", ")
    print(f"torch {torch.__version__}\n")
    for name, module in bench_rows.modules().items():
        if hasattr(module, "on_cpu") and name in (sys.argv[1:] or [name]):
            module.on_cpu()


if __name__ == "__main__":
    main()
