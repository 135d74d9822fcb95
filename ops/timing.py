"""Times operators in sessions on the CPU, for the bench rows in their folders.

Sessions run a chain of nodes, so that the cost of a session's call, some microseconds, is shared;
the figures are for one node. Inputs and outputs are bound, so that no column includes allocation.
All columns are measured in one run, a few calls of each in turn, of which the first is not counted.
So no column is affected by the processor state that another one leaves behind; torch's MKL leaves
one in which vectors of 512 bits are slow. The figures are medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import parser

import opgraft

SECONDS = 1.5  # for each row
TURN = 4  # calls of one column before the next has its turn


def sessions(operator: str, rank: int, chain: int) -> tuple[onnxruntime.InferenceSession, ...]:
    """Returns a session with ONNX Runtime's kernel, and one with ours."""
    shape = ", ".join("abc"[:rank])
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        f"graph (float[{shape}] v0) => (float[{shape}] y) {{"
        + "".join(f" v{i + 1} = com.microsoft.{operator} (v{i})" for i in range(chain - 1))
        + f" y = com.microsoft.{operator} (v{chain - 1}) }}"
    ).SerializeToString()
    options = [onnxruntime.SessionOptions() for _ in range(2)]
    for one in options:
        one.intra_op_num_threads = one.inter_op_num_threads = 1
    return (
        onnxruntime.InferenceSession(model, options[0]),
        opgraft.InferenceSession(model, options[1], prefer=[f"com.microsoft::{operator}"]),
    )


def bound(session: onnxruntime.InferenceSession, x: np.ndarray) -> Callable[[], object]:
    """Returns a call of the session with fixed memory for input and output."""
    binding = session.io_binding()
    binding.bind_ortvalue_input("v0", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type(x.shape, x.dtype)
    binding.bind_ortvalue_output("y", y)
    return lambda: session.run_with_iobinding(binding)


def measure(columns: dict[str, Callable[[], object]], chain: int) -> dict[str, float]:
    """Returns the median of each column in seconds, for one node."""
    for call in columns.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in columns}
    end = time.perf_counter() + SECONDS
    while len(times["ours"]) < TURN or time.perf_counter() < end:
        for name, call in columns.items():
            call()
            for _ in range(TURN):
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) / chain for name, taken in times.items()}
