"""Checks that folders include and import only folders below them: part of `make lint`.

src/CMakeLists.txt lists the folders of src/, lowest first; DEPENDS in a folder's own CMakeLists.txt
lists those that it may include. The packages of python/opgraft are listed here. An import inside a
function does not count: it is there to be late, or to break a cycle.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

#: Lowest first.
PYTHON = [
    "_base", "_terminal", "_declare", "_cuda", "_run", "_build", "_testing", "_doctor", "_bundle",
    "_page",
    "torch/_private", "torch/_graphs", "torch/_eager", "torch/_legacy", "torch/_rungs",
    "torch/_capture", "torch/_program", "torch/_verify", "torch/_traced", "torch/_export",
    "sklearn/_stored", "sklearn/_convert",
]  # fmt: skip
#: The only package that may import a library at its top level.
OWNERS = {"torch": "torch", "sklearn": "sklearn", "skl2onnx": "sklearn", "skops": "sklearn",
          "rich": "_terminal"}  # fmt: skip
#: src/python is one binary of several folders.
MODULE = ["python/call", "python/gpu", "python/eager", "python/module"]


def cpp_problems() -> Iterator[str]:
    """Checks every #include of a header in src/."""
    listed = (REPOSITORY / "src" / "CMakeLists.txt").read_text()
    order = re.findall(r"add_subdirectory\((\w+)\)", listed)
    place = order.index("python")
    order[place : place + 1] = MODULE
    for number, folder in enumerate(order):
        said = REPOSITORY / "src" / folder / "CMakeLists.txt"
        depends = re.search(r"DEPENDS ([\w ]+)\)", said.read_text()) if said.exists() else None
        allowed = {*(depends[1].split() if depends else order[:number]), folder}
        if not allowed <= {*order[:number], folder}:
            yield f"{said}: DEPENDS names a folder that comes later in src/CMakeLists.txt"
        for path in sorted((REPOSITORY / "src" / folder).glob("*.[ch]*")):
            for included in re.findall(r'#include "([\w/]+)/\w+\.h"', path.read_text()):
                if included in order and included not in allowed:
                    yield f"{path.relative_to(REPOSITORY)} includes {included}/"


def python_problems() -> Iterator[str]:
    """Checks every import at the top of a module: private packages, and libraries in OWNERS."""
    package = REPOSITORY / "python" / "opgraft"
    for path in sorted(package.rglob("*.py")):
        for module in _imported(path):
            owner = OWNERS.get(module.partition(".")[0])
            if owner is not None and owner != path.relative_to(package).parts[0]:
                yield f"{path.relative_to(REPOSITORY)} imports {module}, which only {owner}/ may"
    for number, package in enumerate(PYTHON):
        folder = REPOSITORY / "python" / "opgraft" / package
        for path in sorted(folder.rglob("*.py")):
            for module in _imported(path):
                for later in PYTHON[number + 1 :]:
                    if f"{module}.".startswith(f"opgraft.{later.replace('/', '.')}."):
                        yield f"{path.relative_to(REPOSITORY)} imports {module}"


def _imported(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


if __name__ == "__main__":
    problems = [*cpp_problems(), *python_problems()]
    print(*problems, sep="\n")
    sys.exit(1 if problems else 0)
