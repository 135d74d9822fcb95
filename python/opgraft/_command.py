"""The command `opgraft`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from opgraft._base._errors import Error
from opgraft._build import _build, _new, _run_tests
from opgraft._bundle import _bundle
from opgraft._declare import _packs
from opgraft._doctor import _doctor, _survey
from opgraft._doctor._examination import find_held
from opgraft._doctor._permissions import allowance_of, held_for, permissions_of
from opgraft._doctor._vouching import doubt_of
from opgraft._run import _run
from opgraft._run._prepare import PreparedModel, installed_runtime, is_installed, prepare
from opgraft._terminal import _versions
from opgraft._terminal._document import Code, Line, harmless_line
from opgraft._terminal._screen import complain, show

#: The exit status of a program whose reader has gone, as in shells: 128 + SIGPIPE.
_NOBODY_READS = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. The exit status is 0, 1 after an error, or 2 for wrong usage."""
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # as in opgraft doctor model.onnx | head -3
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # Python flushes them again at exit
            os.dup2(nothing, stream.fileno())
        return _NOBODY_READS


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    if options.verbose:
        from opgraft._terminal import _verbose

        _verbose.begin()
    try:
        return int(options.command(options))
    except BrokenPipeError:
        raise
    except (Error, OSError) as error:
        complain(str(error), type(error).__name__)
        return 1


