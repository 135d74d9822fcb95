"""Operators of ours that several threads of torch's and Python's call at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from eager_operators import pack_operators, python_operators

import opgraft
import opgraft.torch

torch = pytest.importorskip("torch", reason="torch is not installed")


def in_threads(count: int, body: Callable[[int], Any]) -> list[Any]:
    """What `body` gives in each thread; all begin at once."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return body(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_calls_with_attributes_and_types_of_their_own() -> None:
    dtypes = [torch.float32, torch.float64]

    def body(number: int) -> bool:
        is_right = True
        for step in range(200):
            x = torch.full((3,), float(number), dtype=dtypes[step % 2])
            factor = float(number + step % 20)
            for operators in (python_operators, pack_operators):
                y = operators.Affine(x, x, factor=factor)
                is_right &= y.tolist() == [number * number * factor] * 3 and y.dtype == x.dtype
        return is_right

    assert all(in_threads(8, body))


def test_python_goes_on_while_a_kernel_runs() -> None:
    begun = time.perf_counter()
    in_threads(4, lambda number: pack_operators.Wait(torch.ones(1)))
    assert time.perf_counter() - begun < 0.7  # in turn: 0.8


def test_gradients_in_the_threads_of_autograd() -> None:
    def body(number: int) -> bool:
        x = torch.full((4,), float(number), requires_grad=True)
        for _ in range(50):
            x.grad = None
            python_operators.Cube(python_operators.Join([x, x])).sum().backward()
        return bool(torch.equal(x.grad, torch.full((4,), 6.0 * number**2)))

    assert all(in_threads(4, body))


def test_declaring_while_others_call() -> None:
    stopped = threading.Event()
    wrong: list[float] = []

    def declare(add: int) -> None:
        @opgraft.op("threads::Changing")
        def changing(x: np.ndarray) -> np.ndarray:
            return x + x.dtype.type(add)

    def call() -> None:
        while not stopped.is_set():
            y = torch.ops.threads.Changing(torch.zeros(1)).item()
            if y not in range(100):
                wrong.append(y)

    declare(0)
    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for add in range(100):
        declare(add)
    stopped.set()
    for thread in threads:
        thread.join()
    assert not wrong and torch.ops.threads.Changing(torch.zeros(1)).item() == 99


def test_loops_of_a_kernel_in_torchs_threads() -> None:
    before = torch.get_num_threads()
    x = torch.arange(100_000, dtype=torch.float32)
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            squares, used = pack_operators.Squares(x)
            assert torch.equal(squares, x * x) and len(used.unique()) == threads
    finally:
        torch.set_num_threads(before)
