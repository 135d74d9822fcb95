"""Compares our operators on a GPU with torch, CuPy and a copy on the device.

Device times are medians: ours from replays of a CUDA graph of bound runs, those of torch and CuPy
from events around a call, because torch.linalg.inv cannot be captured. Tables whose columns are
both captured, or both timed by events, say so. Times of a call are taken on the host's clock, over
many calls in a row with one synchronisation at the end. All columns of a row are measured in one
run. The measurements of an operator are in its folder, bench_<operator>.py. Run it on a machine
with a GPU: python bench/cuda.py [inverse] [gelu] [node] [python]
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime

import opgraft

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

sys.path.append(str(Path(__file__).resolve().parent.parent / "ops"))
import bench_rows

FLOATS = 1_024


def node() -> None:
    from gpu_timing import on_clock

    print(f"One node per run, bound, {FLOATS:,} floats, us of a call on the host's clock")
    print("| | **ours** | torch eager | ours / torch |")
    print("|---|---|---|---|")
    for name, module in bench_rows.modules().items():
        if not hasattr(module, "one_node_on_gpu"):
            continue
        ours, theirs = module.one_node_on_gpu()
        taken = on_clock({"ours": ours, "torch": theirs})
        print(f"| {name.capitalize()} | **{taken['ours']:.2f}** | {taken['torch']:.2f} "
              f"| {taken['ours'] / taken['torch']:.2f} |", flush=True)  # fmt: skip
    print()


def python() -> None:
    from gpu_timing import bound, on_clock, session

    @opgraft.op("bench::Twice", shape=lambda x: x, device="cuda")
    def twice(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, 2, out=out)

    x = torch.randn(FLOATS, device="cuda")
    y = torch.empty_like(x)
    call = bound(session("bench.Twice", "float", 1), x, y, torch.cuda.current_stream())
    call()
    torch.testing.assert_close(y, x * 2)
    other = torch.empty_like(x)
    taken = on_clock({"ours": call, "torch": lambda: torch.mul(x, 2, out=other)})
    print(f"A Python operator with out=, {FLOATS:,} floats, us of a call on the host's clock")
    print("| **ours** | torch.mul(out=) | above it |")
    print("|---|---|---|")
    print(f"| **{taken['ours']:.2f}** | {taken['torch']:.2f} "
          f"| {taken['ours'] - taken['torch']:.2f} |\n", flush=True)  # fmt: skip


def main() -> None:
    if torch is None or not torch.cuda.is_available():
        print("skipped: there is no GPU, or torch cannot use it")
        return
    sys.path.pop(0)  # this folder, whose cuda.py CuPy would take for NVIDIA's package
    print(f"{torch.cuda.get_device_name()}, Python {sys.version.split()[0]}", end=", ")
    print(f"ONNX Runtime {onnxruntime.__version__}, torch {torch.__version__}\n")
    rows = bench_rows.modules().items()
    parts = {name: module.on_gpu for name, module in rows if hasattr(module, "on_gpu")}
    parts |= {"node": node, "python": python}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
