"""Finds out what only a trial can show of a model: for `opgraft doctor`, in a separate process.

That process imports the modules that the host allows, prepares the model, and opens a session, but
runs nothing in it. Even if those modules exit or crash, the doctor can report it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from opgraft._base._log import tell
from opgraft._base._signals import signal_name
from opgraft._terminal._bar import Bar

if TYPE_CHECKING:
    from opgraft._run._prepare import Rescue

_COMMAND = (
    "import sys; sys.path[:] = sys.argv.pop(1).split({separator!r}); "
    "from opgraft._doctor._examination import main; main()"
)
NOT_FOUND = "not found"
#: How the steps begin, in their order.
_STEPS = (
    "importing",
    "loading the pack",
    "looking for classes",
    "asking",
    "looking into stored",
    "loading libtorch",
    "preparing",
    "making",
    "looking into packs",
)


@dataclass(frozen=True)
class Request:
    model: str
    runtime: str
    allow: list[str]
    imports: list[str]
    libraries: list[str]
    packs: list[str]
    prefer: list[str]
    #: Python modules that may be imported, and the classes and methods that the model uses.
    modules: list[str]
    classes: list[tuple[str, str, str]]
    #: Operators of the runtime's own domains: domain, name, version of the opset.
    operators: list[tuple[str, str, int]]
    may_prepare: bool
    may_try: bool
    is_installed: bool  # whether this Python has that version of the runtime
    has_held: bool  # whether there are nodes that run objects held by the model
    has_aten: bool  # whether there are nodes that libtorch runs
    is_unknown: bool  # whether a version in the model is newer than those that Opgraft knows
    is_verbose: bool = False  # whether to tell what happens, with the runtime's log


@dataclass
class Examination:
    """The results. Those of steps that were not reached are empty or None."""

    #: For each module: "" if it was imported, NOT_FOUND, or what it raised.
    imports: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    #: For each "module:class:method": "", or what is missing, "class" or "method".
    classes: dict[str, str] = field(default_factory=dict)
    #: The operators that modules have declared by @opgraft.op, with their modules.
    declared: dict[str, str] = field(default_factory=dict)
    #: For each pack: "", or why it cannot be loaded.
    packs: dict[str, str] = field(default_factory=dict)
    #: From the names of packs' operators in nodes to their own names.
    native: dict[str, str] = field(default_factory=dict)
    #: From the operators that packs run in this model to the packs.
    run_by_packs: dict[str, str] = field(default_factory=dict)
    #: The nodes that the runtime cannot run as they are: the fields of opgraft's `Rescue`.
    rescues: list[dict[str, str]] = field(default_factory=list)
    #: For operators that the runtime cannot run as they are: what stands in for their nodes.
    rescued: dict[str, str] = field(default_factory=dict)
    #: From the operators of all packs, including those that come with Opgraft, to the packs.
    in_packs: dict[str, str] = field(default_factory=dict)
    #: The domains in which the runtime has operators; None if it cannot list them.
    domains: list[str] | None = None
    #: For each "domain::Name" that the runtime lacks: "unknown" or "no kernel".
    lacking: dict[str, str] = field(default_factory=dict)
    #: Why the model cannot be prepared: the name of an error and its text.
    refusal: tuple[str, str] | None = None
    #: Whether it could be prepared for a newer runtime, or by a newer Opgraft.
    is_too_new: bool = False
    #: A survey of the prepared model, as plain values.
    prepared: dict[str, Any] | None = None
    #: For each node: the types and functions in its estimator that must be allowed by name.
    held: dict[str, list[str]] = field(default_factory=dict)
    #: Why no ATen node can run; "" if they can, or if there are none.
    libtorch: str = ""
    #: Whether a session could be made; None if it was not tried.
    is_loaded: bool | None = None
    failure: tuple[str, str] | None = None
    #: The inputs of that session: name, type and shape.
    inputs: list[dict[str, Any]] = field(default_factory=list)
    #: How the process ended, if it was not normal.
    end: str = ""


def examine(request: Request) -> Examination:
    """Runs the process that examines what `request` names."""
    reading, writing = os.pipe()
    command = _COMMAND.format(separator=os.pathsep)
    path = os.pathsep.join(sys.path)
    with os.fdopen(reading, encoding="utf-8") as report:
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", command, path, str(writing)],
                stdin=subprocess.PIPE,
                stdout=2,  # keeps what modules print out of the report
                pass_fds=[writing],
            )
        finally:
            os.close(writing)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:
                stream.write(json.dumps(asdict(request)).encode())
            lines = _follow(report)
        finally:
            status = process.wait()
    found = Examination()
    step = "starting"
    is_finished = False
    for line in lines:
        name, value = json.loads(line)
        if name == "step":
            step = value
        elif name == "finished":
            is_finished = True
        elif name in ("refusal", "failure"):
            setattr(found, name, (value[0], value[1]))
        else:
            setattr(found, name, value)
    if not is_finished:
        found.end = f"the process that tried it {_end(status)} while {step}"
    return found


def _follow(report: TextIO) -> list[str]:
    """Reads what the process says to its end; a bar shows the step on a terminal."""
    lines = []
    with Bar("opgraft doctor", sys.stderr) as bar:
        for line in report:
            lines.append(line)
            name, value = json.loads(line)
            if name == "step":
                tell("doctor", "%s", value)
                reached = [place for place, one in enumerate(_STEPS) if value.startswith(one)]
                bar.update((reached or [0])[0] / len(_STEPS), value)
    return lines


def _end(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal_name(-status)}"


def main() -> None:
    """Runs in the process: reads a request from its input, writes lines to the given descriptor."""
    descriptor = int(sys.argv.pop(1))
    os.set_inheritable(descriptor, False)  # processes that a module starts must not keep it open
    given = json.load(sys.stdin)
    if given["is_verbose"]:
        from opgraft._terminal import _verbose

        _verbose.begin()
    given["classes"] = [tuple(one) for one in given["classes"]]
    given["operators"] = [tuple(one) for one in given["operators"]]
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:

        def say(name: str, value: object) -> None:
            print(json.dumps([name, value]), file=stream, flush=True)

        _examine(Request(**given), say)
        say("finished", True)
        stream.flush()
        # Does not wait for threads and atexit functions of the modules.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _examine(request: Request, say: Callable[[str, object], None]) -> None:
    def import_all(names: Sequence[str]) -> dict[str, str]:
        results = {}
        for name in names:
            say("step", f"importing '{name}'")
            results[name] = _import(name)
        return results

    imports = import_all(request.imports)
    say("imports", imports)
    packs = {}
    for pack in request.packs:
        say("step", f"loading the pack '{pack}'")
        packs[pack] = _load(pack)
    say("packs", packs)
    modules = import_all(request.modules)
    say("modules", modules)
    files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in modules}
    say("files", files)
    say("step", "looking for classes")
    say("classes", {":".join(one): _find_class(*one) for one in request.classes})
    from opgraft._declare import _declare

    say("declared", {one.full_name: one.schema.module for one in _declare.operators()})
    if request.is_installed:
        say("step", "asking ONNX Runtime for its operators")
        domains, lacking = ask_runtime(request.operators)
        say("domains", domains)
        say("lacking", lacking)
    if request.has_held:
        say("step", "looking into stored estimators")
        say("held", find_held(request.model))
    libtorch = ""
    if request.has_aten:
        say("step", "loading libtorch")
        libtorch = _find_libtorch_problem()
        say("libtorch", libtorch)
    is_prepared = False
    if request.may_prepare and not any(imports.values()) and not any(packs.values()):
        say("step", "preparing the model")
        is_prepared = _prepare(request, say)
    is_all_there = not any(modules.values()) and not libtorch
    if is_prepared and request.may_try and is_all_there and request.is_installed:
        say("step", "making a session")
        failure = _try(request, say)
        say("is_loaded", failure is None)
        if failure is not None:
            say("failure", failure)
    # Last, because it loads packs that come with Opgraft, which sessions load only if preferred.
    say("step", "looking into packs")
    _list_packs(say)


def find_held(model: str) -> dict[str, list[str]]:
    """Returns what must be allowed for stored estimators. Reads their files, but loads nothing."""
    import mmap

    from opgraft import _pyop

    try:
        from opgraft.sklearn._stored import _skops
    except ImportError:  # without it, none can be run either
        return {}
    found: dict[str, list[str]] = {}
    with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for node, _, arguments in _pyop.held(mapped):
            with contextlib.suppress(Exception):  # a session reports a damaged one
                found.setdefault(node, [])
                found[node] += _skops.untrusted(arguments["estimator"].tobytes())
    return {node: sorted(set(names)) for node, names in found.items()}


def _find_libtorch_problem() -> str:
    from opgraft import _pyop
    from opgraft._base._library import find_libtorch

    return _pyop.libtorch_problem(find_libtorch() or "")


def _load(pack: str) -> str:
    from opgraft._base._errors import Error
    from opgraft._declare import _packs

    try:
        _packs.load(pack)
    except Error as error:
        return str(error)
    return ""


def _list_packs(say: Callable[[str, object], None]) -> None:
    from opgraft._base._library import shipped_packs
    from opgraft._declare import _packs

    say("native", {one.runtime_name: one.full_name for one in _packs.operators()})
    for pack in shipped_packs():
        _load(pack)
    say("in_packs", {one.full_name: one.pack for one in _packs.operators()})


def _import(name: str) -> str:
    try:
        importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == name or name.startswith(f"{missing}."):
            return NOT_FOUND
        return _text(error)
    except BaseException as error:
        return _text(error)
    return ""


def _text(error: BaseException) -> str:
    """Returns in one line what was raised, and where."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen")
    ]
    frames = [one for one in frames if os.path.dirname(one.filename) != _IMPORTLIB] or frames
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text


