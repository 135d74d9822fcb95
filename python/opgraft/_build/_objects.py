"""Compiles the package's own sources, and caches the objects between builds of packs.

A pack contains the adapter to ONNX Runtime, compiled from about a dozen sources that never change.
The sources of one folder are compiled together, which takes a quarter of the time. The name of the
cache folder is a hash of everything that the objects depend on; the name of an object contains a
hash of its bytes, so that a damaged one is detected. Builds may run in parallel: files are created
atomically.
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

from opgraft._build._compiler import Compiler, Translation
from opgraft._base._library import PACKAGE, get_include

_UNUSED_AFTER = 30 * 24 * 3600  # seconds


class Objects:
    """The objects of one part of the package's sources, for one compiler and its options."""

    def __init__(self, name: str, compiler: Compiler, options: Sequence[str], scratch: Path):
        """`name` is a folder of the package. Objects that cannot be cached go to `scratch`."""
        self._sources: dict[str, list[Path]] = {}  # for each object's name
        for source in sorted((PACKAGE / name).rglob("*.cc")):
            title = "-".join(source.parent.relative_to(PACKAGE).parts)
            self._sources.setdefault(title, []).append(source)
        self._name = name
        self._scratch = scratch
        self._compiler = compiler
        searched = (Path(get_include()), PACKAGE / "adapter", PACKAGE)
        self._options = [*options, "-w", *(f"-I{folder}" for folder in searched)]
        self._folder = _cache_folder()
        if self._folder is not None:
            self._folder = self._folder / f"{name}-{self._key(compiler, options)}"

    def _key(self, compiler: Compiler, options: Sequence[str]) -> str:
        key = hashlib.sha256("\0".join([compiler.identity, *options]).encode())
        folders = {PACKAGE / self._name, PACKAGE / "adapter", Path(get_include())}
        for folder in sorted(folders):
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".cc", ".h"):
                    key.update(f"{path.relative_to(PACKAGE)}\0".encode())
                    key.update(hashlib.sha256(path.read_bytes()).digest())
        return key.hexdigest()[:32]

    @property
    def purpose(self) -> str:
        """The kind of program that contains the objects, for messages."""
        purposes = {"testing": "test", "contrib": "pack with contrib kernels"}
        return purposes.get(self._name, "pack")

    def missing_sources(self) -> int:
        """Returns how many sources must be compiled."""
        titles = [title for title in self._sources if self._find(title) is None]
        return sum(len(self._sources[title]) for title in titles)

    def missing(self) -> Iterator[Translation]:
        """Returns what must be compiled before `files` is called."""
        for title, sources in self._sources.items():
            if self._find(title) is None:
                together = self._scratch / f"{title}.cc"
                together.write_text("".join(f'#include "{source}"\n' for source in sources))
                yield Translation(self._compiler, together, self._options, self._target(title))

    def keep(self) -> None:
        """Caches new objects for other builds, if possible."""
        if self._folder is None:
            return
        compiled = [title for title in self._sources if self._target(title).exists()]
        with suppress(OSError):
            for title in compiled:
                self._keep(self._target(title))
            os.utime(self._folder)
        if compiled:
            _forget_unused(self._folder.parent)

    def files(self) -> list[Path]:
        """Returns all objects, once those of `missing` are compiled."""
        return [self._find(title) or self._target(title) for title in self._sources]

    def _target(self, title: str) -> Path:
        return self._scratch / f"{title}.o"

    def _find(self, title: str) -> Path | None:
        if self._folder is None:
            return None
        with suppress(OSError):
            for path in sorted(self._folder.glob(f"{title}.*.o")):
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
    """Returns the folder of the cache, or None if there is no place for it."""
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
    """Removes the objects of compilers and package versions that are no longer used."""
    with suppress(OSError):
        for folder in cache.iterdir():
            if time.time() - folder.stat().st_mtime > _UNUSED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)
