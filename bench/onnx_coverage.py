"""How many of ONNX's own backend tests run rightly: in plain ONNX Runtime, and in Opgraft.

The node tests are generated in memory; the kinds "simple", "pytorch-operator" and
"pytorch-converted" are read from the onnx package. Results are compared with each test's own
tolerances. Each test runs in a forked process, so that a crash is one result. With --cpp, those
that plain ONNX Runtime does not run rightly also run in the C++ host, where .npy has their types.

    python bench/onnx_coverage.py --only swiglu
    python bench/onnx_coverage.py --list tests/onnx_refusals.txt
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

KINDS = ["node", "simple", "pytorch-operator", "pytorch-converted"]
SECONDS = 120  # for one test
RIGHT = "right"
# A cause, and the words that tell it in an error's text. The first that fits counts.
CAUSES = [
    ("newer than the runtime, and the operator has changed since", "operators have changed"),
    ("newer than this Opgraft", "does not know whether these operators"),
    ("a type that the runtime's schema lacks", "Type Error"),
    ("an operator that the runtime does not know", "is not a registered function/op"),
    ("an attribute that the runtime does not know", "Unrecognized attribute"),
    ("no kernel for these types", "NOT_IMPLEMENTED"),
    ("a type that NumPy has not", "Numpy"),
    ("refused by the runtime's kernel when the session is made", "Exception during initialization"),
    ("refused by the runtime's kernel when it runs", "Non-zero status code"),
    ("the process ended", "the process ended"),
    ("another result than expected", "wrong:"),
]


class Case(NamedTuple):
    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    relative: float
    absolute: float


def cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    from onnx.backend.test.loader import load_model_tests

    found = []
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from NumPy, while the data are computed
            loaded = load_model_tests(kind=kind)
        for case in loaded:
            model, data = case.model, case.data_sets
            if model is None:
                folder = Path(case.model_dir)
                model = onnx.load(folder / "model.onnx")
                data = [stored(model, one) for one in sorted(folder.glob("test_data_set_*"))]
            name = case.name if kind == "node" else f"{kind}/{case.name}"
            found.append(Case(name, model, data, case.rtol, case.atol))
    return sorted(found, key=lambda case: case.name)


def stored(model: onnx.ModelProto, folder: Path) -> tuple[list[Any], list[Any]]:
    """Reads one set of data that the onnx package stores in files."""

    def read(side: str, infos: Sequence[Any]) -> list[Any]:
        values = []
        for i, info in enumerate(infos[: len(list(folder.glob(f"{side}_*.pb")))]):
            kind = info.type.WhichOneof("value")
            message = onnx.SequenceProto() if kind == "sequence_type" else onnx.TensorProto()
            message.ParseFromString((folder / f"{side}_{i}.pb").read_bytes())
            values.append(message)
        return values

    return read("input", model.graph.input), read("output", model.graph.output)


def as_value(value: Any) -> Any:
    """Returns what a session takes: an array, a list of arrays, or None."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, (list, tuple)):
        return [as_value(one) for one in value]
    return value if value is None or isinstance(value, dict) else np.asarray(value)


def difference(wanted: Any, got: Any, case: Case) -> str:
    """Returns how a value differs from the expected one, or ""."""
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return "wrong: another sequence"
        return next(filter(None, (difference(*p, case) for p in zip(wanted, got, strict=True))), "")
    if wanted is None or isinstance(wanted, dict):
        return "" if got == wanted else f"wrong: {type(got).__name__}"
    if isinstance(got, list) or got is None or np.asarray(got).dtype != wanted.dtype:
        kind = getattr(got, "dtype", type(got).__name__)
        return f"wrong: {kind} instead of {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"wrong: the shape {got.shape} instead of {wanted.shape}"
    relative = case.relative
    if wanted.dtype.kind not in "biufcOUS" or wanted.dtype.name == "bfloat16":  # of ml_dtypes
        relative = max(relative, 2**-6) if wanted.dtype.name == "bfloat16" else relative
        wanted, got = wanted.astype(np.float32), got.astype(np.float32)
    if wanted.dtype.kind in "fc":
        near = np.allclose(got, wanted, relative, case.absolute, equal_nan=True)
    else:
        near = np.array_equal(got, wanted)
    return "" if near else "wrong: other numbers"


def judge(case: Case, run: Callable[[bytes, list[Any]], list[Any]]) -> str:
    """Runs all data of a test; returns "right", or the error or difference."""
    try:
        for inputs, outputs in case.data:
            got = run(case.model.SerializeToString(), [as_value(one) for one in inputs])
            wanted = [as_value(one) for one in outputs]
            said = difference(wanted, list(got), case)
            if said:
                return said
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return RIGHT


def feed(session: Any, inputs: list[Any]) -> dict[str, Any]:
    return {one.name: value for one, value in zip(session.get_inputs(), inputs, strict=False)}


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def plain(model: bytes, inputs: list[Any]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, _options(), providers=["CPUExecutionProvider"])
    return session.run(None, feed(session, inputs))


def python_host(model: bytes, inputs: list[Any]) -> Any:
    import opgraft

    session = opgraft.InferenceSession(model, _options())
    return session.run(None, feed(session, inputs))


class NotInFilesError(Exception):
    """The C++ host reads and writes .npy files, which do not have this kind of value."""


