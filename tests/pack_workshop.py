"""A place to build packs in that takes no time: the adapter is a small one of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from opgraft import _command, _objects

SYMBOLS = {"RegisterCustomOps", "opgraft_pack"}


class Workshop:
    """A folder with a source, a package with an adapter, a compiler that tells what it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "work"
        self.cache = folder / "cache"
        package = folder / "package"
        for path in (self.folder, package / "adapter" / "pack", package / "include"):
            path.mkdir(parents=True)
        self.adapter = package / "adapter" / "pack"
        (package / "include" / "shown.h").write_text(
            '#define SHOWN extern "C" __attribute__((visibility("default")))\n'
        )
        for name in SYMBOLS:
            (self.adapter / f"{name}.cc").write_text(
                f"#include <shown.h>\nlong {name}_pack[] = {{0, 0, 0, 1}};\n"
                f"SHOWN long* {name}() {{ return {name}_pack; }}\n"
            )
        # A function that wants to be seen, and must not.
        (self.folder / "my_op.cc").write_text(
            '__attribute__((visibility("default"))) int Shown() { return 1; }\n'
        )
        monkeypatch.setattr(_objects, "_PACKAGE", package)
        monkeypatch.setattr(_objects, "get_include", lambda: str(package / "include"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.chdir(self.folder)

    def add_compiler(self, body: str = 'exec g++ "$@"') -> Path:
        compiler = self.cache.parent / "compiler"
        compiler.write_text(f'#!/bin/sh\necho "$@" >> "{compiler}.calls"\n{body}\n')
        compiler.chmod(0o755)
        return compiler

    def take_calls(self) -> list[str]:
        """How the compiler was called since it was asked last."""
        calls = self.cache.parent / "compiler.calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return lines

    def take_compiled(self) -> set[str]:
        """The sources that were compiled since it was asked last."""
        calls = [call for call in self.take_calls() if " -c " in call]
        return {Path(call.split(" -c ")[1].split(" -o ")[0]).stem for call in calls}

    def objects(self) -> list[Path]:
        return sorted(self.cache.glob("opgraft/adapter-*/*.o"))


def build(*arguments: str | Path) -> int:
    return _command.main(["build", *map(str, arguments)])
