"""Builds packs: `opgraft build`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opgraft._build import _cuda_compiler
from opgraft._build._compiler import Compiler, Translation, translate
from opgraft._build._cuda_compiler import CudaCompiler
from opgraft._base._errors import Error
from opgraft._base._log import tell
from opgraft._base._library import exports_map, get_include, pack_recipe
from opgraft._build._objects import Objects
from opgraft._terminal._screen import complain

# The recipe is shared with CMake's opgraft_add_pack. It has -O2 rather than -O3 or -march=native: a
# pack must run on other machines, which may lack this one's instructions, and the gain of -O3 is
# seldom worth the size. --flag=-O3 adds it.
_RECIPE = pack_recipe()
_DEBUG = ["-O0", "-g"]
_SUFFIXES = (".cc", ".cpp", ".cxx", ".c++", ".C")


@dataclass(frozen=True)
class CudaSettings:
    """How to build sources for CUDA: the author's choices; None means the default."""

    compiler: str | None = None
    architectures: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How to build: the compiler, and the author's options, which come after ours."""

    compiler: Compiler
    flags: tuple[str, ...] = ()
    debug: bool = False
    cuda: CudaSettings = CudaSettings()

    @property
    def compile_options(self) -> list[str]:
        level = _DEBUG if self.debug else _RECIPE["optimized"]
        ours = [f"-std=c++{_RECIPE['standard']}", *_RECIPE["compile"], *level]
        return [*ours, *(flag for flag in self.flags if not _is_for_linker(flag))]

    @property
    def adapter_options(self) -> list[str]:
        """The options for the package's own sources, without include folders and warnings."""
        theirs = ("-I", "-W", "-isystem", "-include")
        return [option for option in self.compile_options if not option.startswith(theirs)]

    @property
    def link_options(self) -> list[str]:
        sanitizes = any(flag.startswith("-fsanitize") for flag in self.flags)
        # A sanitizer's functions come from the program that loads the pack.
        checks = [] if sanitizes else _RECIPE["link_unless_sanitized"]
        return [*checks, *self.flags]


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compiler",
        metavar="COMPILER",
        help="g++, clang++ or a path; by default $CXX, otherwise g++, otherwise clang++",
    )
    parser.add_argument(
        "--flag",
        dest="flags",
        metavar="FLAG",
        action="append",
        default=[],
        help="an option for the compiler and the linker, written --flag=-O3; may be repeated",
    )
    parser.add_argument(
        "--debug", action="store_true", help="build for a debugger: no optimisation, with symbols"
    )
    parser.add_argument(
        "--cuda-compiler",
        metavar="NVCC",
        help="the compiler of .cu files; by default $CUDACXX, otherwise nvcc, otherwise that of "
        "/usr/local/cuda",
    )
    parser.add_argument(
        "--cuda-arch",
        metavar="LIST",
        help="the GPUs that .cu files are compiled for: numbers such as 80,90 (the code for the "
        "last one also runs on newer GPUs), or native; by default all-major",
    )
    parser.add_argument(
        "--cuda-flag",
        dest="cuda_flags",
        metavar="FLAG",
        action="append",
        default=[],
        help="an option for nvcc only, written --cuda-flag=-use_fast_math; may be repeated",
    )


def settings_of(options: argparse.Namespace) -> Settings:
    cuda = CudaSettings(options.cuda_compiler, options.cuda_arch, tuple(options.cuda_flags))
    return Settings(Compiler.find(options.compiler), tuple(options.flags), options.debug, cuda)


def build(options: argparse.Namespace) -> int:
    sources = [Path(source) for source in options.sources]
    if sources:
        output = Path(f"lib{sources[0].stem}.so")
    else:
        sources, output = pack_of_folder(Path())
    output = Path(options.output) if options.output else output
    build_pack(sources, output, settings_of(options))
    print(output)
    return 0


def pack_of_folder(folder: Path) -> tuple[list[Path], Path]:
    """Returns the sources in an operator's folder, as made by `opgraft new`, and their library."""
    if not folder.is_dir():
        raise Error(f"there is no folder {folder}")
    sources = [
        path
        for suffix in (".cc", _cuda_compiler.SUFFIX)
        for path in sorted(folder.glob(f"*{suffix}"))
        if not path.stem.endswith("_test")
    ]
    if not any(b"opgraft/" in path.read_bytes() for path in sources):
        raise Error(
            f"no source is given, and there is no operator's source in {folder.resolve()}. Fix: "
            "opgraft build FILE.cc, or first opgraft new my.domain::Name"
        )
    own = folder / f"{folder.resolve().name}.cc"
    name = own.stem if own in sources else sources[0].stem
    return sources, folder / f"lib{name}.so"


def build_pack(sources: Sequence[Path], output: Path, settings: Settings) -> None:
    """Builds one library from these sources; `output` is replaced once it is complete."""
    _check(sources, output)
    cuda = _cuda_compiler_for(sources, settings)
    with tempfile.TemporaryDirectory(prefix="opgraft-") as scratch:
        parts = [Objects("adapter", settings.compiler, settings.adapter_options, Path(scratch))]
        objects = compile_sources(sources, settings, Path(scratch), cuda=cuda, beside=parts)
        if _includes_contrib(objects):
            parts.append(
                Objects("contrib", settings.compiler, settings.adapter_options, Path(scratch))
            )
            compile_parts(parts)
        objects += [path for part in parts for path in part.files()]
        # Beside the output, because a file can only be renamed within a file system.
        try:
            beside = tempfile.TemporaryDirectory(prefix=".opgraft-", dir=output.parent)
        except OSError as error:
            raise Error(f"{output} cannot be written: {error.strerror}") from None
        with beside as folder:
            library = Path(folder, "pack.so")
            arguments: list[str | Path] = [
                "-shared",
                *objects,
                *_RECIPE["link"],
                "-Xlinker",
                f"--version-script={exports_map()}",
                *settings.link_options,
                *(cuda.link_options() if cuda is not None else []),
            ]
            run_linker(settings, arguments, library, output)
            _check_declarations(library, output)
            os.replace(library, output)


