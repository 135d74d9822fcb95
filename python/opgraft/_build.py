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

from opgraft import _cuda_compiler
from opgraft._compiler import Compiler, Translation, translate
from opgraft._cuda_compiler import CudaCompiler
from opgraft._errors import Error
from opgraft._library import exports_map, get_include, pack_recipe
from opgraft._objects import Objects

# One recipe for this and for CMake's opgraft_add_pack. It has -O2, and not -O3 or -march=native: a
# pack runs on other machines than this one, where the instructions of this one need not be; and
# what -O3 adds is seldom worth the size. --flag=-O3 adds it.
_RECIPE = pack_recipe()
_DEBUG = ["-O0", "-g"]
_SUFFIXES = (".cc", ".cpp", ".cxx", ".c++", ".C")


@dataclass(frozen=True)
class CudaSettings:
    """How to build sources for CUDA: as the author says it, or None."""

    compiler: str | None = None
    architectures: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How to build: the compiler, and the author's own options, which come after ours."""

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
        """Those of the package's own sources, which find their headers and mind no warnings."""
        theirs = ("-I", "-W", "-isystem", "-include")
        return [option for option in self.compile_options if not option.startswith(theirs)]

    @property
    def link_options(self) -> list[str]:
        sanitizes = any(flag.startswith("-fsanitize") for flag in self.flags)
        # A sanitizer's functions are in the program that loads the pack.
        checks = [] if sanitizes else _RECIPE["link_unless_sanitized"]
        return [*checks, *self.flags]


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compiler",
        metavar="COMPILER",
        help="g++, clang++ or a path; by default $CXX, else g++, else clang++",
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
        "--debug", action="store_true", help="for a debugger: not optimized, with its symbols"
    )
    parser.add_argument(
        "--cuda-compiler",
        metavar="NVCC",
        help="what compiles .cu files; by default $CUDACXX, else nvcc, else /usr/local/cuda's",
    )
    parser.add_argument(
        "--cuda-arch",
        metavar="LIST",
        help="the GPUs that .cu files are compiled for: numbers such as 80,90, of which the last "
        "one's code is for newer ones too, or native; by default all-major",
    )
    parser.add_argument(
        "--cuda-flag",
        dest="cuda_flags",
        metavar="FLAG",
        action="append",
        default=[],
        help="an option for nvcc alone, written --cuda-flag=-use_fast_math; may be repeated",
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
    """The sources of an operator's folder, as `opgraft new` makes one, and the library of them."""
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
            f"no source is given, and no operator's source lies in {folder.resolve()}: "
            "opgraft build FILE.cc, or first opgraft new my.domain::Name"
        )
    own = folder / f"{folder.resolve().name}.cc"
    name = own.stem if own in sources else sources[0].stem
    return sources, folder / f"lib{name}.so"


def build_pack(sources: Sequence[Path], output: Path, settings: Settings) -> None:
    """Makes one library of these sources; `output` is replaced when it is whole."""
    _check(sources, output)
    cuda = _cuda_compiler_for(sources, settings)
    with tempfile.TemporaryDirectory(prefix="opgraft-") as scratch:
        adapter = Objects("adapter", settings.compiler, settings.adapter_options, Path(scratch))
        objects = compile_sources(sources, settings, Path(scratch), adapter, cuda=cuda)
        # Beside the output: what is renamed must be on the same disk.
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


#: Files that are compiled without a word; more take a while.
_FEW = 3


def _cuda_compiler_for(sources: Sequence[Path], settings: Settings) -> CudaCompiler | None:
    """None where nothing is for CUDA."""
    for_cuda = [source for source in sources if source.suffix == _cuda_compiler.SUFFIX]
    if not for_cuda:
        return None
    return CudaCompiler.find(settings.cuda.compiler, settings.compiler, for_cuda)


def compile_sources(
    sources: Sequence[Path],
    settings: Settings,
    scratch: Path,
    *shared: Objects,
    cuda: CudaCompiler | None = None,
) -> list[Path]:
    """The objects of the author's sources, then those of the package."""
    objects = [scratch / f"{number}.o" for number in range(len(sources))]
    options = ["-Wall", *settings.compile_options]
    if cuda is not None:
        options += [f"-D{one}" for one in _RECIPE["definitions_with_cuda"]]
    include = ["-isystem", get_include()]
    beside = cuda.host_options() if cuda is not None else []
    translations = []
    for source, target in zip(sources, objects, strict=True):
        if cuda is not None and source.suffix == _cuda_compiler.SUFFIX:
            own = cuda.options(options, settings.cuda.architectures)
            own += [*settings.cuda.flags, *include]
            translations.append(Translation(cuda, source, own, target))
        else:
            own = [*options, *include, *beside]
            translations.append(Translation(settings.compiler, source, own, target))
    for one in shared:
        missing = list(one.missing())
        if len(missing) > _FEW:
            print(
                f"opgraft: compiling what every {one.purpose} holds, this once: "
                f"{len(missing)} files",
                file=sys.stderr,
            )
        translations += missing
    try:
        translate(translations)
    finally:
        for one in shared:
            one.keep()
    return [*objects, *(path for one in shared for path in one.files())]


def run_linker(
    settings: Settings, arguments: Sequence[str | Path], target: Path, title: Path
) -> None:
    # The optimizer may run at this time too.
    options = settings.compile_options
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
                f"{source} is no C++ source: its name ends in none of {_SUFFIXES}, nor in "
                f"{_cuda_compiler.SUFFIX}"
            )
        if any(source.samefile(other) for other in sources[:place]):
            raise Error(f"{source} is given twice")
        if output.exists() and source.samefile(output):
            raise Error(f"{output} is the source itself")
    if output.is_dir():
        raise Error(f"{output} is a folder: -o names the library, such as -o {output}/libmy_op.so")
    if not output.parent.is_dir():
        raise Error(f"there is no folder {output.parent}, where {output.name} is to be written")


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
    """Finds out what is wrong with declarations that compile, which a pack tells when it is loaded.

    It is loaded by a process of its own; where that cannot be, such as for another machine's pack,
    whoever loads it will tell.
    """
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ASK, str(library)], capture_output=True, check=False
    )
    if asked.returncode < 0:
        name = signal.Signals(-asked.returncode).name
        raise Error(f"{output} ends the process that loads it ({name}): look at what it does early")
    if asked.returncode == 0 and asked.stdout:
        raise Error(f"{output}: {asked.stdout.decode(errors='replace')}")


def _is_for_linker(flag: str) -> bool:
    return flag.startswith(("-l", "-L", "-Wl,", "-static", "-rdynamic")) or flag[:1] != "-"