_IMPORTLIB = os.path.dirname(importlib.__file__)


def _find_class(module: str, class_name: str, compute: str) -> str:
    found: Any = sys.modules.get(module)
    if found is None:
        return ""
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        return "class"
    return "" if callable(getattr(found, compute, None)) else "method"


def ask_runtime(operators: list[tuple[str, str, int]]) -> tuple[list[str] | None, dict[str, str]]:
    """Returns the domains in which the runtime has operators, and which of these it lacks."""
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    if not hasattr(runtime, "get_all_operator_schema"):
        return None, {}
    versions: dict[tuple[str, str], list[int]] = {}
    for schema in runtime.get_all_operator_schema():
        versions.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    kernels: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in getattr(runtime, "get_all_opkernel_def", list)():
        kernels.setdefault((kernel.domain, kernel.op_name), []).append(kernel.version_range)
    domains = sorted({domain for domain, _ in versions})
    lacking = {}
    for domain, name, version in operators:
        if domain not in domains:
            continue
        known = [since for since in versions.get((domain, name), []) if since <= version]
        if not known:
            lacking[f"{domain}::{name}"] = "unknown"
        elif kernels and not any(
            first <= max(known) <= last for first, last in kernels.get((domain, name), [])
        ):
            lacking[f"{domain}::{name}"] = "no kernel"
    return domains, lacking


