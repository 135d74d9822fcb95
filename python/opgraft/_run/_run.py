"""`opgraft run`: runs a model once, in this Python or by opgraft-run."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opgraft._base._errors import Error, UnavailableError
from opgraft._base._library import runner_path, runtime_library
from opgraft._base._signals import signal_name
from opgraft._terminal._document import STRONG, Line, harmless_line
from opgraft._terminal._screen import complain, show

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

_MOST_PRINTED = 64
_NO_NEWS = (signal.SIGINT, signal.SIGPIPE)  # not reported, since the sender knows
_ONLY_FATAL = 4  # a level of ONNX Runtime's log: the command itself prints errors


def run(options: argparse.Namespace) -> int:
    inputs = pairs(options.input, "--input")
    outputs = pairs(options.output, "--output")
    if options.host == "cpp":
        return _run_in_cpp(options)
    if options.onnxruntime:
        raise Error("--onnxruntime needs --host cpp; this Python uses its own ONNX Runtime")
    return _run_in_python(options, inputs, outputs)


def pairs(entries: Sequence[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in entries:
        name, equals, file = entry.rpartition("=")
        if not equals or not name or not file:
            raise Error(f"{option} {entry}: expected NAME=FILE.npy")
        if name in pairs:
            raise Error(f"{option} {name} is given twice")
        pairs[name] = file
    return pairs


def _run_in_python(
    options: argparse.Namespace, inputs: dict[str, str], outputs: dict[str, str]
) -> int:
    import onnxruntime

    from opgraft._cuda._provider import PROVIDER, find_problem
    from opgraft._declare import _packs
    from opgraft._run._session import InferenceSession

    sys.path.append(os.getcwd())
    if not faulthandler.is_enabled():
        # If a signal ends the process, the Python stack is printed.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            faulthandler.enable()
    session_options = onnxruntime.SessionOptions()
    if not options.verbose:
        onnxruntime.set_default_logger_severity(_ONLY_FATAL)  # for messages outside sessions
        session_options.log_severity_level = _ONLY_FATAL
    for pack in options.packs:
        _packs.load(pack)
    providers: list[Any] | None = None
    if options.gpu is not None:
        if problem := find_problem():
            raise UnavailableError(f"{PROVIDER} is not available: {problem}")
        # GPU 0 is the default. If it is named explicitly, the runtime logs a message.
        chosen = PROVIDER if options.gpu == "0" else (PROVIDER, {"device_id": options.gpu})
        providers = [chosen, "CPUExecutionProvider"]
    with _runtime_errors():
        session = InferenceSession(
            options.model,
            session_options,
            providers,
            allow=options.allow,
            imports=options.imports,
            prefer=options.prefer,
            exact=options.exact,
        )
    names = [output.name for output in session.get_outputs()]
    for name in outputs:
        if name not in names:
            raise Error(
                f"--output {name}: the model has no such output; its outputs are {', '.join(names)}"
            )
    types = {argument.name: type_name(argument) for argument in session.get_inputs()}
    values = {name: load_input(file, types.get(name, "")) for name, file in inputs.items()}
    check_inputs(session.get_inputs(), values, inputs)
    with _runtime_errors():
        results = session.run(names, values)
    for name, value in zip(names, results, strict=True):
        title, *elements = _format(value).split("\n")
        show([Line(f"{harmless_line(name)} {title}", style=STRONG), *map(Line, elements)])
    for name, value in zip(names, results, strict=True):
        if name not in outputs:
            continue
        if not hasattr(value, "dtype"):
            raise Error(f"--output {name}: it is not a tensor, and .npy files only hold tensors")
        save_array(outputs[name], value)
    return 0


@contextmanager
def _runtime_errors() -> Iterator[None]:
    """Turns the runtime's errors, which are of many classes, into Error."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise Error(str(error)) from error


def load_input(file: str, type_name: str) -> np.ndarray:
    import numpy as np

    from opgraft._base._needed import find_dtype
    from opgraft._run._tensors import TYPES

    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        if "Object arrays" in str(error):
            raise Error(
                f"'{file}' holds pickled Python objects, which are not read because they may run "
                "code. Fix: save an array of numbers, or of texts by array.astype(str)"
            ) from error
        raise Error(f"'{file}' is not a .npy file of numbers or str") from error
    if not isinstance(array, np.ndarray):
        raise Error(f"'{file}' holds several arrays; expected a .npy file, which holds one")
    if array.dtype.kind == "V" and array.dtype.names is None and type_name in TYPES:
        # NumPy's files do not record the types of ml_dtypes, but the model does.
        dtype = find_dtype(TYPES[type_name][1])
        if dtype.itemsize == array.dtype.itemsize:
            return np.ascontiguousarray(array).view(dtype)
    # ONNX Runtime ignores the byte order of an array.
    return np.asarray(array.astype(array.dtype.newbyteorder("="), copy=False), order="C")


def save_array(file: str, value: np.ndarray) -> None:
    import numpy as np

    if value.dtype.kind == "O":
        texts = value.astype(str)
        if texts.astype(object).tolist() != value.tolist():  # NumPy drops zeros at the end
            raise Error(f"'{file}': .npy files cannot hold one of the strings")
        value = texts
    elif value.dtype.isbuiltin != 1:  # not a type of NumPy's own
        value = value.view(f"V{value.dtype.itemsize}")
    np.save(file, value)


def type_name(argument: onnxruntime.NodeArg) -> str:
    return str(argument.type).removeprefix("tensor(").removesuffix(")")


