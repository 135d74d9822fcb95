"""The command `opgraft`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opgraft._errors import Error
from opgraft._library import runner_path
from opgraft._prepare import prepare

if TYPE_CHECKING:
    import numpy as np

_MOST_PRINTED = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status is 0, 1 for an error of the model's, 2 for one of use."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (Error, OSError, ValueError) as error:
        print(f"opgraft: {type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opgraft", description="Operators grafted onto ONNX.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a model and print its outputs")
    run.add_argument("model", metavar="MODEL")
    run.add_argument(
        "--input",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="the value of an input; give one for each",
    )
    run.add_argument(
        "--output",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="write an output to a file as well",
    )
    run.add_argument(
        "--allow",
        metavar="MODULE",
        action="append",
        default=[],
        help="a Python module that the model may run, or 'package.*'; it is looked for in the "
        "current folder too",
    )
    run.add_argument(
        "--host",
        choices=["python", "cpp"],
        default="python",
        help="run it in this Python, or in the C++ program opgraft-run",
    )
    run.add_argument(
        "--onnxruntime",
        metavar="LIBRARY",
        help="with --host cpp: the libonnxruntime.so to use, by default that of this Python",
    )
    run.set_defaults(command=_run)

    prepare_parser = commands.add_parser(
        "prepare", help="write a model that plain ONNX Runtime sessions with Opgraft load"
    )
    prepare_parser.add_argument("source", metavar="IN")
    prepare_parser.add_argument("target", metavar="OUT")
    prepare_parser.add_argument(
        "--runtime", metavar="VERSION", help="the ONNX Runtime that will load it, such as 1.22.1"
    )
    prepare_parser.set_defaults(command=_prepare)
    return parser


def _prepare(options: argparse.Namespace) -> int:
    prepared = prepare(options.source, runtime=options.runtime)
    prepared.save(options.target)
    for operator in prepared.report:
        print(f"node '{operator.node}' runs {operator.module}.{operator.class_name}")
    modules = sorted({operator.module for operator in prepared.report})
    if modules:
        print(f"to run it: opgraft.register(sess_options, allow={modules!r})")
    return 0


def _run(options: argparse.Namespace) -> int:
    return _run_in_cpp(options) if options.host == "cpp" else _run_in_python(options)


def _pairs(entries: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for entry in entries:
        name, equals, file = entry.rpartition("=")
        if not equals or not name or not file:
            raise ValueError(f"{option} {entry}: expected NAME=FILE.npy")
        pairs[name] = file
    return pairs


def _run_in_python(options: argparse.Namespace) -> int:
    import numpy as np

    from opgraft._session import InferenceSession

    sys.path.append(os.getcwd())
    inputs = {
        name: np.load(file, allow_pickle=False)
        for name, file in _pairs(options.input, "--input").items()
    }
    files = _pairs(options.output, "--output")
    session = InferenceSession(options.model, allow=options.allow)
    names = [output.name for output in session.get_outputs()]
    for name in files:
        if name not in names:
            raise ValueError(f"--output {name}: the model has the outputs {', '.join(names)}")
    for name, value in zip(names, session.run(names, inputs), strict=True):
        print(f"{name} {_format(value)}")
        if name in files:
            np.save(files[name], value)
    return 0


def _format(value: np.ndarray) -> str:
    """As opgraft-run prints it: type, shape, and the first elements to full precision."""
    shape = ", ".join(str(size) for size in value.shape)
    if value.dtype.kind == "f":
        form = "{:.17g}" if value.dtype.itemsize == 8 else "{:.9g}"
    else:
        form = "{}"
    elements = [form.format(element) for element in value.flat[:_MOST_PRINTED]]
    more = " ..." if value.size > _MOST_PRINTED else ""
    return f"{value.dtype} ({shape})\n{' '.join(elements)}{more}"


def _run_in_cpp(options: argparse.Namespace) -> int:
    command = [runner_path(), "--onnxruntime", options.onnxruntime or _runtime_library()]
    for module in options.allow:
        command += ["--allow", module]
    for entry in options.input:
        command += ["--input", entry]
    for entry in options.output:
        command += ["--output", entry]
    environment = dict(os.environ)
    environment.setdefault("OPGRAFT_PYTHON", sys.executable)
    paths = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    environment["PYTHONPATH"] = os.pathsep.join([*paths, os.getcwd()])
    return subprocess.run([*command, options.model], env=environment, check=False).returncode


def _runtime_library() -> str:
    """The libonnxruntime.so in the package onnxruntime, which is not imported for that."""
    spec = importlib.util.find_spec("onnxruntime")
    folders = spec.submodule_search_locations or [] if spec else []
    for folder in folders:
        for library in sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return str(library)
    raise Error("no libonnxruntime.so is in the package onnxruntime; name one with --onnxruntime")
