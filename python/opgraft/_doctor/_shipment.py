"""What a deployment of a model needs: one list, for reports, the doctor and `opgraft bundle`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from opgraft._base._library import (
    PACKAGE,
    cuda_library_path,
    find_libtorch,
    library_path,
    runner_path,
    runtime_library,
    shipped_packs,
)
from opgraft._doctor._permissions import held_for
from opgraft._doctor._python_parts import python_parts, version_of
from opgraft._run._wire import external_files
from opgraft._terminal._document import Block, Line, Table, harmless_line

_LICENCE = re.compile(r"(licen[cs]e|copying|notice|thirdpartynotices)", re.IGNORECASE)
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-training")
_OURS = "opgraft"
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@dataclass(frozen=True)
class Part:
    """A file that a deployment needs, or something that must be there."""

    #: "model", "weights", "program", "library", "runtime", "pack", "libtorch", "module", "licence",
    #: "python", "package", "system" or "allowance".
    kind: str
    #: The path in a bundle; a name, if it is not a file there.
    name: str
    what: str
    #: The file on this machine that is copied; "" if none is.
    source: str = ""
    size: int | None = None
    version: str = ""


@dataclass(frozen=True)
class Needs:
    """What a model needs besides ONNX Runtime."""

    #: The file of the model; "" if it has not been written.
    model: str
    #: The version of ONNX Runtime.
    runtime: str
    allow: Sequence[str] = ()
    #: Python modules that its nodes run, or that are imported first.
    modules: Sequence[str] = ()
    packs: Sequence[str] = ()
    #: Libraries of custom operators that the program itself registers.
    libraries: Sequence[str] = ()
    has_aten: bool = False
    #: Whether libtorch is to be copied.
    with_libtorch: bool = False

    @property
    def has_python(self) -> bool:
        return bool(self.modules)


def parts_of(needs: Needs) -> list[Part]:
    """Returns the list. What cannot be found here has no source, or raises an Error."""
    parts = [*_model(needs.model), *_ours(), *_runtime(needs.runtime), *_packs(needs.packs)]
    if needs.has_aten:
        parts += _libtorch(needs.with_libtorch)
    if needs.has_python:
        parts += _python(needs)
    for library in needs.libraries:
        what = "custom operators; your program registers it, opgraft-run does not"
        parts.append(Part("library", os.path.basename(library), what, size=_size(library)))
    parts += [Part("allowance", one, "what the model may run") for one in needs.allow]
    parts.append(
        Part(
            "system",
            "libstdc++.so.6, libgcc_s.so.1, libm.so.6, libc.so.6",
            f"of a machine of the kind {platform.machine()}; the version is the one here",
            version=" ".join(platform.libc_ver()),
        )
    )
    return [*parts, *_licences(parts)]


def lacking(parts: Sequence[Part], with_libtorch: bool) -> list[Part]:
    """The parts that a bundle must contain as files, but that cannot be copied."""
    files = {"model", "weights", "runtime", *(["libtorch"] if with_libtorch else [])}
    return [one for one in parts if one.kind in files and not one.source]


def copied(parts: Sequence[Part]) -> list[Part]:
    """The parts that are files of a bundle."""
    return [one for one in parts if one.source]


def as_dicts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [asdict(one) for one in parts]


def size_text(size: int | None) -> str:
    if size is None:
        return "-"
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.3g} {unit}"
    return f"{size} B"


def _of_licences(parts: Sequence[Part]) -> list[Part]:
    """One part for all licences, for readers."""
    texts = [one for one in parts if one.kind == "licence" and one.source]
    others = [one for one in parts if one not in texts]
    if texts:
        size = sum(one.size or 0 for one in texts)
        others.append(Part("licence", "licences/", f"{len(texts)} files", size=size))
    return others


def shipment_blocks(parts: Sequence[Part]) -> list[Block]:
    """The list for people, as a table."""
    total = sum(one.size or 0 for one in copied(parts))
    rows = [
        (one.name, size_text(one.size), one.version or "-", one.what) for one in _of_licences(parts)
    ]
    table = Table(("to ship", "size", "version", "what it is"), rows, right=["size"])
    return [table, Line(f"files: {size_text(total)} in all")]


def shipment_lines(parts: Sequence[Part]) -> list[str]:
    """The list as lines of text."""
    lines = []
    for one in _of_licences(parts):
        facts = ", ".join(filter(None, (one.version, size_text(one.size) if one.size else "")))
        lines.append(harmless_line(f"{one.name}{f' ({facts})' if facts else ''}: {one.what}"))
    return lines


def _size(path: str) -> int | None:
    return os.path.getsize(path) if os.path.isfile(path) else None


def _file(kind: str, name: str, what: str, source: str, version: str = "") -> Part:
    return Part(kind, name, what, source, os.path.getsize(source), version)


def _model(path: str) -> Iterator[Part]:
    if not path:
        yield Part("model", "model/model.onnx", "the model")
        return
    yield _file("model", f"model/{os.path.basename(path)}", "the model", path)
    if path.endswith(".ort"):
        return
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    for location in external_files(path):
        source = os.path.join(folder, location)
        if not os.path.realpath(source).startswith(folder + os.sep) or os.path.isabs(location):
            yield Part("weights", location, "weights outside of the model's folder")
        elif not os.path.isfile(source):
            yield Part("weights", location, f"weights that are not in '{folder}'")
        else:
            name = f"model/{os.path.normpath(location)}"
            yield _file("weights", name, "weights of the model", source)


def _ours() -> Iterator[Part]:
    from opgraft import __version__

    yield _file("program", "opgraft/bin/opgraft-run", "runs a model", runner_path(), __version__)
    library = "Opgraft; a program of yours links it"
    yield _file("library", "opgraft/lib/libopgraft.so", library, library_path(), __version__)
    if os.path.isfile(cuda_library_path()):
        what = "only for GPUs (--gpu 0)"
        name = "opgraft/lib/libopgraft_cuda.so"
        yield _file("library", name, what, cuda_library_path(), __version__)


def _runtime(version: str) -> Iterator[Part]:
    name, what = "opgraft/lib/libonnxruntime.so.1", "ONNX Runtime"
    if any(version_of(one) == version for one in _RUNTIMES):
        yield _file("runtime", name, what, runtime_library(), version)
    else:
        yield Part("runtime", name, f"{what}; this version is not installed here", version=version)


def _packs(packs: Sequence[str]) -> Iterator[Part]:
    from opgraft import __version__

    ours = {os.path.realpath(one) for one in shipped_packs()}
    for pack in sorted({os.path.realpath(one) for one in packs}):
        name = os.path.basename(pack)
        if pack in ours:
            what = "a pack that comes with Opgraft, found there by itself"
            yield _file("pack", f"opgraft/packs/{name}", what, pack, __version__)
            continue
        yield _file("pack", f"packs/{name}", "a pack", pack)
        for library, path in libraries_of(pack):
            if not path.startswith(_SYSTEM):
                what = f"{name} needs it; it is not copied"
                yield Part("system", path or library, what)


def libraries_of(path: str) -> list[tuple[str, str]]:
    """The shared libraries that one needs, directly and not, and where they are found, or ""."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    try:
        done = subprocess.run(
            ["ldd", path], env={**clean, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return []
    return [
        (match[1], "" if match[2] == "not found" else match[2].partition(" (")[0])
        for match in re.finditer(r"^\s*(\S+) => (.*)$", done.stdout, re.MULTILINE)
    ]


def _libtorch(is_copied: bool) -> Iterator[Part]:
    library = find_libtorch()
    version = version_of("torch")
    if library is None:  # OPGRAFT_LIBTORCH may name one
        yield Part("libtorch", "libtorch_cpu.so", "runs ATen nodes; there is no package torch here")
        return
    folder = os.path.dirname(os.path.realpath(library))
    inside = [
        path
        for _, path in libraries_of(library)
        if path and (path.startswith(folder + os.sep) or not path.startswith(_SYSTEM))
    ]
    files = [library, *dict.fromkeys(inside)]
    if is_copied:
        for path in files:
            name = f"torch/lib/{os.path.basename(path)}"
            yield _file("libtorch", name, "runs ATen nodes", path, version)
        return
    yield Part(
        "libtorch",
        "libtorch_cpu.so",
        "runs ATen nodes; the file that OPGRAFT_LIBTORCH names, or that of the package torch of "
        "the Python that OPGRAFT_PYTHON names, else of python3 on the PATH; --libtorch copies it",
        size=sum(os.path.getsize(one) for one in files),
        version=version,
    )


def _python(needs: Needs) -> Iterator[Part]:
    yield Part(
        "python",
        f"Python {sys.version_info.major}.{sys.version_info.minor}",
        "runs Python operators; it needs a shared libpython. OPGRAFT_PYTHON names the command, "
        f"else {sys.executable}, else python3 on the PATH",
        version=platform.python_version(),
    )
    found = python_parts(needs.modules)
    packages = {_OURS: version_of(_OURS), "numpy": version_of("numpy")}
    for module in needs.modules:
        if held_for(module):  # stored estimators
            for one in ("scikit-learn", "skops"):
                packages[one] = version_of(one)
        if module.startswith("opgraft.torch"):
            packages["torch"] = version_of("torch")
    for name, version in {**packages, **found.packages}.items():
        yield Part("package", name, f"pip install {name}, for that Python", version=version)
    for relative, path in sorted(found.files.items()):
        yield _file("module", f"python/{relative}", "Python code of yours", path)
    for name, importer in sorted(found.missing.items()):
        what = f"{importer} imports it, and it is not found here" if importer else "not found here"
        yield Part("package", name, what)


def _licences(parts: Sequence[Part]) -> Iterator[Part]:
    kinds = {one.kind for one in copied(parts)}
    distributions = [_OURS]
    if "runtime" in kinds:
        distributions += [one for one in _RUNTIMES if version_of(one)]
    if "libtorch" in kinds:
        distributions.append("torch")
    for distribution in distributions:
        found = list(_licence_files(distribution))
        for name, path in found:
            yield _file("licence", f"licences/{distribution}/{name}", "a licence", path)
        if not found:
            what = "no licence text is installed with it: add it"
            yield Part("licence", distribution, what)
    own = [one for one in copied(parts) if one.name.startswith(("packs/", "python/"))]
    seen = set()
    for one in own:
        folder = os.path.dirname(one.source)
        stem = one.name.split("/")[1].partition(".")[0]
        for text in sorted(Path(folder).iterdir()):
            if text.is_file() and _LICENCE.match(text.name) and (stem, text) not in seen:
                seen.add((stem, text))
                yield _file("licence", f"licences/{stem}/{text.name}", "a licence", str(text))


def _licence_files(distribution: str) -> Iterator[tuple[str, str]]:
    """The texts that a package was installed with: in its .dist-info, or beside its code."""
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        parts = file.parts
        is_information = parts[0].endswith(".dist-info")
        is_text = _LICENCE.match(parts[-1]) and not parts[-1].endswith((".py", ".pyc"))
        if is_text and (is_information or len(parts) == 2):
            path = str(file.locate())
            inner = parts[2:] if is_information and parts[1:2] == ("licenses",) else parts[1:]
            if os.path.isfile(path):
                yield "/".join(inner), path
    if distribution == _OURS and not files and (PACKAGE / "LICENSE").is_file():
        yield "LICENSE", str(PACKAGE / "LICENSE")