def check_inputs(
    expected: Sequence[onnxruntime.NodeArg], given: dict[str, np.ndarray], files: dict[str, str]
) -> None:
    """Checks the inputs, because the runtime's own messages do not name the input."""
    from opgraft._run._tensors import TYPES

    names = [argument.name for argument in expected]
    for name in given:
        if name not in names:
            raise Error(
                f"--input {name}: the model has no such input; its inputs are {', '.join(names)}"
            )
    for argument in expected:
        if argument.name not in given:
            raise Error(
                f"the model's input '{argument.name}' is missing: --input {argument.name}=FILE.npy"
            )
        value = given[argument.name]
        kind = {"float": "float32", "double": "float64"}
        kind |= {name: dtype_name for name, (_, dtype_name) in TYPES.items()}
        dtype = type_name(argument)
        given_name = "string" if value.dtype.kind == "U" else value.dtype.name
        fixed = [size if isinstance(size, int) else None for size in argument.shape]
        fits = len(fixed) == value.ndim and all(
            size in (None, actual) for size, actual in zip(fixed, value.shape, strict=False)
        )
        # onnxruntime reports an unknown shape like that of a scalar.
        if kind.get(dtype, dtype) != given_name or (fixed and not fits):
            shape = ", ".join("?" if size is None else str(size) for size in fixed)
            raise Error(
                f"input '{argument.name}' ({files[argument.name]}) is {given_name} "
                f"{value.shape}, but the model takes {kind.get(dtype, dtype)} ({shape})"
            )


def _format(value: Any) -> str:
    """Formats a value like opgraft-run: type, shape, and the first elements in full precision."""
    if isinstance(value, dict):
        return f"map\n{_format_part(value)}"
    if isinstance(value, list):
        parts = [_format_part(part) for part in value[:_MOST_PRINTED]]
        more = " ..." if len(value) > _MOST_PRINTED else ""
        return f"sequence ({len(value)})\n{' '.join(parts)}{more}"
    if not hasattr(value, "dtype"):
        return "is neither a tensor, a sequence nor a map, and not shown"
    shape = ", ".join(str(size) for size in value.shape)
    elements = [_format_element(element) for element in value.flat[:_MOST_PRINTED]]
    more = " ..." if value.size > _MOST_PRINTED else ""
    name = "string" if value.dtype.kind == "O" else value.dtype.name
    return f"{name} ({shape})\n{' '.join(elements)}{more}"


def _format_part(value: Any) -> str:
    """Formats a part of a sequence in one line, such as a map of probabilities."""
    if not isinstance(value, dict):
        return "[" + _format(value).replace("\n", ": ", 1) + "]"
    pairs = [
        f"{_format_element(key)}: {_format_element(one)}"
        for key, one in list(value.items())[:_MOST_PRINTED]
    ]
    more = ["..."] if len(value) > _MOST_PRINTED else []
    return "{" + ", ".join([*pairs, *more]) + "}"


def _format_element(element: Any) -> str:
    import numpy as np

    if isinstance(element, str):
        return json.dumps(element, ensure_ascii=False)
    if isinstance(element, float) and not isinstance(element, np.generic):
        return f"{element:.9g}"  # in a map, whose float32 onnxruntime returns as Python floats
    if isinstance(element, int):
        return str(element)
    if isinstance(element, np.floating):
        return f"{element:.17g}" if element.dtype.itemsize == 8 else f"{element:.9g}"
    is_small_float = element.dtype.name.removeprefix("b").startswith("float")
    return f"{float(element):.9g}" if is_small_float else str(element)


def _run_in_cpp(options: argparse.Namespace) -> int:
    command = [runner_path(), "--onnxruntime", options.onnxruntime or runtime_library()]
    given = {"allow": options.allow, "import": options.imports}
    given |= {"pack": options.packs, "prefer": options.prefer}
    given |= {"input": options.input, "output": options.output}
    given |= {"gpu": [] if options.gpu is None else [options.gpu]}
    for option, entries in given.items():
        for entry in entries:
            command += [f"--{option}", entry]
    command += ["--exact"] * options.exact
    environment = dict(os.environ)
    environment.setdefault("OPGRAFT_PYTHON", sys.executable)
    # If a signal ends the process, Python prints its stack.
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    paths = [environment["OPGRAFT_PATH"]] if environment.get("OPGRAFT_PATH") else []
    environment["OPGRAFT_PATH"] = os.pathsep.join([*paths, os.getcwd()])
    with tempfile.TemporaryFile() as record:
        command += ["--record", f"/dev/fd/{record.fileno()}", options.model]
        done = subprocess.run(
            command, env=environment, check=False, pass_fds=[record.fileno()]
        ).returncode
        return _status(done, record.read())


def _status(status: int, record: bytes) -> int:
    """Returns the command's status for that of opgraft-run; explains its end if it did not itself.

    src/run/record.h describes the record's format.
    """
    texts = [
        record[at : at + 256].partition(b"\0")[0].decode(errors="replace")
        for at in range(64, len(record), 256)
    ]
    state = record[:64].partition(b"\0")[0]
    inside = " and ".join(text for text in texts if text)
    inside = f", inside {inside}" if inside else ""
    if status < 0:
        if state != b"told" and -status not in _NO_NEWS:
            _complain(f"was ended by {signal_name(-status)}{inside}")
        return 128 - status
    if state == b"running":
        _complain(f"was ended with status {status} by code that it ran{inside}")
        return status or 1
    return status


def _complain(text: str) -> None:
    complain(f"opgraft-run {text}")
