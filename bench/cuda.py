"""Our operators on a GPU against torch, CuPy and a copy on the device.

Times of the device are medians, ours by replays of a CUDA graph of bound runs, torch's and CuPy's
by events around a call, as torch.linalg.inv cannot be captured; what is captured on both sides, or
timed by events on both, is said at its table. Times of a call are those of many calls, one after
another, on the host's clock, with one synchronisation at the end. All columns of a row are measured
in one run. Run it where there is a GPU: python bench/cuda.py [inverse] [gelu] [node] [python]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import onnxruntime
from onnx import parser
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

import opgraft

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]
INVERSES = [
    *((n, batch) for batch in (20_000, 100_000) for n in (2, 3, 4, 8, 16, 32, 64)),
    *((256, 1), (256, 100), (1024, 1), (1024, 4)),
]
SECONDS = 0.15  # for each way of measuring
IN_GRAPH = 10  # calls that a graph holds
CALLS = 2_000
ROUNDS = 9
FLOATS = 1_024

Call = Callable[[], object]


def session(node: str, kind: str, rank: int) -> opgraft.InferenceSession:
    shape = ", ".join("abc"[:rank])
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "bench": 1]>'
        f"graph ({kind}[{shape}] x) => ({kind}[{shape}] y) {{ y = {node} (x) }}"
    )
    return opgraft.InferenceSession(
        model.SerializeToString(), providers=PROVIDERS, prefer=["com.microsoft"]
    )


def bound(one: opgraft.InferenceSession, x: Any, y: Any, stream: Any = None) -> Call:
    """A run from and to tensors of torch's, on a stream, or on the one that is current by then."""
    binding = one.io_binding()
    to_value = runtime.OrtValue.from_dlpack
    binding._iobinding.bind_ortvalue_input("x", to_value(torch.utils.dlpack.to_dlpack(x), False))
    binding._iobinding.bind_ortvalue_output("y", to_value(torch.utils.dlpack.to_dlpack(y), False))
    current = torch.cuda.current_stream
    return lambda: one.run_with_iobinding(binding, stream=stream or current())


def between_events(call: Call) -> float:
    """Microseconds on the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def by_events(call: Call) -> float:
    for _ in range(2):
        call()
    once = between_events(call)
    count = int(min(max(SECONDS * 1e6 / once, 3), 100))
    return statistics.median(between_events(call) for _ in range(count))


def by_graph(call: Call) -> float:
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    calls = IN_GRAPH if between_events(call) < 5_000 else 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return by_events(graph.replay) / calls


def on_clock(columns: dict[str, Call]) -> dict[str, float]:
    """Microseconds of one call on the host's clock, the columns in turn; medians of rounds."""
    times: dict[str, list[float]] = {name: [] for name in columns}
    for call in columns.values():
        for _ in range(50):
            call()
    for _ in range(ROUNDS):
        for name, call in columns.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: statistics.median(taken) for name, taken in times.items()}


def matrices(n: int, batch: int) -> Any:
    """Well conditioned, but with rows in another order, which the elimination has to find."""
    x = torch.randn(batch, n, n, device="cuda") + 2 * n * torch.eye(n, device="cuda")
    return x[:, torch.randperm(n, device="cuda")].contiguous()


def inverse() -> None:
    try:
        import cupy
    except ImportError:
        cupy = None
    one = session("com.microsoft.Inverse", "float", 3)
    print("Inverse, us on the device: ours by graph (and by events), theirs by events")
    print("| n | batch | **ours** | by events | torch | CuPy | torch / ours | CuPy / ours |")
    print("|---|---|---|---|---|---|---|---|")
    for n, batch in INVERSES:
        x = matrices(n, batch)
        y = torch.empty_like(x)
        call = bound(one, x, y)
        call()
        torch.testing.assert_close(y, torch.linalg.inv(x), rtol=1e-3, atol=1e-4)
        ours, events = by_graph(call), by_events(call)
        theirs = by_events(lambda x=x: torch.linalg.inv(x))  # type: ignore[misc]
        cells = ["-", "-"]
        if cupy is not None:
            stream = torch.cuda.current_stream().cuda_stream
            with cupy.cuda.ExternalStream(stream):
                array = cupy.from_dlpack(x)
                taken = by_events(lambda a=array: cupy.linalg.inv(a))  # type: ignore[misc]
            cells = [f"{taken:,.1f}", f"{taken / ours:.1f}"]
            cupy.get_default_memory_pool().free_all_blocks()
        print(
            f"| {n} | {batch:,} | **{ours:,.1f}** | {events:,.1f} | {theirs:,.1f} | {cells[0]} "
            f"| {theirs / ours:.1f} | {cells[1]} |",
            flush=True,
        )
    print()


def gelu() -> None:
    size = 1 << 28
    print(f"Gelu of {size:,} elements, us on the device by events; a copy in a graph is slower")
    print("| type | **ours** | ours by graph | copy | copy by graph | torch | share of a copy |")
    print("|---|---|---|---|---|---|---|")
    for kind, dtype in (
        ("float", torch.float32),
        ("float16", torch.float16),
        ("bfloat16", torch.bfloat16),
    ):
        x = torch.randn(size, device="cuda", dtype=dtype)
        y = torch.empty_like(x)
        call = bound(session("com.microsoft.Gelu", kind, 1), x, y)
        call()
        part = slice(0, 1 << 20)
        expected = torch.nn.functional.gelu(x[part].double())
        torch.testing.assert_close(y[part].double(), expected, rtol=2e-2, atol=1e-6)

        def copy(x: Any = x, y: Any = y) -> None:
            y.copy_(x)

        ours, theirs = by_events(call), by_events(copy)
        others = by_events(lambda x=x: torch.nn.functional.gelu(x))  # type: ignore[misc]
        print(
            f"| {kind} | **{ours:,.1f}** | {by_graph(call):,.1f} | {theirs:,.1f} "
            f"| {by_graph(copy):,.1f} | {others:,.1f} | {theirs / ours:.1%} |",
            flush=True,
        )
    print()


def node() -> None:
    print(f"One node per run, bound, {FLOATS:,} floats, us of a call on the host's clock")
    print("| | **ours** | torch eager | ours / torch |")
    print("|---|---|---|---|")
    x = torch.randn(FLOATS, device="cuda")
    y = torch.empty_like(x)
    stream = torch.cuda.current_stream()
    square = torch.randn(1, 32, 32, device="cuda")
    rows: dict[str, tuple[Call, Call]] = {
        "Gelu": (
            bound(session("com.microsoft.Gelu", "float", 1), x, y, stream),
            lambda: torch.nn.functional.gelu(x),
        ),
        "Trilu": (
            bound(
                session("com.microsoft.Trilu", "float", 3), square, torch.empty_like(square), stream
            ),
            lambda: torch.triu(square),
        ),
    }
    for name, (ours, theirs) in rows.items():
        taken = on_clock({"ours": ours, "torch": theirs})
        print(f"| {name} | **{taken['ours']:.2f}** | {taken['torch']:.2f} "
              f"| {taken['ours'] / taken['torch']:.2f} |", flush=True)  # fmt: skip
    print()


def python() -> None:
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
    sys.path.pop(0)  # this folder, whose cuda.py CuPy would take for a package of NVIDIA's
    print(f"{torch.cuda.get_device_name()}, Python {sys.version.split()[0]}", end=", ")
    print(f"ONNX Runtime {onnxruntime.__version__}, torch {torch.__version__}\n")
    parts = {"inverse": inverse, "gelu": gelu, "node": node, "python": python}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
