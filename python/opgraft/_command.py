"""The command `opgraft`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from opgraft import __version__, _build, _doctor, _new, _packs, _run, _run_tests
from opgraft._errors import Error
from opgraft._permissions import allowance_of
from opgraft._prepare import prepare
from opgraft._vouching import doubt_of

#: The exit status of a program that nobody reads any more, as shells have it: 128 + SIGPIPE.
_NOBODY_READS = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status is 0, 1 for an error, 2 for wrong use."""
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # as in opgraft doctor model.onnx | head -3
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # which are flushed again at the end
            os.dup2(nothing, stream.fileno())
        return _NOBODY_READS


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except BrokenPipeError:
        raise
    except (Error, OSError) as error:
        print(f"opgraft: {type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opgraft", description="Operators grafted onto ONNX.")
    parser.add_argument("--version", action="version", version=f"opgraft {__version__}")
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
        help="the value of an input; once for each",
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
        "a Python module that the model may run, or 'package.*'; may be repeated. It is "
        "looked for in the current folder too",
    )
    _add_packs(run)
    run.add_argument(
        "--gpu",
        metavar="NUMBER",
        type=_gpu_number,
        help="run on this GPU, from 0 on, what has a kernel for GPUs",
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
        help="with --host cpp: the libonnxruntime.so to use, by default that of this Python",
    )
    run.set_defaults(command=_run.run)

    prepare_parser = commands.add_parser(
        "prepare",
        help="write a model that plain ONNX Runtime sessions with Opgraft load",
        description="Prepares the model IN and writes it to OUT; one with external data must stay "
        "in its folder.",
    )
    prepare_parser.add_argument("source", metavar="IN", help="an ONNX file")
    prepare_parser.add_argument("target", metavar="OUT", help="the file to be written")
    prepare_parser.add_argument(
        "--runtime",
        metavar="VERSION",
        help="the ONNX Runtime that will load it, such as 1.22.1; by default the one installed",
    )
    _add_modules(
        prepare_parser,
        "a Python module that may be imported where the model asks for an operator that it "
        "declares; may be repeated",
    )
    _add_packs(prepare_parser)
    prepare_parser.set_defaults(command=_prepare)
    _add_doctor(commands.add_parser)
    _add_new(commands.add_parser)
    _add_build(commands.add_parser)
    _add_test(commands.add_parser)
    return parser


def _add_doctor(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "doctor",
        help="tell who runs each operator of a model, and what is missing",
        description="Lists the operators of MODEL that are not ONNX Runtime's own, who will run "
        "them, what is missing and what to do; then has a session made of it, where all is "
        "there and allowed. The exit status is 0 where nothing is missing, 1 where something is, "
        "2 for a bad model.",
    )
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_modules(
        parser,
        "a Python module that the model may run, or 'package.*'; may be repeated. No other is "
        "imported",
    )
    _add_packs(parser)
    parser.add_argument(
        "--library",
        metavar="FILE",
        action="append",
        default=[],
        help="someone's library of custom operators that the session will have registered; may be "
        "repeated",
    )
    parser.add_argument(
        "--runtime",
        metavar="VERSION",
        help="the ONNX Runtime that will load it, such as 1.22.1; by default the one installed, "
        "which alone can be tried",
    )
    parser.add_argument("--json", action="store_true", help="print it for programs")
    parser.set_defaults(command=_doctor.doctor)


def _add_new(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "new",
        help="begin an operator in C++: a folder that builds and is tested at once",
        description="Writes a folder for the operator NAME: its declaration and kernel, tests in "
        "C++ and in Python, a page, and a CMakeLists.txt.",
    )
    parser.add_argument("name", metavar="NAME", help="such as my.domain::Scale")
    parser.add_argument("--folder", metavar="FOLDER", help="by default the name in snake case")
    parser.add_argument(
        "--cuda", action="store_true", help="with a kernel for NVIDIA's GPUs too, which nvcc builds"
    )
    parser.set_defaults(command=_new.new)


