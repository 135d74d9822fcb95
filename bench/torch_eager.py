"""The cost of an operator in torch's eager mode: y = -x in float32, microseconds per call, by size.

Compares the same NumPy function with `torch.library.custom_op` and with `@opgraft.op`, and torch's
own `aten::neg` with a C++ operator of a pack; all are called as
`torch.ops.<namespace>.<name>.default`. One thread, medians over blocks of calls, the columns in
turn. `make bench` runs it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import opgraft
import opgraft.torch

SIZES = (1, 1_000)
CALLS, BLOCKS = 50, 1_000

PACK = """
#include <opgraft/op.h>

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("bench.pack::Negate").Input<T>("x").Output<T>("y").Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = -x[i];
    });
"""


@torch.library.custom_op("bench::negate", mutates_args=())
def negate(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.negative(x.numpy()))


@opgraft.op("bench::Negate", shape=lambda x: x)
def negate_array(x: np.ndarray) -> np.ndarray:
    return np.negative(x)


def load_pack() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "negate.cc")
        source.write_text(PACK)
        command = [sys.executable, "-m", "opgraft", "build", str(source)]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        opgraft.load(Path(folder, "libnegate.so"))


def measure(operators: list[Callable[..., torch.Tensor]], size: int) -> list[float]:
    x = torch.rand(size)
    times: list[list[float]] = [[] for _ in operators]
    for _ in range(BLOCKS):
        for operator, taken in zip(operators, times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                operator(x)
            taken.append((time.perf_counter() - start) / CALLS * 1e6)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    torch.set_num_threads(1)
    load_pack()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, NumPy {np.__version__}\n")
    print(
        "| floats | custom_op | @opgraft.op | @opgraft.op / custom_op | aten::neg | pack "
        "| pack / aten::neg |\n|---|---|---|---|---|---|---|"
    )
    operators = [
        torch.ops.bench.negate.default,
        torch.ops.bench.Negate.default,
        torch.ops.aten.neg.default,
        torch.ops.bench_pack.Negate.default,
    ]
    for size in SIZES:
        x = torch.rand(size)
        for operator in operators:
            assert torch.equal(operator(x), -x)
        custom, ours, neg, pack = measure(operators, size)
        print(
            f"| {size:,} | {custom:.2f} | {ours:.2f} | {ours / custom:.2f} | {neg:.2f} "
            f"| {pack:.2f} | {pack / neg:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
