"""Builds packs quickly, with a small adapter made for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from opgraft import _command
from opgraft._build import _objects

SYMBOLS = {"RegisterCustomOps", "opgraft_pack"}
#: Each comes from a separate folder, which is compiled as one unit.
UNITS = {f"adapter-{name}" for name in SYMBOLS}


class Workshop:
    """A folder with a source, a package with an adapter, and a compiler that records its calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "work"
        self.cache = folder / "cache"
        package = folder / "package"
        self.adapter = package / "adapter"
        folders = [self.adapter / name for name in SYMBOLS]
        for path in (self.folder, *folders, package / "include"):
            path.mkdir(parents=True)
        (package / "include" / "shown.h").write_text(
            '#define SHOWN extern "C" __attribute__((visibility("default")))\n'
        )
        for name in SYMBOLS:
            (self.adapter / name / f"{name}.cc").write_text(
                f"#include <shown.h>\nlong {name}_pack[] = {{0, 0, 0, 1}};\n"
                f"SHOWN long* {name}() {{ return {name}_pack; }}\n"
            )
        # A function with default visibility, which must not be exported.
        (self.folder / "my_op.cc").write_text(
            '__attribute__((visibility("default"))) int Shown() { return 1; }\n'
        )
        monkeypatch.setattr(_objects, "PACKAGE", package)
        monkeypatch.setattr(_objects, "get_include", lambda: str(package / "include"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.chdir(self.folder)

    def add_contrib_layer(self) -> Path:
        """The header that a pack includes to ask for the layer's sources."""
        header = self.adapter.parent / "include" / "opgraft" / "contrib" / "kernel.h"
        source = self.adapter.parent / "contrib" / "layer.cc"
        for path in (header, source):
            path.parent.mkdir(parents=True)
        header.write_text("int contrib_layer();\n")
        source.write_text("int contrib_layer() { return 1; }\n")
        return header

    def add_compiler(self, body: str = 'exec g++ "$@"') -> Path:
        compiler = self.cache.parent / "compiler"
        compiler.write_text(f'#!/bin/sh\necho "$@" >> "{compiler}.calls"\n{body}\n')
        compiler.chmod(0o755)
        return compiler

    def take_calls(self) -> list[str]:
        """Returns the calls of the compiler since the last question."""
        calls = self.cache.parent / "compiler.calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return lines

    def take_compiled(self) -> set[str]:
        """Returns the sources compiled since the last question."""
        calls = [call for call in self.take_calls() if " -c " in call]
        return {Path(call.split(" -c ")[1].split(" -o ")[0]).stem for call in calls}

    def objects(self) -> list[Path]:
        return sorted(self.cache.glob("opgraft/adapter-*/*.o"))


def build(*arguments: str | Path) -> int:
    return _command.main(["build", *map(str, arguments)])