def _add_build(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "build",
        help="build a pack, a library of operators for ONNX Runtime, from C++ sources",
        description="Makes one library of the operators in the SOURCEs, which ONNX Runtime 1.19 "
        "and newer load, on machines without Opgraft too; libNAME.so in the current folder, after "
        "the first source. Without a SOURCE, of those in the current folder that are no tests.",
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="a C++ source")
    parser.add_argument("-o", "--output", metavar="LIBRARY", help="the file to be written")
    _build.add_settings(parser)
    parser.set_defaults(command=_build.build)


def _add_test(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    parser = add_parser(
        "test",
        help="build a pack and run its tests, in C++ and in Python",
        description="Builds the pack of FOLDER as opgraft build does, then runs the cases in its "
        "*_test.cc, by GoogleTest, and in its test_*.py, by pytest. The exit status is 0 where all "
        "have passed.",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default=".", help="by default the current one"
    )
    _build.add_settings(parser)
    parser.set_defaults(command=_run_tests.test)


def _gpu_number(text: str) -> str:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, not '{text}'")
    return text


def _add_modules(parser: argparse.ArgumentParser, allow: str) -> None:
    """The options --allow, which this text explains, and --import."""
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help=allow)
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        action="append",
        default=[],
        help="a Python module to be imported first, for the operators that it declares; may be "
        "repeated",
    )


def _add_packs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pack",
        dest="packs",
        metavar="FILE",
        action="append",
        default=[],
        help="a pack to be loaded first, for the operators in it; may be repeated",
    )
    parser.add_argument(
        "--prefer",
        metavar="NAME",
        action="append",
        default=[],
        help="an operator of ONNX Runtime's own domains that a pack shall run instead of it, such "
        "as com.microsoft::Gelu, or a domain; may be repeated",
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
    )
    prepared.save(options.target)
    for operator in prepared.report:
        what = operator.operator or f"{operator.module}.{operator.class_name}"
        print(f"node '{operator.node}' runs {what}")
    for name, pack in sorted(prepared.packs.items()):
        print(f"the pack {os.path.basename(pack)} runs {name.removeprefix('::')}")
    for name in sorted(prepared.aten):
        print(f"libtorch runs {name}")
    modules = {allowance_of(operator.module) for operator in prepared.report}
    modules |= {name for name, is_listed in prepared.aten.items() if not is_listed}
    lines = [f"opgraft.load({pack!r})" for pack in sorted(set(prepared.packs.values()))]
    doubts = [doubt_of(name, f"'{name}'") for name in sorted(modules)]
    for doubt in filter(None, doubts):
        print(f"opgraft: {doubt.problem}. {doubt.remedy.capitalize()}", file=sys.stderr)
    if (modules or lines or prepared.aten) and not any(doubts):
        allow = f", allow={sorted(modules)!r}" if modules else ""
        print("to run it: " + "; ".join([*lines, f"opgraft.register(sess_options{allow})"]))
    _name_the_unknown(options.target, options.runtime)
    return 0


def _name_the_unknown(path: str, runtime: str | None) -> None:
    """Says which operators of a prepared model are neither ONNX Runtime's nor ours."""
    from opgraft import _survey
    from opgraft._prepare import installed_runtime
    from opgraft._pyop import RUNTIME_DOMAINS

    survey = _survey.take(path, runtime or installed_runtime())
    known = {one.runtime_name for one in _packs.operators()}
    unknown = [
        one.title
        for one in survey.operators
        if not (one.is_pyop or one.is_function or one.domain in RUNTIME_DOMAINS)
        and one.domain != "org.pytorch.aten"
        and one.full_name not in known
    ]
    if unknown:
        print(
            f"opgraft: note: nobody here knows {', '.join(unknown)}. Where a Python module "
            "declares it: --import MODULE; where a pack has it: --pack FILE. Else its library must "
            "be registered with the session; "
            f"'opgraft doctor {path}' says more",
            file=sys.stderr,
        )