def cpp_host(model: bytes, inputs: list[Any]) -> list[Any]:
    import opgraft
    from opgraft._base import _library

    graph = onnx.ModelProto.FromString(model).graph
    weights = {one.name for one in graph.initializer}
    names = [one.name for one in graph.input if one.name not in weights]
    for value in [*graph.input, *graph.output]:
        kind = value.type.tensor_type.elem_type
        is_plain = kind not in (0, onnx.TensorProto.STRING) and (
            onnx.helper.tensor_dtype_to_np_dtype(kind).isbuiltin == 1  # not of ml_dtypes
        )
        if not is_plain:
            raise NotInFilesError("a value that .npy files do not have")
    with tempfile.TemporaryDirectory() as folder:
        Path(f"{folder}/model.onnx").write_bytes(model)
        command = [_library.runner_path(), "--onnxruntime", opgraft.runtime_library()]
        for i, (name, value) in enumerate(zip(names, inputs, strict=False)):
            np.save(f"{folder}/input_{i}.npy", np.array(value, order="C"))
            command += ["--input", f"{name}={folder}/input_{i}.npy"]
        for i, output in enumerate(graph.output):
            command += ["--output", f"{output.name}={folder}/output_{i}.npy"]
        done = subprocess.run(
            [*command, f"{folder}/model.onnx"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        return [np.load(f"{folder}/output_{i}.npy") for i in range(len(graph.output))]


HOSTS = {"plain": plain, "python": python_host, "cpp": cpp_host}


def results(chosen: Sequence[Case], host: str) -> Iterator[tuple[str, str]]:
    """Yields the name of each test, with "right" or what is wrong. Survives crashes."""
    left = list(chosen)
    while left:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(left, host, writing)
        os.close(writing)
        with os.fdopen(reading) as stream:
            for line in stream:
                yield left.pop(0).name, json.loads(line)
        _, status = os.waitpid(child, 0)
        if left:
            yield left.pop(0).name, f"the process ended with {os.waitstatus_to_exitcode(status)}"


def _work(left: Sequence[Case], host: str, writing: int) -> None:
    """The forked process: writes one line for each test."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        with os.fdopen(writing, "w") as stream:
            for case in left:
                signal.alarm(SECONDS)
                stream.write(json.dumps(judge(case, HOSTS[host])) + "\n")
                stream.flush()
    finally:
        os._exit(0)


def cause(said: str) -> str:
    known = (title for title, words in CAUSES if words in said)
    return next(known, re.sub(r"\s+", " ", said)[:60])


def table(counted: dict[str, dict[str, str]]) -> str:
    lines = [f"{'tests':26} {'plain':>6} {'Opgraft':>8} {'C++ host':>12}"]
    in_python, in_cpp = counted["python"], counted.get("cpp", {})
    for kind in KINDS:
        of = [
            name
            for name in in_python
            if (name.partition("/")[0] if "/" in name else "node") == kind
        ]
        if of:
            plainly, rightly = (
                sum(counted[host][name] == RIGHT for name in of) for host in ("plain", "python")
            )
            tried = [in_cpp[name] for name in of if name in in_cpp]
            cpp = f"{tried.count(RIGHT)} of {len(tried)}" if tried else ""
            lines.append(f"{f'{kind} ({len(of)})':26} {plainly:6} {rightly:8} {cpp:>12}")
    causes = collections.defaultdict(list)
    for name, said in in_python.items():
        if said != RIGHT:
            causes[cause(said)].append(name)
    for title, of in sorted(causes.items(), key=lambda entry: -len(entry[1])):
        lines.append(f"{len(of):5} {title} ({', '.join(of[:3])}{', ...' if len(of) > 3 else ''})")
    lines += [f"C++ host: {n}: {said[:120]}" for n, said in in_cpp.items() if said != RIGHT]
    return "\n".join(lines)


def listed(found: dict[str, str]) -> list[str]:
    """Returns a line for each test that is not right: its name and the cause."""
    return [f"{name}: {cause(said)}" for name, said in sorted(found.items()) if said != RIGHT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="a regular expression for the names of tests")
    parser.add_argument("--kind", choices=KINDS, action="append", help="by default all")
    parser.add_argument("--cpp", action="store_true", help="run rescued tests in the C++ host too")
    parser.add_argument("--list", help="a file for the names of tests that are not right")
    parser.add_argument("--verbose", action="store_true", help="print all errors")
    options = parser.parse_args()
    chosen = [c for c in cases(options.kind or KINDS) if re.search(options.only or "", c.name)]
    counted = {host: dict(results(chosen, host)) for host in ("plain", "python")}
    if options.cpp:
        rescued = [
            case
            for case in chosen
            if counted["plain"][case.name] != RIGHT and counted["python"][case.name] == RIGHT
        ]
        found = dict(results(rescued, "cpp"))
        counted["cpp"] = {n: said for n, said in found.items() if "NotInFiles" not in said}
    print(table(counted))
    in_python = counted["python"]
    if options.verbose:
        for name, said in in_python.items():
            if said != RIGHT:
                print(f"{name}: {' '.join(said.split())[:400]}")
    if options.list:
        Path(options.list).write_text("\n".join(listed(in_python)) + "\n")


if __name__ == "__main__":
    main()
