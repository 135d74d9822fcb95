"""Times operators in sessions on a GPU, for the bench rows in their folders.

Times on the device are medians, by replays of a CUDA graph of bound runs, or by events around a
call. Times of a call are measured over many consecutive calls, by the host's clock, with one
synchronisation at the end.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from onnx import parser
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

import opgraft

PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]
SECONDS = 0.15  # for each way of measuring
IN_GRAPH = 10  # calls in one graph
CALLS = 2_000
ROUNDS = 9

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
    """Returns a run with torch tensors, on a stream, or on the one that is current at the call."""
    binding = one.io_binding()
    to_value = runtime.OrtValue.from_dlpack
    binding._iobinding.bind_ortvalue_input("x", to_value(torch.utils.dlpack.to_dlpack(x), False))
    binding._iobinding.bind_ortvalue_output("y", to_value(torch.utils.dlpack.to_dlpack(y), False))
    current = torch.cuda.current_stream
    return lambda: one.run_with_iobinding(binding, stream=stream or current())


def between_events(call: Call) -> float:
    """Returns microseconds on the device."""
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
    """Returns microseconds of one call by the host's clock: medians of rounds over the columns."""
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
