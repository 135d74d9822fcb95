"""Runs ATen nodes of the operators that src/aten/guards.cc checks with corrupted arguments.

    python tests/aten_hostile.py [--count N] [operator...]

Each operator's valid calls (tests/aten_calls.py) are run, then changed: every argument is replaced
by every hostile value, then several at once, N times for each valid call (80 by default). They run
in a separate process, which must not end, with tests/fence.c around each tensor, so that a read
beyond its end ends the process. A result with uninitialised memory is a failure as well.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import aten_models
import numpy as np
import torch
from aten_calls import Call, good_calls
from torch.utils._pytree import tree_map

import opgraft
from opgraft.torch._rungs._aten import Output

IS_FENCED = "fence" in os.environ.get("LD_PRELOAD", "")
SECONDS = 5  # for one call; a call that takes longer is harmless
MEMORY = 3 << 30  # an operator that wants more does not get it
INTEGERS = [-1, 0, 1, 2, 3, 7, 100, 1000003, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -2]
INTEGERS += [-(2**31), -(2**63)]
REALS = [0.0, -0.0, -1.0, 1.0, 0.5, 2.0, 1e-6, 1e-30, 5e-324, 1e30, 1e300, -1e300]
REALS += [float("inf"), float("-inf"), float("nan")]
ELEMENTS = [float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 0.0, -1.0, 2.0**31, -(2.0**63)]
TYPES = [torch.int64, torch.int32, torch.uint8, torch.float64, torch.float16, torch.bool]
TYPES += [torch.float32, torch.complex64, torch.uint16, torch.uint32, torch.uint64]

Arguments = dict[str, Any]
Spoiled = tuple[Arguments, list[str]]  # with the types of the results


def spoiled_tensors(tensor: torch.Tensor) -> Iterator[Any]:
    yield None
    for axis in range(tensor.dim()):
        yield tensor.narrow(axis, 0, 0)
        yield tensor.unsqueeze(axis)
        if tensor.numel():
            yield tensor.narrow(axis, 0, tensor.size(axis) - 1)
            yield tensor.narrow(axis, 0, 1)
            yield torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
            yield torch.cat([tensor] * 40, axis)
            yield tensor.select(axis, 0)
    yield tensor.reshape(-1)
    yield torch.empty(0, dtype=tensor.dtype)
    if tensor.dim() >= 2:
        yield tensor.transpose(-1, -2)
        yield tensor.transpose(0, -1)
    yield from (tensor.to(dtype) for dtype in TYPES if dtype != tensor.dtype)
    yield from spoiled_elements(tensor)


def spoiled_elements(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if tensor.numel() == 0 or tensor.dtype == torch.bool:
        return
    elements: list[Any] = ELEMENTS
    if not (tensor.is_floating_point() or tensor.is_complex()):
        limits = torch.iinfo(tensor.dtype)
        elements = [one for one in INTEGERS if limits.min <= one <= limits.max]
        elements += [limits.min, limits.max]
    for element in elements:
        yield torch.full_like(tensor, element)
        for place in {0, tensor.numel() // 2, tensor.numel() - 1}:
            changed = tensor.clone().contiguous()
            changed.view(-1)[place] = element
            yield changed


def spoiled(value: Any) -> Iterator[Any]:
    """Returns values of the same kind that may replace it, most of them wrong."""
    if isinstance(value, torch.Tensor):
        yield from spoiled_tensors(value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        near = [value + 1, value - 1, -value, value * 2]
        yield from (one for one in [*INTEGERS, *near] if -(2**63) <= one < 2**63)
    elif isinstance(value, float):
        yield from [*REALS, -value, value * 2, value / 2]
    elif isinstance(value, list):
        yield from ([], value[:-1], value[1:], value + value[-1:], value[::-1])
        for place, item in enumerate(value):
            for one in spoiled(item):
                if one is not None:
                    yield [*value[:place], one, *value[place + 1 :]]


def spoiled_calls(overload: Any, call: Call, count: int, seed: int) -> list[Arguments]:
    """Returns the valid call itself, then changed ones."""
    schema = overload._schema.arguments
    names = [argument.name for argument in schema]
    good = {one.name: one.default_value for one in schema if one.has_default_value()}
    good |= dict(zip(names, call[0], strict=False)) | call[1]
    values = {name: list(spoiled(value)) for name, value in good.items()}
    single = [good | {name: one} for name in values for one in values[name]]
    chance = random.Random(seed)
    several = []
    usable = [name for name in values if values[name]]
    for _ in range(count // 2):
        chosen = chance.sample(usable, min(len(usable), chance.choice([2, 2, 3])))
        several.append(good | {name: chance.choice(values[name]) for name in chosen})
    made = single + several
    return [good, *chance.sample(made, min(count, len(made)))]


def fenced(array: np.ndarray) -> np.ndarray:
    """Returns a copy that ends at the end of a page."""
    if not IS_FENCED or array.size == 0:
        return array
    allocate = ctypes.CDLL(None).fence_allocate
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
    memory = (ctypes.c_char * array.nbytes).from_address(allocate(array.nbytes, array.itemsize))
    copy = np.frombuffer(memory, array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run(overload: Any, arguments: Arguments, dtypes: list[str]) -> str:
    """Returns "ran", "refused" or, if the result has unwritten memory, "uninitialized"."""
    args = [arguments[one.name] for one in overload._schema.arguments if not one.kwarg_only]
    kwargs = {one.name: arguments[one.name] for one in overload._schema.arguments if one.kwarg_only}
    results = [Output(dtype) for dtype in dtypes]
    came = []
    try:
        case = aten_models.of_call(
            overload, args, kwargs, results=results if len(results) > 1 else results[0]
        )
        session = opgraft.InferenceSession(case.model)
        feed = {name: fenced(array) for name, array in case.feed.items()}
        for byte in (0x7F, 0x3D) if IS_FENCED else (0,):
            torch.manual_seed(1)
            if IS_FENCED:
                ctypes.CDLL(None).fence_enable(1, byte)
            try:
                outputs = session.run(None, feed)
            finally:
                if IS_FENCED:
                    ctypes.CDLL(None).fence_enable(0, 0)
            came.append([np.array(output).tobytes() for output in outputs])
    except opgraft.Error:
        return "refused"
    return "ran" if all(one == came[0] for one in came) else "uninitialized"


def attempt(overload: Any, calls: list[Spoiled], log: IO[str]) -> None:
    """Runs in a separate process. The log has the running call, and the results of the others."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    came = []
    for arguments, dtypes in calls:
        signal.alarm(SECONDS)
        came.append(run(overload, arguments, dtypes))
        log.seek(0)
        log.write(" ".join(came))
        log.flush()
    os._exit(0)


