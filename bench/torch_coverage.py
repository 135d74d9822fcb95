"""How much of PyTorch's own operator database opgraft.torch.export exports correctly, and how.

Each entry of OpInfo that takes float32 on the CPU is exported, run in ONNX Runtime and compared
with eager mode, with its first and with its largest sample, each in a process of its own. Models
of standard ONNX, or functions of it, run in plain ONNX Runtime; ATen nodes run in Python and, with
--cpp, in the C++ host too.

    python bench/torch_coverage.py --only linalg --sample first
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

import opgraft
import opgraft.torch
from opgraft._base import _library
from opgraft._run._torch_arrays import to_array
from opgraft.torch import _private

KINDS = ["standard", "function", "pack", "aten", "python"]
TITLES = ["standard", "ONNX function", "pack", "ATen", "Python"]
RELATIVE, ABSOLUTE = 1e-3, 1e-4
SECONDS = 180  # for one entry
MOST_SAMPLES = 200


class Entry(torch.nn.Module):
    """An operator with all arguments filled in except for the tensors."""

    def __init__(self, operator: Any, sample: Any) -> None:
        super().__init__()
        self.operator = operator
        leaves, self.tree = _private.flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [None if isinstance(one, torch.Tensor) else one for one in leaves]
        self.places = [i for i, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
        self.tensors = tuple(leaves[i].detach() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = _private.unflatten(leaves, self.tree)
        return self.operator(first, *args, **kwargs)


# The database has random operators set a seed of their own; a model that does so is refused.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def entries() -> list[Any]:
    return [
        op
        for op in op_db
        if torch.float32 in op.supported_dtypes("cpu") and not op.name.startswith("jiterator")
    ]


def title(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def pick(op: Any, which: str) -> Any:
    """Returns the first sample that is not empty, or the largest."""
    torch.manual_seed(0)
    samples = itertools.islice(
        op.sample_inputs("cpu", torch.float32, requires_grad=False), MOST_SAMPLES
    )

    def sizes(sample: Any) -> list[int]:
        leaves = _private.flatten((sample.input, sample.args, sample.kwargs))[0]
        return [one.numel() for one in leaves if isinstance(one, torch.Tensor)]

    if which == "largest":
        return max(samples, key=lambda sample: sum(sizes(sample)))
    found = list(samples)
    return next((sample for sample in found if all(sizes(sample))), found[0])


def is_random(entry: Entry) -> bool:
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        results.append(arrays(entry(*clones(entry))))
    return any(
        one.shape != two.shape or not np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
        for one, two in zip(*results, strict=True)
    )


def clones(entry: Entry) -> list[torch.Tensor]:
    return [one.clone() for one in entry.tensors]


def arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    leaves = _private.flatten(results)[0]
    # A Python float is float32 in torch's own exports.
    leaves = [np.float32(one) if isinstance(one, float) else one for one in leaves]
    return [
        np.asarray(one) if isinstance(one, np.float32) else to_array(one)
        for one in leaves
        if isinstance(one, (torch.Tensor, bool, int, np.float32))
    ]


def compare(wanted: list[Any], got: list[Any], *, blind: bool) -> str:
    """Returns what is wrong, or ""."""
    if len(wanted) != len(got):
        return f"{len(got)} outputs instead of {len(wanted)}"
    for i, (one, two) in enumerate(zip(wanted, got, strict=True)):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"output {i}: {two.dtype}{two.shape} instead of {one.dtype}{one.shape}"
        if blind:
            continue
        if one.dtype.kind in "fV":
            near = np.allclose(two, one, RELATIVE, ABSOLUTE, equal_nan=True)
        else:
            near = np.array_equal(one, two)
        if not near:
            return f"output {i} differs"
    return ""


def examine(op: Any, which: str, *, cpp: bool) -> dict[str, Any]:
    """Exports, runs and compares one sample."""
    entry = Entry(op, pick(op, which)).eval()
    blind = is_random(entry)
    wanted = arrays(entry(*clones(entry)))
    program = opgraft.torch.export(entry, tuple(clones(entry)), progress=False)
    blind = blind or program.report.is_random  # some samples set the seed themselves
    kinds = [row.kind for row in program.report.rows]
    kind = max(kinds, key=KINDS.index, default="standard")
    found = {
        "kind": kind,
        "random": blind,
        "captured": program.report.captured,
        "operators": sorted({r.operator for r in program.report.rows if r.kind == kind}),
        "because": [r.because for r in program.report.rows if r.because],
        "notes": program.report.notes,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        program.save(path)
        feed = dict(
            zip(
                [one.name for one in program.model.graph.inputs],
                map(to_array, entry.tensors),
                strict=True,
            )
        )
        wrong = compare(wanted, run(path, feed, program.report), blind=blind)
        if wrong:
            return {**found, "outcome": "wrong", "reason": wrong}
        if cpp and kind == "aten":
            names = [one.name for one in program.model.graph.outputs]
            found["cpp"] = run_in_cpp(
                path, feed, names, wanted, folder, allow=program.report.allow, blind=blind
            )
    return {**found, "outcome": "right"}


def run(path: str, feed: dict[str, Any], report: Any) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if report.is_portable:
        session = onnxruntime.InferenceSession(path, options)
        # NumPy has no bfloat16; Opgraft's sessions return the type of ml_dtypes.
        if not any("bfloat16" in one.type for one in session.get_outputs()):
            return list(session.run(None, feed))
    session = opgraft.InferenceSession(path, options, allow=report.allow)
    return list(session.run(None, feed))


def run_in_cpp(
    path: str,
    feed: dict[str, Any],
    outputs: list[str],
    wanted: list[Any],
    folder: str,
    *,
    allow: Sequence[str],
    blind: bool,
) -> str:
    """Runs the model in a process without Python; returns "right", or what is wrong."""
    command = [_library.runner_path(), "--onnxruntime", opgraft.runtime_library()]
    for one in allow:
        command += ["--allow", one]
    for i, name in enumerate(outputs):
        command += ["--output", f"{name}={folder}/output_{i}.npy"]
    for i, (name, value) in enumerate(feed.items()):
        np.save(f"{folder}/input_{i}.npy", np.array(value, order="C"))
        command += ["--input", f"{name}={folder}/input_{i}.npy"]
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    environment = {"OPGRAFT_LIBTORCH": str(library), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, path], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    got = [np.load(f"{folder}/output_{i}.npy") for i in range(len(outputs))]
    return compare(wanted, got, blind=blind) or "right"


def in_a_process(op: Any, which: str, *, cpp: bool) -> dict[str, Any]:
    """Examines one sample in a process of its own, which may crash and has a time limit."""
    begin = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            found = examine(op, which, cpp=cpp)
        except BaseException as error:
            found = {
                "outcome": "error",
                "reason": f"{type(error).__name__}: {error}",
                "trace": traceback.format_exc()[-3000:],
            }
        with os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(found))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    if not text:
        text = json.dumps({"outcome": "error", "reason": f"the process ended with {status}"})
    seconds = round(time.monotonic() - begin, 2)
    return {"name": title(op), "sample": which, "seconds": seconds, **json.loads(text)}


def table(results: list[dict[str, Any]]) -> str:
    lines = [f"{'sample':8} {'entries':>7} {'right':>5} " + " ".join(f"{t:>13}" for t in TITLES)]
    for which in ("first", "largest"):
        of = [one for one in results if one["sample"] == which]
        right = collections.Counter(one["kind"] for one in of if one["outcome"] == "right")
        lines.append(
            f"{which:8} {len(of):7} {sum(right.values()):5} "
            + " ".join(f"{right[kind]:13}" for kind in KINDS)
        )
    in_cpp = [one["cpp"] for one in results if "cpp" in one]
    if in_cpp:
        lines.append(
            f"of the ATen rows right in the C++ host: {in_cpp.count('right')} of {len(in_cpp)}"
        )
    for one in results:
        if one["outcome"] != "right":
            reason = one["reason"].splitlines()[0][:150]
            lines.append(f"{one['outcome']}: {one['name']} ({one['sample']}): {reason}")
        elif one.get("cpp", "right") != "right":
            lines.append(f"C++ host: {one['name']} ({one['sample']}): {one['cpp'][:150]}")
    return "\n".join(lines)


def against(results: list[dict[str, Any]], path: str) -> str:
    """Reports on the entries that torch itself exports correctly, with their first samples."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    right = {".".join(filter(None, (one["name"], one.get("variant")))): one for one in lines}
    names = {name for name, one in right.items() if one["stage"] == "ok"}
    of = [one for one in results if one["name"] in names and one["sample"] == "first"]
    aten = [one["name"] for one in of if one.get("kind") == "aten"]
    lost = [one["name"] for one in of if one["outcome"] != "right"]
    return (
        f"entries that torch exports rightly: {len(of)}; with an ATen node of ours: {len(aten)} "
        f"{' '.join(aten)}; not right: {len(lost)} {' '.join(lost)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="a regular expression for the names of entries")
    parser.add_argument("--names", help="a file with names of entries, one per line")
    parser.add_argument("--shard", default="1/1", help="such as 2/4 for the second quarter")
    parser.add_argument("--sample", default="first,largest")
    parser.add_argument(
        "--results", help="a file to add results to; entries in it are not run again"
    )
    parser.add_argument(
        "--baseline", help="a file with the outcomes of torch.onnx.export, to compare with"
    )
    parser.add_argument("--cpp", action="store_true", help="run ATen nodes in the C++ host too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    part, parts = map(int, options.shard.split("/"))
    chosen = entries()[part - 1 :: parts]
    if options.only:
        chosen = [op for op in chosen if re.search(options.only, title(op))]
    if options.names:
        names = set(Path(options.names).read_text().split("\n"))
        chosen = [op for op in chosen if title(op) in names]
    results: list[dict[str, Any]] = []
    if options.results and Path(options.results).exists():
        results = [json.loads(line) for line in Path(options.results).read_text().splitlines()]
    done = {(one["name"], one["sample"]) for one in results}
    _private.new_registry(_private.default_opset())  # once, for all processes
    for op in chosen:
        for which in options.sample.split(","):
            if (title(op), which) in done:
                continue
            results.append(in_a_process(op, which, cpp=options.cpp))
            if options.results:
                with open(options.results, "a") as stream:
                    stream.write(json.dumps(results[-1]) + "\n")
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\x1b[K{len(results)} {results[-1]['name']}")
    print(table(results))
    if options.baseline:
        print(against(results, options.baseline))


if __name__ == "__main__":
    main()
