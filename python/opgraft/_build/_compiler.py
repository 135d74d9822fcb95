"""Finds the C++ compiler for packs, and runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opgraft._build import _refusals
from opgraft._base._errors import Error, UnavailableError
from opgraft._base._library import get_include
from opgraft._base._log import tell
from opgraft._terminal._bar import Bar

# The features of C++20 that the SDK needs, by the macros that compilers and libraries define.
_NEEDED = {
    "__cpp_concepts": "concepts",
    "__cpp_lib_bit_cast": "std::bit_cast",
    "__cpp_lib_span": "std::span",
}
_NEWER = "g++ 11 or clang++ 14 or newer is needed (apt-get install g++)"


@dataclass(frozen=True)
class Compiler:
    """A C++20 compiler. `macros` are all that it defines, which identify its version and target."""

    command: tuple[str, ...]
    macros: str

    @staticmethod
    def find(given: str | None = None) -> Compiler:
        """Finds the given compiler, otherwise $CXX, otherwise g++, otherwise clang++."""
        for command in _candidates(given):
            path = shutil.which(command[0])
            if path is not None:
                return Compiler._ask((path, *command[1:]))
        if given or os.environ.get("CXX"):
            where = "--compiler" if given else "the variable CXX"
            name = given or os.environ["CXX"]
            raise UnavailableError(
                f"the compiler '{name}', which {where} names, is not found. Fix: name an installed "
                "compiler, or install g++ (apt-get install g++)"
            )
        raise UnavailableError(
            "there is no C++ compiler, neither g++ nor clang++. Fix: apt-get install g++"
        )

    @staticmethod
    def _ask(command: tuple[str, ...]) -> Compiler:
        title = shlex.join(command)
        question = [*command, "-std=c++20", "-dM", "-E", "-x", "c++", "-"]
        done = subprocess.run(
            question, input=b"#include <version>\n", capture_output=True, check=False
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()
            raise UnavailableError(f"'{title}' cannot compile C++20: {_NEWER}. Its message: {said}")
        macros = done.stdout.decode(errors="replace")
        defined = set(re.findall(r"^#define (\w+)", macros, re.M))
        lacking = [what for macro, what in _NEEDED.items() if macro not in defined]
        if lacking:
            raise UnavailableError(
                f"the C++20 of '{title}' is too old, it lacks {', '.join(lacking)}: {_NEWER}"
            )
        return Compiler(command, macros)

    @property
    def identity(self) -> str:
        """A text that differs between compilers and between versions of a compiler."""
        stamps = []
        for word in self.command:
            path = shutil.which(word)
            if path is not None:
                status = os.stat(path)  # follows links to the program itself
                stamps.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}")
        return "\n".join([*self.command, *stamps, self.macros])

    def run(self, *arguments: str | os.PathLike[str]) -> Diagnosis:
        command = [*self.command, *map(argument, arguments)]
        if sys.stderr.isatty():
            command.append("-fdiagnostics-color=always")
        done = subprocess.run(command, capture_output=True, check=False)
        return Diagnosis(done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace"))

    def can_include(self, header: str, options: Sequence[str]) -> bool:
        question = f"#if !__has_include(<{header}>)\n#error\n#endif\n".encode()
        command = [*self.command, *options, "-E", "-x", "c++", "-"]
        return (
            subprocess.run(command, input=question, capture_output=True, check=False).returncode
            == 0
        )


@dataclass(frozen=True)
class Diagnosis:
    """The result of a call of the compiler, and its output."""

    is_good: bool
    text: str

    def show(self) -> None:
        """Prints the compiler's output unchanged."""
        if self.text:
            sys.stderr.write(self.text)
            sys.stderr.flush()


class Translator(Protocol):
    """A compiler."""

    def run(self, *arguments: str | os.PathLike[str]) -> Diagnosis: ...


@dataclass(frozen=True)
class Translation:
    """A source to compile, the compiler, its options, and the path of the object."""

    compiler: Translator
    source: Path
    options: Sequence[str]
    target: Path


def translate(translations: Iterable[Translation]) -> None:
    """Compiles in parallel, but prints output in order. Raises if a source does not compile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    translations = list(translations)
    with Bar("opgraft build", sys.stderr) as bar, ThreadPoolExecutor(cores) as pool:
        running: list[tuple[Translation, Future[Diagnosis]]] = []
        for one in translations:
            tell("build", "compiling %s", one.source)
            running.append((one, pool.submit(_translate, one)))
        found = []
        try:
            for number, (one, future) in enumerate(running):
                bar.update(number / len(running), f"compile {one.source.name}")
                found.append((one, future.result()))
                if not found[-1][1].is_good:
                    break
        finally:
            pool.shutdown(cancel_futures=True)
    # After the bar is gone.
    for one, diagnosis in found:
        diagnosis.show()
        if not diagnosis.is_good:
            raise Error(_refusal(one.source, diagnosis))


def _translate(one: Translation) -> Diagnosis:
    unfinished = one.target.with_suffix(".unfinished")
    diagnosis = one.compiler.run(*one.options, "-c", one.source, "-o", unfinished)
    if diagnosis.is_good:
        unfinished.replace(one.target)
    return diagnosis


def _refusal(source: Path, diagnosis: Diagnosis) -> str:
    """Returns the final message: the sentences of the declarations' failed checks, if any."""
    found = _refusals.find(diagnosis.text, get_include())
    if not found:
        return f"{source} does not compile; see above"
    lines = [f"  {one.place or source}: {one.text}" for one in found]
    return "\n".join([f"{source} does not compile. The errors (with details above):", *lines])


def argument(given: str | os.PathLike[str]) -> str:
    """Returns an option unchanged; protects a path that begins with - or @, like an option."""
    path = os.fspath(given)
    if isinstance(given, str) or not path.startswith(("-", "@")):
        return path
    return f"./{path}"


def _candidates(given: str | None) -> list[list[str]]:
    if given:
        return [[given]]
    if os.environ.get("CXX"):
        return [shlex.split(os.environ["CXX"])]
    return [["g++"], ["clang++"]]