def _cuda_compiler_for(sources: Sequence[Path], settings: Settings) -> CudaCompiler | None:
    """Returns the compiler for CUDA, or None if no source needs it."""
    for_cuda = [source for source in sources if source.suffix == _cuda_compiler.SUFFIX]
    if not for_cuda:
        return None
    return CudaCompiler.find(settings.cuda.compiler, settings.compiler, for_cuda)


def compile_sources(
    sources: Sequence[Path],
    settings: Settings,
    scratch: Path,
    *,
    beside: Sequence[Objects],
    cuda: CudaCompiler | None = None,
) -> list[Path]:
    """Compiles the author's sources to objects, and parts of the package at the same time."""
    objects = [scratch / f"{number}.o" for number in range(len(sources))]
    options = ["-Wall", *settings.compile_options]
    if cuda is not None:
        options += [f"-D{one}" for one in _RECIPE["definitions_with_cuda"]]
    include = ["-isystem", get_include()]
    for_host = cuda.host_options() if cuda is not None else []
    translations = []
    for source, target in zip(sources, objects, strict=True):
        included = ["-MD", "-MF", str(_included(target))]
        if cuda is not None and source.suffix == _cuda_compiler.SUFFIX:
            own = cuda.options(options, settings.cuda.architectures)
            own += [*settings.cuda.flags, *include, *included]
            translations.append(Translation(cuda, source, own, target))
        else:
            own = [*options, *include, *for_host, *included]
            translations.append(Translation(settings.compiler, source, own, target))
    compile_parts(beside, translations)
    return objects


#: If more sources than this must be compiled, which takes a while, a message says so.
_FEW = 3


def compile_parts(parts: Sequence[Objects], beside: Sequence[Translation] = ()) -> None:
    """Compiles those of the package's own sources that are not compiled yet."""
    translations = list(beside)
    for part in parts:
        if part.missing_sources() > _FEW:
            complain(f"compiling the common part of every {part.purpose}, only this once")
        translations += part.missing()
    try:
        translate(translations)
    finally:
        for part in parts:
            part.keep()


def _included(target: Path) -> Path:
    """Returns the file in which the compiler lists the files that an object's source includes."""
    return target.with_suffix(".d")


def _includes_contrib(objects: Sequence[Path]) -> bool:
    return any(b"/opgraft/contrib/" in _included(one).read_bytes() for one in objects)


def run_linker(
    settings: Settings, arguments: Sequence[str | Path], target: Path, title: Path
) -> None:
    # With the options for compiling, since the optimiser may run at link time.
    options = settings.compile_options
    tell("build", "linking %s", title)
    diagnosis = settings.compiler.run(*options, *arguments, "-o", target)
    diagnosis.show()
    if not diagnosis.is_good:
        raise Error(f"{title} cannot be linked; see above")


def _check(sources: Sequence[Path], output: Path) -> None:
    for place, source in enumerate(sources):
        if not source.is_file():
            raise Error(f"there is no file {source}")
        if source.suffix not in (*_SUFFIXES, _cuda_compiler.SUFFIX):
            raise Error(
                f"{source} is not a C++ source: expected a name that ends in one of {_SUFFIXES}, "
                f"or in {_cuda_compiler.SUFFIX}"
            )
        if any(source.samefile(other) for other in sources[:place]):
            raise Error(f"{source} is given twice")
        if output.exists() and source.samefile(output):
            raise Error(f"{output} is the source itself")
    if output.is_dir():
        raise Error(f"{output} is a folder. Fix: name the library, such as -o {output}/libmy_op.so")
    if not output.parent.is_dir():
        raise Error(f"there is no folder {output.parent} to write {output.name} to")


# The members of OpgraftPack (opgraft/c_api.h).
_ASK = """
import ctypes, sys
class Pack(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("problem", ctypes.c_char_p),
                ("operators", ctypes.c_void_p), ("operator_count", ctypes.c_size_t)]
ask = ctypes.CDLL(sys.argv[1]).opgraft_pack
ask.restype = ctypes.POINTER(Pack)
pack = ask().contents
empty = b"its sources declare no operator: OPGRAFT_OP(\\"my.domain::Name\\")..."
sys.stdout.buffer.write(pack.problem or (b"" if pack.operator_count else empty))
"""


def _check_declarations(library: Path, output: Path) -> None:
    """Raises if declarations compile but are wrong, which a pack reports when it is loaded.

    The pack is loaded by a separate process. If that is impossible, such as for a pack for another
    machine, the program that loads it reports the problem.
    """
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ASK, str(library)], capture_output=True, check=False
    )
    if asked.returncode < 0:
        name = signal.Signals(-asked.returncode).name
        raise Error(
            f"{output} ends the process that loads it ({name}). Fix: check its static initialisers"
        )
    if asked.returncode == 0 and asked.stdout:
        raise Error(f"{output}: {asked.stdout.decode(errors='replace')}")


def _is_for_linker(flag: str) -> bool:
    return flag.startswith(("-l", "-L", "-Wl,", "-static", "-rdynamic")) or flag[:1] != "-"
