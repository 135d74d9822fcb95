"""Functions of standard ONNX that sort, scan, search and gather, against the ATen node.

The ratios of the times of one call, function over ATen node, with 1, 1,000 and 1,000,000 elements:
float32, one thread, both in one run and in turn, the best of several. A function slower than 10
times the ATen node at 1,000 elements is no gain; one slower than twice is told in docs/torch.md.

    python bench/portable_orders.py --only "cummax|median"
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch

import opgraft
import opgraft.torch

SIZES = (1, 1_000, 1_000_000)
TURNS = 5

F = torch.nn.functional
Inputs = Callable[[int], tuple[torch.Tensor, ...]]


def one(count: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(count),)


def two(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count), torch.randn(count)


def runs(count: int) -> tuple[torch.Tensor, ...]:
    return (torch.arange(count).div(3, rounding_mode="floor").float(),)


def edges(count: int) -> tuple[torch.Tensor, ...]:
    return torch.linspace(-3, 3, count), torch.randn(count)


def places(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count), torch.randint(0, count, (count,)), torch.randn(count)


def image(count: int) -> tuple[torch.Tensor, ...]:
    side = max(round(count**0.5), 1)
    return (torch.randn(1, 1, side, side),)


def volume(count: int) -> tuple[torch.Tensor, ...]:
    side = max(round(count ** (1 / 3)), 1)
    return torch.randn(1, 1, side, side, side), torch.rand(1, side, side, side, 3) * 2 - 1


def segments(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count), torch.full((max(count // 10, 1),), min(count, 10))


def observed(count: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(max(min(count // 2, 10), 1), max(count // 10, 2)),)


def pooled(x: torch.Tensor) -> Any:
    return F.adaptive_max_pool2d(x, min(7, x.shape[-1]), return_indices=True)


CASES: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "kthvalue": (lambda x: torch.kthvalue(x, (x.shape[0] + 1) // 2), one),
    "median": (torch.median, one),
    "median.dim": (lambda x: torch.median(x, 0), one),
    "nanmedian": (torch.nanmedian, one),
    "mode": (lambda x: torch.mode(x, 0), runs),
    "cummax": (lambda x: torch.cummax(x, 0), one),
    "cummin": (lambda x: torch.cummin(x, 0), one),
    "searchsorted": (torch.searchsorted, edges),
    "bucketize, 16 edges": (lambda e, x: torch.bucketize(x, e[:16]), edges),
    "unique_consecutive": (torch.unique_consecutive, runs),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), one),
    "nonzero_static": (lambda x: torch.nonzero_static(x, size=10), one),
    "amax": (torch.amax, one),
    "fmax": (torch.fmax, two),
    "index_reduce amax": (lambda x, i, s: x.index_reduce(0, i, s, "amax"), places),
    "index_reduce mean": (lambda x, i, s: x.index_reduce(0, i, s, "mean"), places),
    "scatter_reduce amax": (lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), places),
    "put": (torch.put, places),
    "segment_reduce": (
        lambda x, n: torch.segment_reduce(x, "sum", lengths=n, unsafe=True),
        segments,
    ),
    "histogram": (lambda x: torch.histogram(x, 10, range=(-3.0, 3.0)), one),
    "adaptive_max_pool2d": (pooled, image),
    "grid_sampler_3d": (lambda v, g: torch.grid_sampler_3d(v, g, 0, 0, False), volume),
    "frexp": (torch.frexp, one),
    "nextafter": (torch.nextafter, two),
    "copysign": (torch.copysign, two),
    "cov": (torch.cov, observed),
}


def session(
    function: Callable[..., Any], args: Sequence[torch.Tensor], kind: str
) -> Callable[[], object]:
    """A call of the model; `kind` is the rung that its operator must be on."""
    program = opgraft.torch.export(
        lambda *xs: function(*xs), tuple(args), verify=False, progress=False, fallback=(kind,)
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    made = opgraft.InferenceSession(
        program.model_proto.SerializeToString(), options, allow=program.report.allow
    )
    feed = {put.name: x.numpy() for put, x in zip(made.get_inputs(), args, strict=True)}
    return lambda: made.run(None, feed)


def seconds(call: Callable[[], object], least: float = 0.03) -> float:
    begin, count = time.perf_counter(), 0
    while count < 2 or time.perf_counter() - begin < least:
        call()
        count += 1
    return (time.perf_counter() - begin) / count


def ratio(function: Callable[..., Any], inputs: Inputs, size: int) -> float:
    torch.manual_seed(0)
    args = inputs(size)
    calls = {kind: session(function, args, kind) for kind in ("function", "aten")}
    best = dict.fromkeys(calls, np.inf)
    for _ in range(TURNS):
        for kind, call in calls.items():
            best[kind] = min(best[kind], seconds(call))
    return float(best["function"] / best["aten"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for the names")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="such as 1,1000")
    options = parser.parse_args()
    sizes = [int(one) for one in options.sizes.split(",")]
    torch.set_num_threads(1)
    print("| operator | " + " | ".join(f"{size:,}" for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name, (function, inputs) in CASES.items():
        if re.search(options.only, name):
            cells = " | ".join(f"{ratio(function, inputs, size):.2f}" for size in sizes)
            print(f"| `{name}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
