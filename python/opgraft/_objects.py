"""The package's own sources, compiled: kept from one build of a pack to the next.

A pack holds the adapter to ONNX Runtime, compiled from some dozen sources that never change. Their
objects lie in a folder whose name tells all that they depend on; an object's own name tells what is
in it, so that a broken one is known. Builds may run side by side: files come into being whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from opgraft._compiler import Compiler, Translation
from opgraft._library import _PACKAGE, get_include

_UNUSED_AFTER = 30 * 24 * 3600  # seconds


class Objects:
    """The objects of one folder of the package's sources, for one compiler and its options."""

    def __init__(self, name: str, compiler: Compiler, options: Sequence[str], scratch: Path):
        """`name` is a folder of the package. What cannot be kept is put into `scratch`."""
        self._sources = sorted((_PACKAGE / name).rglob("*.cc"))
        self._name = name
        self._scratch = scratch
        self._compiler = compiler
        self._options = [*options, "-w", f"-I{get_include()}", f"-I{_PACKAGE / 'adapter'}"]
        self._folder = _cache_folder()
        if self._folder is not None:
            self._folder = self._folder / f"{name}-{self._key(compiler, options)}"

    def _key(self, compiler: Compiler, options: Sequence[str]) -> str:
        key = hashlib.sha256("\0".join([compiler.identity, *options]).encode())
        folders = {_PACKAGE / self._name, _PACKAGE / "adapter", Path(get_include())}
        for folder in sorted(folders):
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".cc", ".h"):
                    key.update(f"{path.relative_to(_PACKAGE)}\0".encode())
                    key.update(hashlib.sha256(path.read_bytes()).digest())
        return key.hexdigest()[:32]

    @property
    def purpose(self) -> str:
        """What they are part of."""
        return "test" if self._name == "testing" else "pack"

    def missing(self) -> Iterator[Translation]:
        """What must be compiled, before `files` are all there."""
        for source in self._sources:
            if self._find(source) is None:
                yield Translation(self._compiler, source, self._options, self._target(source))

    def keep(self) -> None:
        """Keeps what is newly compiled for other builds, where that can be."""
        if self._folder is None:
            return
        compiled = [source for source in self._sources if self._target(source).exists()]
        with suppress(OSError):
            for source in compiled:
                self._keep(self._target(source))
            os.utime(self._folder)
        if compiled:
            _forget_unused(self._folder.parent)

    def files(self) -> list[Path]:
        """All objects, when what was missing is compiled."""
        return [self._find(source) or self._target(source) for source in self._sources]

    def _title(self, source: Path) -> str:
        return "-".join(source.relative_to(_PACKAGE).with_suffix("").parts)

    def _target(self, source: Path) -> Path:
        return self._scratch / f"{self._title(source)}.o"

    def _find(self, source: Path) -> Path | None:
        if self._folder is None:
            return None
        with suppress(OSError):
            for path in sorted(self._folder.glob(f"{self._title(source)}.*.o")):
                if path.name.split(".")[1] == _digest(path):
                    return path
        return None

    def _keep(self, compiled: Path) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as beside:
            copy = shutil.copy(compiled, beside)
            os.replace(copy, self._folder / f"{compiled.stem}.{_digest(compiled)}.o")


def _cache_folder() -> Path | None:
    """None where there is no place for it."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "opgraft"
    try:
        return Path.home() / ".cache" / "opgraft"
    except RuntimeError:
        return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _forget_unused(cache: Path) -> None:
    """Removes what older compilers and older versions of the package have left."""
    with suppress(OSError):
        for folder in cache.iterdir():
            if time.time() - folder.stat().st_mtime > _UNUSED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)