def describe(value: Any) -> str:
    def short(one: Any) -> Any:
        is_tensor = isinstance(one, torch.Tensor)
        return f"{one.dtype}{list(one.shape)}" if is_tensor else one

    return str(tree_map(short, value))[:500]


def try_calls(overload: Any, calls: list[Spoiled]) -> tuple[list[str], int]:
    """Returns the failures, and how many calls ran."""
    wrong, ran = [], 0
    while calls:
        with tempfile.TemporaryFile("w+") as log:
            sys.stdout.flush()
            process = os.fork()
            if process == 0:
                try:
                    attempt(overload, calls, log)
                finally:
                    os._exit(3)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            log.seek(0)
            came = log.read().split()
        ran += came.count("ran")
        wrong += [
            f"uninitialized: {describe(call[0])}"
            for call, what in zip(calls, came, strict=False)
            if what == "uninitialized"
        ]
        if code not in (0, -signal.SIGALRM):
            end = signal.Signals(-code).name if code < 0 else f"exit {code}"
            wrong.append(f"{end}: {describe(calls[len(came)][0])}")
        calls = calls[len(came) + 1 :] if code else []
    return wrong, ran


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    if not os.environ.get("LD_PRELOAD"):  # a sanitizer cannot be combined with it
        with tempfile.TemporaryDirectory() as folder:
            fence, source = Path(folder) / "fence.so", Path(__file__).with_name("fence.c")
            subprocess.run(
                ["cc", "-O1", "-shared", "-fPIC", "-o", fence, source, "-ldl"], check=True
            )
            command = [sys.executable, *sys.argv]
            return subprocess.run(command, env={**os.environ, "LD_PRELOAD": fence}).returncode
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    failures = 0
    for name, good in good_calls().items():
        if options.operators and name not in options.operators:
            continue
        base, _, overload_name = name.partition(".")
        overload = getattr(getattr(torch.ops.aten, base), overload_name or "default")
        calls: list[Spoiled] = []
        for seed, call in enumerate(good):
            given = overload(*call[0], **call[1])
            results = given if isinstance(given, (tuple, list)) else [given]
            dtypes = [str(one.dtype).removeprefix("torch.") for one in results]
            made = spoiled_calls(overload, call, options.count, seed)
            calls += [(arguments, dtypes) for arguments in made]
        wrong, ran = try_calls(overload, calls)
        print(f"{name}: {len(calls)} calls, {ran} ran, {len(wrong)} failed", flush=True)
        print("".join(f"    {one}\n" for one in wrong), end="", flush=True)
        failures += len(wrong)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
