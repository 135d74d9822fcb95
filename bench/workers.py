"""Worker processes against the process itself: calls at once, the cost of a call, growth.

Both sides are measured in one run, in turn; the best of several rounds, so that other programs on
the machine disturb least. `make bench` runs it. The last table is what grows with workers: it needs
as many processors.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import opgraft

OPERATORS = '''
"""Operators for bench/workers.py, in a module that workers can import."""

import time

import numpy as np


class Busy:
    """Five milliseconds of pure Python, which hold the GIL."""

    def compute(self, x):
        number = 0
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            number += 1
        return x


class Empty:
    def compute(self, x):
        return x


class PlusOne:
    def compute(self, x):
        return x + 1
'''

CALLS = 200
ROUNDS = 3


def session(class_name: str, workers: int = 0) -> onnxruntime.InferenceSession:
    """A session of one operator, in this process or in that many workers."""
    node = helper.make_node(
        "PyOp", ["x"], ["y"], domain="bench", module="bench_operators", class_name=class_name,
        input_types=[TensorProto.FLOAT], output_types=[TensorProto.FLOAT],
    )  # fmt: skip
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "bench", values[:1], values[1:]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    settings = {"isolation": "process", "workers": workers} if workers else {}
    given = model.SerializeToString()
    return opgraft.InferenceSession(given, options, allow=["bench_operators"], **settings)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def from_threads(made: onnxruntime.InferenceSession, threads: int) -> None:
    """CALLS calls in all."""
    feed = {"x": np.zeros(1, np.float32)}

    def calls() -> None:
        for _ in range(CALLS // threads):
            made.run(None, feed)

    running = [threading.Thread(target=calls) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()


def parallel() -> None:
    inside, outside = session("Busy"), session("Busy", 2)
    from_threads(outside, 2)  # starts the workers
    times = {
        name: min(seconds(partial(from_threads, made, 2)) for _ in range(ROUNDS))
        for name, made in (("in-process", inside), ("2 workers", outside))
    }
    print(f"{CALLS} calls of an operator of 5 ms of pure Python, from 2 threads:")
    for name, took in times.items():
        print(f"  {name:<12}{took:6.2f} s")
    print(f"  {times['in-process'] / times['2 workers']:.2f} times as fast (promised: 1.8)")


def single_calls() -> None:
    print("one call, from one thread:")
    print(f"  {'floats':>10} {'in-process':>12} {'worker':>12} {'above':>12}  two copies")
    for size, class_name, repeats in ((1, "Empty", 3000), (10_000_000, "PlusOne", 8)):
        feed = {"x": np.zeros(size, np.float32)}
        target = np.empty_like(feed["x"])
        made = [session(class_name), session(class_name, 1)]
        best = [float("inf")] * 2
        for one in made:
            one.run(None, feed)
        copies = float("inf")
        for _ in range(repeats):
            for number, one in enumerate(made):
                best[number] = min(best[number], seconds(partial(one.run, None, feed)))
            copies = min(copies, 2 * seconds(partial(np.copyto, target, feed["x"])))
        inside, outside = (1e6 * one for one in best)
        print(
            f"  {size:>10,} {inside:>9,.1f} µs {outside:>9,.1f} µs {outside - inside:>9,.1f} µs"
            f"  {1e6 * copies:,.1f} µs"
        )


def growth() -> None:
    print(f"calls a second by workers, as many threads, {os.cpu_count()} processors:")
    for workers in (1, 2, 4, 8):
        made = session("Busy", workers)
        from_threads(made, workers)
        took = min(seconds(partial(from_threads, made, workers)) for _ in range(2))
        print(f"  {workers} workers {CALLS / took:8.0f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench_operators.py").write_text(OPERATORS)
        sys.path.insert(0, folder)
        parallel()
        single_calls()
        growth()


if __name__ == "__main__":
    main()