def _prepare(request: Request, say: Callable[[str, object], None]) -> bool:
    """Returns whether the model can be prepared."""
    from opgraft import _pyop
    from opgraft._base._errors import Error, ModelError
    from opgraft._doctor import _survey
    from opgraft._run._prepare import prepare_to_open

    kernels = None
    if request.is_installed:
        from opgraft._run._kernels import Kernels

        kernels = Kernels()
    try:
        prepared, _ = prepare_to_open(
            request.model,
            may_refer=True,
            runtime=request.runtime,
            allow=request.allow,
            prefer=request.prefer,
            kernels=kernels,
        )
    except Error as error:
        say("refusal", [type(error).__name__, str(error)])
        if isinstance(error, ModelError):
            is_too_new = error.opset_limit is not None or request.is_unknown
            say("is_too_new", is_too_new or _is_for_a_newer_runtime(request))
        return False
    say("run_by_packs", prepared.packs)
    say("rescues", [one._asdict() for one in prepared.rescues])
    say("rescued", _rescued(prepared.rescues))
    if prepared.path is None:
        say("prepared", _pyop.survey(prepared.bytes, "the model", request.runtime))
    else:
        say("prepared", _survey.values_of(prepared.path, request.runtime))
    return True


def _rescued(rescues: Sequence[Rescue]) -> dict[str, str]:
    """Returns by "domain::Name" what the nodes run by, and what that costs."""
    ways: dict[str, set[str]] = {}
    for one in rescues:
        name = one.operator if "::" in one.operator else f"::{one.operator}"
        ways.setdefault(name, set()).add(f"{one.rung}, {one.cost}")
    return {name: "; ".join(sorted(of)) for name, of in ways.items()}


def _is_for_a_newer_runtime(request: Request) -> bool:
    from opgraft._base._errors import Error
    from opgraft._run._prepare import prepare_to_open

    try:
        prepare_to_open(
            request.model,
            may_refer=True,
            runtime="999.0.0",
            allow=request.allow,
            prefer=request.prefer,
        )
    except Error:
        return False
    return True


def _try(request: Request, say: Callable[[str, object], None]) -> tuple[str, str] | None:
    """Opens a session as a program would, on a GPU if needed, and closes it. Returns the error.

    Runs no operator of ours: ONNX Runtime folds constants with its own operators only.
    """
    import onnxruntime

    if not request.is_verbose:
        onnxruntime.set_default_logger_severity(4)  # errors are in the report

    from opgraft._base._errors import UnavailableError
    from opgraft._cuda._provider import PROVIDERS, needs_gpu
    from opgraft._run._session import InferenceSession

    def make(providers: Sequence[str] | None = None) -> None:
        options = onnxruntime.SessionOptions()
        if not request.is_verbose:
            options.log_severity_level = 4
        for library in request.libraries:
            options.register_custom_ops_library(library)
        session = InferenceSession(
            request.model, options, providers, allow=request.allow, prefer=request.prefer
        )
        inputs = [
            {"name": one.name, "type": one.type, "shape": list(one.shape)}
            for one in session.get_inputs()
        ]
        say("inputs", inputs)

    try:
        try:
            make()
        except UnavailableError as error:
            if not needs_gpu(error):
                raise
            with warnings.catch_warnings():  # the error says the same
                warnings.simplefilter("ignore")
                make(PROVIDERS)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return type(error).__name__, str(error)
    return None