class _ShowVersions(argparse.Action):
    """--version: Opgraft's own version in the first line, then what it works with."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        found = _versions.installed()
        show([Line(f"{name} {version}") for name, version in found.items()])
        parser.exit()


def _add_verbose(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=default,
        help="tell on stderr what happens, with the log of ONNX Runtime",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opgraft", description="Operators grafted onto ONNX.")
    parser.add_argument("--version", action=_ShowVersions, help="show the versions that matter")
    _add_verbose(parser, default=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="run a model and print its outputs",
        description="Runs MODEL once and prints each output: name, type, shape, then its first "
        "elements in one line.",
    )
    run.add_argument("model", metavar="MODEL", help="an ONNX file")
    run.add_argument(
        "--input",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="the value of an input; repeat it for each input",
    )
    run.add_argument(
        "--output",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="write an output to a file as well; may be repeated",
    )
    _add_modules(
        run,
        "a Python module that the model may run, or 'package.*'; may be repeated. It is also "
        "looked for in the current folder",
    )
    _add_packs(run)
    _add_exact(run)
    run.add_argument(
        "--gpu",
        metavar="NUMBER",
        type=_gpu_number,
        help="run operators that have a kernel for GPUs on this GPU; the first is 0",
    )
    run.add_argument(
        "--host",
        choices=["python", "cpp"],
        default="python",
        help="run it in this Python (the default), or in the C++ program opgraft-run",
    )
    run.add_argument(
        "--onnxruntime",
        metavar="LIBRARY",
        help="with --host cpp: the libonnxruntime.so to use; by default the one of this Python",
    )
    run.set_defaults(command=_run.run)

    prepare_parser = commands.add_parser(
        "prepare",
        help="write a model that plain ONNX Runtime sessions with Opgraft load",
        description="Prepares the model IN and writes it to OUT. If the model has external data, "
        "OUT must be in the same folder as IN.",
    )
    prepare_parser.add_argument("source", metavar="IN", help="an ONNX file")
    prepare_parser.add_argument("target", metavar="OUT", help="the file to write")
    prepare_parser.add_argument(
        "--runtime",
        metavar="VERSION",
        help="the ONNX Runtime that will load it, such as 1.22.1; by default the installed one",
    )
    _add_modules(
        prepare_parser,
        "a Python module that may be imported if the model uses an operator that it declares; may "
        "be repeated",
    )
    _add_packs(prepare_parser)
    _add_exact(prepare_parser)
    prepare_parser.set_defaults(command=_prepare)
    _add_doctor(commands.add_parser)
    _add_bundle(commands.add_parser)
    _add_new(commands.add_parser)
    _add_build(commands.add_parser)
    _add_test(commands.add_parser)
    for command in commands.choices.values():
        # Not False: that would undo the option before the command.
        _add_verbose(command, default=argparse.SUPPRESS)
    return parser


def _add_doctor(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "doctor",
        help="show what runs each operator of a model, and what is missing",
        description="Lists the operators of MODEL that are not ONNX Runtime's own, with what will "
        "run them, what is missing and how to fix it. If nothing is missing and everything is "
        "allowed, also tries to open a session. The exit status is 0 if nothing is missing, 1 if "
        "something is, 2 for a bad model.",
    )
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_modules(
        parser,
        "a Python module that the model may run, or 'package.*'; may be repeated. No other module "
        "is imported",
    )
    _add_packs(parser)
    parser.add_argument(
        "--library",
        metavar="FILE",
        action="append",
        default=[],
        help="another custom operator library that will be registered with the session; may be "
        "repeated",
    )
    parser.add_argument(
        "--runtime",
        metavar="VERSION",
        help="the ONNX Runtime that will load it, such as 1.22.1; by default the installed one, "
        "which is the only one in which a session can be tried",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write the report as one HTML page that draws the graph; needs the package onnx",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="with --html: run the model, in a separate process, and show the time of each node",
    )
    parser.add_argument(
        "--input",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="with --profile: the value of an input; those that are not given are made up",
    )
    parser.set_defaults(command=_doctor.doctor)


def _add_bundle(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "bundle",
        help="gather what a model needs into a folder, with a program that runs it",
        description="Copies MODEL, its weights, Opgraft, ONNX Runtime, packs, Python modules and "
        "licences into FOLDER, with a script that runs it by the C++ program opgraft-run, and "
        "checks that it runs in a fresh process with an empty environment. What is needed besides "
        "is listed. With --check, MODEL is the folder of a bundle, which is checked again.",
    )
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help="a new or an empty folder")
    _add_modules(
        parser,
        "a Python module that the model may run, or 'package.*'; it is copied, unless it belongs "
        "to an installed package; may be repeated",
    )
    _add_packs(parser)
    parser.add_argument(
        "--libtorch",
        action="store_true",
        help="copy libtorch for ATen nodes; otherwise it is only named",
    )
    parser.add_argument(
        "--input",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="the value of an input for the check; those that are not given are made up",
    )
    parser.add_argument("--check", action="store_true", help="check a bundle that is there")
    parser.set_defaults(command=_bundle.bundle)


def _add_new(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "new",
        help="start an operator in C++: a folder that builds and has tests",
        description="Writes a folder for the operator NAME: its declaration and kernel, tests in "
        "C++ and in Python, a README, and a CMakeLists.txt.",
    )
    parser.add_argument("name", metavar="NAME", help="such as my.domain::Scale")
    parser.add_argument("--folder", metavar="FOLDER", help="by default the name in snake case")
    parser.add_argument(
        "--cuda", action="store_true", help="add a kernel for NVIDIA GPUs, which nvcc compiles"
    )
    parser.set_defaults(command=_new.new)


def _add_build(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "build",
        help="build a pack, a library of operators for ONNX Runtime, from C++ sources",
        description="Builds the operators in the SOURCEs into one library, which ONNX Runtime 1.19 "
        "and newer can load, even on machines without Opgraft. By default it is libNAME.so in the "
        "current folder, where NAME is that of the first source. Without a SOURCE, uses all "
        "sources in the current folder except tests.",
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="a C++ source")
    parser.add_argument("-o", "--output", metavar="LIBRARY", help="the file to write")
    _build.add_settings(parser)
    parser.set_defaults(command=_build.build)


def _add_test(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "test",
        help="build a pack and run its tests, in C++ and in Python",
        description="Builds the pack of FOLDER as opgraft build does, then runs its *_test.cc with "
        "GoogleTest and its test_*.py with pytest. The exit status is 0 if all tests pass. The "
        "former need GoogleTest (apt-get install libgtest-dev), the latter pytest and onnx (pip "
        "install pytest onnx).",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default=".", help="by default the current folder"
    )
    _build.add_settings(parser)
    parser.set_defaults(command=_run_tests.test)


def _gpu_number(text: str) -> str:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, not '{text}'")
    return text


def _add_modules(parser: argparse.ArgumentParser, allow: str) -> None:
    """Adds the options --allow, with the help text `allow`, and --import."""
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help=allow)
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        action="append",
        default=[],
        help="a Python module to import first, for the operators that it declares; may be repeated",
    )


def _add_packs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pack",
        dest="packs",
        metavar="FILE",
        action="append",
        default=[],
        help="a pack to load first, for its operators; may be repeated",
    )
    parser.add_argument(
        "--prefer",
        metavar="NAME",
        action="append",
        default=[],
        help="an operator of ONNX Runtime's own domains that a pack should run instead of it, such "
        "as com.microsoft::Gelu, or a domain; may be repeated",
    )


def _add_exact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exact",
        action="store_true",
        help="let each node that runs in a wider type than its own round its result",
    )


def _prepare(options: argparse.Namespace) -> int:
    sys.path.append(os.getcwd())
    for pack in options.packs:
        _packs.load(pack)
    prepared = prepare(
        options.source,
        runtime=options.runtime,
        allow=options.allow,
        imports=options.imports,
        prefer=options.prefer,
        exact=options.exact,
    )
    prepared.save(options.target)
    told = []
    for operator in prepared.report:
        what = operator.operator or f"{operator.module}.{operator.class_name}"
        told.append(Line(harmless_line(f"node '{operator.node}' runs {what}")))
    for name, pack in sorted(prepared.packs.items()):
        told.append(Line(f"the pack {os.path.basename(pack)} runs {name.removeprefix('::')}"))
    told += [Line(f"libtorch runs {name}") for name in sorted(prepared.aten)]
    told += _told_of_rescues(prepared, options)
    if told:
        show(told)
    survey = _survey.take(options.target, options.runtime or installed_runtime())
    modules = {allowance_of(operator.module) for operator in prepared.report}
    for one in survey.operators:
        if one.torch_operator and not one.is_in_libtorch:
            modules |= set(permissions_of(one, survey))
    if any(held_for(operator.module) for operator in prepared.report):
        modules |= {name for names in find_held(options.target).values() for name in names}
    modules |= {name for name, is_listed in prepared.aten.items() if not is_listed}
    lines = [f"opgraft.load({pack!r})" for pack in sorted(set(prepared.packs.values()))]
    doubts = [doubt_of(name, f"'{name}'") for name in sorted(modules)]
    for doubt in filter(None, doubts):
        complain(f"{doubt.problem}. {doubt.remedy.capitalize()}")
    if (modules or lines or prepared.aten) and not any(doubts):
        allow = f", allow={sorted(modules)!r}" if modules else ""
        line = "; ".join([*lines, f"opgraft.register(sess_options{allow})"])
        show([Code(f"to run it: {line}")])
    _name_the_unknown(options.target, survey)
    return 0


def _told_of_rescues(prepared: PreparedModel, options: argparse.Namespace) -> list[Line]:
    """Says which nodes are rescued; those in wider types one by one only with --verbose."""
    if options.runtime is not None and not is_installed(options.runtime):
        complain(
            f"note: ONNX Runtime {options.runtime} is not installed, so what it has kernels for is "
            "not known, and no node is put into another type for it"
        )
    if prepared.why_refused:
        complain(f"note: {prepared.why_refused}")
    told = []
    counts: Counter[str] = Counter()
    for one in prepared.rescues:
        is_body = one.rung == "function body"
        if not (is_body or options.verbose):
            counts[one.rung] += 1
            continue
        until = (
            f"; not needed with {one.native_from}" if options.verbose and one.native_from else ""
        )
        what = f"{'by' if is_body else 'in'} {one.rung} ({one.cost}){until}"
        told.append(Line(harmless_line(f"node '{one.node}' runs {one.operator} {what}")))
    return told + [
        Line(f"nodes that are rescued: {count}, {rung} (--verbose names each)")
        for rung, count in counts.items()
    ]


def _name_the_unknown(path: str, survey: _survey.Survey) -> None:
    """Prints which operators of a prepared model neither ONNX Runtime nor Opgraft defines."""
    from opgraft._pyop import RUNTIME_DOMAINS

    known = {one.runtime_name for one in _packs.operators()}
    unknown = [
        one.title
        for one in survey.operators
        if not (one.is_pyop or one.is_function or one.domain in RUNTIME_DOMAINS)
        and one.domain != "org.pytorch.aten"
        and one.full_name not in known
    ]
    if unknown:
        complain(
            f"note: these operators are not defined here: {', '.join(unknown)}. If a "
            "Python module declares one, use --import MODULE; if a pack has it, --pack FILE. "
            "Otherwise its library must be registered with the session; "
            f"'opgraft doctor {path}' tells more"
        )
