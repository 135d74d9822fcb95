"""Measures the time of each node in real runs of a model, in a process of its own.

Two sessions are measured: one without ONNX Runtime's optimiser, in which each node runs as it is
drawn, and one as programs open it, in which nodes may be fused or folded away.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opgraft._base._errors import Error
from opgraft._base._signals import signal_name
from opgraft._run._made_up import make_up

_COMMAND = (
    "import sys; sys.path[:] = sys.argv.pop(1).split({separator!r}); "
    "from opgraft._page._profile import main; main()"
)
_SECONDS = 3.0  #: for the runs of one session, after the first
_MOST_RUNS = 20
_SUFFIX = "_kernel_time"


@dataclass(frozen=True)
class Request:
    model: str
    allow: list[str]
    imports: list[str]
    libraries: list[str]
    packs: list[str]
    prefer: list[str]
    #: From the names of inputs to .npy files; what is not there is made up.
    inputs: dict[str, str]


def profile(request: Request) -> dict[str, Any]:
    """Runs the model, and returns `inputs`, `drawn` and `optimised`; see `_measure`."""
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.json")
        done = subprocess.run(
            [
                *(sys.executable, "-c", _COMMAND.format(separator=os.pathsep)),
                *(os.pathsep.join(sys.path), answer, folder),
            ],
            input=json.dumps(asdict(request)).encode(),
            stdout=2,  # keeps what operators print out of the report
            check=False,
        )
        try:
            with open(answer, encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except (OSError, ValueError) as error:
            end = (
                f"was ended by {signal_name(-done.returncode)}"
                if done.returncode < 0
                else f"ended with status {done.returncode}"
            )
            raise Error(f"--profile: the process that ran the model {end}") from error
    if "error" in found:
        raise Error(f"--profile: {found['error']}")
    return found


def main() -> None:
    """Runs in the process: reads a request from its input, writes the answer to a file."""
    answer, folder = sys.argv[1:3]
    request = Request(**json.load(sys.stdin))
    try:
        found = _measure_both(request, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # does not wait for threads and atexit functions of the modules


def _measure_both(request: Request, folder: str) -> dict[str, Any]:
    import importlib

    import onnxruntime

    from opgraft._declare import _packs

    onnxruntime.set_default_logger_severity(4)
    for module in request.imports:
        importlib.import_module(module)
    for pack in request.packs:
        _packs.load(pack)
    levels = onnxruntime.GraphOptimizationLevel
    drawn, inputs = _measure(request, folder, "drawn", levels.ORT_DISABLE_ALL)
    optimised, _ = _measure(request, folder, "optimised", levels.ORT_ENABLE_ALL)
    return {"inputs": inputs, "drawn": drawn, "optimised": optimised}


def _measure(
    request: Request, folder: str, name: str, level: Any
) -> tuple[dict[str, Any], list[str]]:
    """Returns the number of runs, the microseconds of one run and of its kernels, and the inputs.

    Each kernel is a list: name, operator, index in its graph, microseconds, provider.
    """
    import onnxruntime

    from opgraft._run._session import InferenceSession

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = os.path.join(folder, name)
    options.graph_optimization_level = level
    for library in request.libraries:
        options.register_custom_ops_library(library)
    session = InferenceSession(
        request.model, options, allow=request.allow, imports=request.imports, prefer=request.prefer
    )
    values, inputs = _inputs(session, request.inputs)
    session.run(None, values)  # the first run allocates, and imports what operators need
    runs, begin = 0, time.monotonic()
    while runs == 0 or (runs < _MOST_RUNS and time.monotonic() - begin < _SECONDS):
        session.run(None, values)
        runs += 1
    with open(session.end_profiling(), encoding="utf-8", errors="replace") as file:
        events = json.load(file)
    return summary(events, runs), inputs


def summary(events: Sequence[dict[str, Any]], runs: int) -> dict[str, Any]:
    """Sums up the events of the last `runs` runs, as the mean of one."""
    whole = sorted(
        (one for one in events if one.get("name") == "model_run"), key=lambda one: one["ts"]
    )[-runs:]
    begin = whole[0]["ts"] if whole else 0
    kernels: dict[tuple[str, str, int, str], int] = {}
    for one in events:
        if one.get("cat") != "Node" or one["ts"] < begin or not one["name"].endswith(_SUFFIX):
            continue
        given = one.get("args", {})
        key = (
            one["name"].removesuffix(_SUFFIX),
            given.get("op_name", ""),
            int(given.get("node_index", -1)),
            given.get("provider", ""),
        )
        kernels[key] = kernels.get(key, 0) + one["dur"]
    return {
        "runs": runs,
        "microseconds": round(sum(one["dur"] for one in whole) / max(len(whole), 1), 2),
        "kernels": [
            [name, operator, index, round(total / runs, 2), provider]
            for (name, operator, index, provider), total in kernels.items()
        ],
    }


def _inputs(session: Any, files: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Returns the inputs, and for each a text that says what it is."""
    from opgraft._run._run import check_inputs, load_input, type_name

    expected = session.get_inputs()
    types = {one.name: type_name(one) for one in expected}
    values = {name: load_input(file, types.get(name, "")) for name, file in files.items()}
    texts = []
    for one in expected:
        origin = f"from {os.path.basename(files[one.name])}" if one.name in files else "made up"
        if one.name not in files:
            values[one.name] = make_up(one)
        value = values[one.name]
        shape = ", ".join(map(str, value.shape))
        texts.append(f"{one.name}: {types[one.name]}[{shape}], {origin}")
    check_inputs(expected, values, {name: files.get(name, "made up") for name in values})
    return values, texts


def placed(
    kernels: Sequence[Sequence[Any]],
    graphs: Sequence[Sequence[tuple[str, str, int]]],
    is_flat: bool,
) -> list[list[Any]]:
    """Returns the kernels, each with the graph and the node that it is, or None if that is unknown.

    `graphs` are the nodes of each graph, each as the name, the operator and the index in the file;
    `is_flat` says that the model has no functions, whose inlining would shift indices.
    """
    named: dict[str, list[tuple[int, int, str]]] = {}
    unnamed: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for number, nodes in enumerate(graphs):
        for at, (name, operator, index) in enumerate(nodes):
            if name:
                named.setdefault(name, []).append((number, at, operator))
            else:
                unnamed.setdefault((operator, index), []).append((number, at, operator))
    result = []
    for kernel in kernels:
        name, operator, index = kernel[:3]
        found = named.get(name, [])
        if len(found) > 1:
            found = [one for one in found if one[2] == operator]
        if not found and is_flat and name == f"{operator}_{index}":
            found = unnamed.get((operator, index), [])
        result.append([*kernel, list(found[0][:2]) if len(found) == 1 else None])
    return result
