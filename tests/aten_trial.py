"""Calls the operators that ATen nodes may run with invalid arguments, and names those that end the
process: each needs a check in src/aten/guards.cc, or must not be on the list.

    python tests/aten_trial.py [operator...]

The calls come from torch's own samples (which need the package expecttest) and are changed at
random: sizes, types, indices, numbers. Each operator has a separate process. TRIES and SEED are
environment variables. Operators that run for long are named too, but they are harmless.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from typing import Any

import aten_models
import aten_operators
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import opgraft
from opgraft.torch._rungs._aten import Output

TRIES = int(os.environ.get("TRIES", "100"))
SEED = int(os.environ.get("SEED", "1"))
SECONDS = 60
MEMORY = 6 << 30  # an operator that wants more does not get it
CALLS = 25  # calls of each operator to start from
NUMBERS = [-1, 0, 1, 2, 3, 100, 1000003, 2**31 - 1, 2**31, 2**62, -(2**63)]

Calls = dict[str, list[tuple[list[Any], dict[str, Any]]]]


class Recorder(TorchDispatchMode):
    """Records the calls of operators that are on the list."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.calls: Calls = {name: [] for name in names}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::").removesuffix(".default")
        noted = self.calls.get(name)
        if noted is not None and len(noted) < CALLS:
            args_copy, kwargs_copy = tree_map(_copy, (list(args), dict(kwargs)))
            noted.append((args_copy, kwargs_copy))
        return func(*args, **kwargs)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def record(names: set[str]) -> Calls:
    recorder = Recorder(names)
    for operator in op_db:
        for dtype in (torch.float32, torch.int64, torch.complex64):
            if dtype not in operator.supported_dtypes("cpu"):
                continue
            try:
                samples = zip(range(6), operator.sample_inputs("cpu", dtype), strict=False)
                for _, sample in samples:
                    with recorder:
                        operator(sample.input, *sample.args, **sample.kwargs)
            except Exception as error:
                print(f"{operator.name}: no samples ({type(error).__name__})")
    return {name: calls for name, calls in recorder.calls.items() if calls}


def change_tensor(chance: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    choice = chance.randrange(7)
    axis = chance.randrange(tensor.dim()) if tensor.dim() else 0
    if choice == 0 and tensor.dim():
        return tensor.narrow(axis, 0, 0)
    if choice == 1:
        return tensor.unsqueeze(0)
    if choice == 2 and tensor.dim() and tensor.numel():
        is_longer = chance.random() < 0.5
        half = tensor.narrow(axis, 0, tensor.size(axis) - 1)
        return torch.cat([tensor, tensor], axis) if is_longer else half
    if choice == 3:
        return tensor.to(chance.choice([torch.int64, torch.float64, torch.bool, torch.int32]))
    if choice >= 4 and tensor.numel() and tensor.dtype in (torch.int64, torch.int32):
        changed = tensor.clone().contiguous()
        number = chance.choice(NUMBERS if tensor.dtype == torch.int64 else NUMBERS[:8])
        changed.view(-1)[chance.randrange(changed.numel())] = number
        return changed
    return tensor.select(axis, 0) if tensor.dim() and tensor.numel() else tensor


def change(chance: random.Random, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change_tensor(chance, value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([*NUMBERS, value + 1, value - 1, -value])
    if isinstance(value, float):
        return chance.choice([0.0, -1.0, 1.0, float("inf"), float("nan"), 1e30, -value])
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        place = chance.randrange(len(items))
        choice = chance.randrange(4)
        if choice == 0:
            items.pop()
        elif choice == 1:
            items.append(items[-1])
        else:
            items[place] = change(chance, items[place])
        return items
    return value


def changed_call(
    chance: random.Random, overload: Any, call: tuple[list[Any], dict[str, Any]]
) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = list(call[0]), dict(call[1])
    for argument in overload._schema.arguments[len(args) :]:
        if argument.has_default_value() and argument.default_value is not None:
            kwargs.setdefault(argument.name, argument.default_value)
    for _ in range(chance.randint(1, 3)):
        places = [*range(len(args)), *kwargs]
        if not places:
            break
        place = chance.choice(places)
        if isinstance(place, int):
            args[place] = change(chance, args[place])
        else:
            kwargs[place] = change(chance, kwargs[place])
    return args, kwargs


def attempt(name: str, calls: list[tuple[list[Any], dict[str, Any]]], log: Any) -> None:
    """Runs in a separate process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    base, _, overload_name = name.partition(".")
    overload = getattr(getattr(torch.ops.aten, base), overload_name or "default")
    chance = random.Random(SEED * 7919 + len(name))
    results = [Output("float32") for _ in overload._schema.returns]
    for _ in range(TRIES):
        args, kwargs = changed_call(chance, overload, chance.choice(calls))
        log.seek(0)
        log.truncate()
        log.write(f"{name} {tree_map(_describe, (args, kwargs))}")
        log.flush()
        try:
            case = aten_models.of_call(
                overload, args, kwargs, results=results if len(results) > 1 else results[0]
            )
            opgraft.InferenceSession(case.model).run(None, case.feed)
        except Exception:
            continue
    os._exit(0)


def _describe(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    start = "" if value.is_floating_point() else value.reshape(-1)[:8].tolist()
    return f"{value.dtype}{list(value.shape)}{start}"


def wait_for(process: int) -> str:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else signal.Signals(-code).name if code < 0 else f"exit {code}"
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "takes long"


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    listed = {name for name in aten_operators.candidates() if aten_operators.is_listed(name)}
    calls = record(listed.intersection(sys.argv[1:] or listed))
    print(f"{len(calls)} operators of {len(listed)} have samples")
    crashes = 0
    for name in sorted(calls):
        with tempfile.TemporaryFile("w+") as log:
            process = os.fork()
            if process == 0:
                attempt(name, calls[name], log)
            end = wait_for(process)
            log.seek(0)
            if end:
                print(f"{end}: {log.read()[:600]}", flush=True)
                crashes += end != "takes long"
    print(f"{crashes} crashed")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
