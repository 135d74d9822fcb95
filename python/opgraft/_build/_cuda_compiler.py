"""Finds CUDA's compiler, nvcc, for sources of packs that end in `.cu`, and makes its options."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opgraft._build._compiler import Compiler, Diagnosis, argument
from opgraft._base._errors import Error, UnavailableError

SUFFIX = ".cu"

_NEWER = "nvcc 12 or newer is needed"
_INSTALL = "install the toolkit of CUDA 12 or newer (https://developer.nvidia.com/cuda-downloads)"
_USUAL_PLACE = "/usr/local/cuda/bin/nvcc"
# Options of the C++ compiler that nvcc has too; others must be passed on with -Xcompiler.
_COMMON = ("-D", "-U", "-I", "-isystem", "-include", "-O", "-g", "-std=")
# Programs that may come before the compiler in $CXX.
_LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")


@dataclass(frozen=True)
class CudaCompiler:
    """An nvcc, and the C++ compiler that it uses for code that runs on the CPU."""

    command: tuple[str, ...]
    host: Compiler

    @staticmethod
    def find(given: str | None, host: Compiler, sources: Sequence[Path]) -> CudaCompiler:
        """Finds the given nvcc, otherwise $CUDACXX, one on the path, or one at its usual place."""
        name, where = given, "--cuda-compiler"
        if not name:
            name, where = os.environ.get("CUDACXX"), "the variable CUDACXX"
        command = shlex.split(name) if name else ["nvcc"]
        path = shutil.which(command[0])
        if path is None and not name:
            path = shutil.which(_USUAL_PLACE)
        if path is not None:
            compiler = CudaCompiler((path, *command[1:]), host)
            compiler._check()
            return compiler
        titles = ", ".join(map(str, sources))
        if name:
            raise UnavailableError(
                f"the compiler '{name}', which {where} names for {titles}, is not found. Fix: name "
                f"an installed nvcc, or {_INSTALL}"
            )
        raise UnavailableError(
            f"{titles} needs nvcc, which is neither on the path nor at {_USUAL_PLACE}. Fix: "
            f"{_INSTALL}, or name its nvcc by --cuda-compiler or the variable CUDACXX. To build "
            "for the CPU only, leave the .cu out (opgraft build NAME.cc) and put the part for CUDA "
            "between #ifdef OPGRAFT_CUDA and #endif"
        )

    def _check(self) -> None:
        said = self._ask("--version")
        release = re.search(r"release (\d+)\.", said)
        if release is None:
            raise UnavailableError(
                f"'{self.title}' is not an nvcc: {_NEWER}. Its message: {said.strip()}"
            )
        if int(release[1]) < 12:
            raise UnavailableError(
                f"'{self.title}' is from CUDA {release[1]}, which cannot compile C++20: {_NEWER}"
            )

    def _ask(self, *arguments: str) -> str:
        done = subprocess.run([*self.command, *arguments], capture_output=True, check=False)
        return (done.stdout + done.stderr).decode(errors="replace")

    @property
    def title(self) -> str:
        return shlex.join(self.command)

    def run(self, *arguments: str | os.PathLike[str]) -> Diagnosis:
        command = [*self.command, "-ccbin", self._host_path, *map(argument, arguments)]
        done = subprocess.run(command, capture_output=True, check=False)
        return Diagnosis(done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace"))

    @property
    def _host_path(self) -> str:
        words = self.host.command
        is_launched = len(words) > 1 and Path(words[0]).name in _LAUNCHERS
        return shutil.which(words[1]) or words[1] if is_launched else words[0]

    def options(self, compile_options: Sequence[str], architectures: str | None) -> list[str]:
        """Returns the options for nvcc that correspond to those for the C++ compiler."""
        converted = ["-cudart=static", "--threads=0", *_architecture_options(architectures)]
        for option in compile_options:
            if option.startswith(_COMMON):
                converted.append(option)
            else:
                converted += ["-Xcompiler", option.replace(",", "\\,")]
        # nvcc generates many unused functions from CUDA's headers; clang++ would warn about each.
        converted += ["-Xcompiler", "-Wno-unused-function"]
        if "-O0" in compile_options:
            converted.append("-G")
        return converted

    def host_options(self) -> list[str]:
        """Returns the include options for CUDA's headers, for the C++ sources of the pack."""
        folders = re.findall(r'"-I([^"]+)"', self._ask("-dryrun", "-c", "none.cu"))
        return [word for one in folders for word in ("-isystem", os.path.normpath(one))]

    def link_options(self) -> list[str]:
        """Returns the link options for CUDA's runtime, which becomes part of the pack."""
        folders = re.findall(r'"-L([^"]+)"', self._ask("-dryrun", "-c", "none.cu"))
        folder = next((one for one in folders if Path(one, "libcudart_static.a").exists()), None)
        if folder is None:
            raise UnavailableError(
                f"the CUDA toolkit of '{self.title}' has no libcudart_static.a in "
                f"{', '.join(folders) or 'any folder'}. Fix: {_INSTALL}"
            )
        return [f"-L{os.path.normpath(folder)}", "-lcudart_static", "-lrt", "-lpthread", "-ldl"]


def _architecture_options(given: str | None) -> list[str]:
    """Returns the options for the value of --cuda-arch: numbers, or nvcc's name for several."""
    if not given:
        return ["-arch=all-major"]
    if given in ("all", "all-major", "native"):
        return [f"-arch={given}"]
    numbers = [one.strip().removeprefix("sm_").replace(".", "") for one in given.split(",")]
    if not all(re.fullmatch(r"\d{2,3}[af]?", number) for number in numbers):
        raise Error(
            f"--cuda-arch is '{given}', expected numbers of architectures such as 80,90, or "
            "all-major, all or native"
        )
    options = [f"-gencode=arch=compute_{one},code=sm_{one}" for one in numbers[:-1]]
    # The code for the last one is included as PTX, which newer GPUs translate when they load it.
    last = numbers[-1]
    return [*options, f"-gencode=arch=compute_{last},code=[sm_{last},compute_{last}]"]
