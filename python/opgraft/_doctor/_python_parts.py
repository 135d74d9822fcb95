"""Finds the files and packages that Python modules need, by reading their sources.

Nothing is imported: what a module imports while it runs by other means than `import` is not seen.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata

from opgraft._doctor._locate import locate
from opgraft._doctor._vouching import is_installed


@dataclass
class PythonParts:
    #: From paths relative to the folder that goes onto Python's path, to the files here.
    files: dict[str, str] = field(default_factory=dict)
    #: From distributions, such as scikit-learn, to their versions; "" if that is not known.
    packages: dict[str, str] = field(default_factory=dict)
    #: Modules that a source imports and that are not found, each with the file that does.
    missing: dict[str, str] = field(default_factory=dict)


def python_parts(modules: Iterable[str]) -> PythonParts:
    """Returns what these modules need: files of the user, and installed packages.

    Of a package of the user, all its files are taken. Modules of the user that they import are
    taken too, and so on.
    """
    parts = PythonParts()
    distributions = metadata.packages_distributions()
    seen: set[str] = set()
    waiting = [(name.removesuffix(".*").partition(".")[0], "") for name in modules]
    while waiting:
        name, importer = waiting.pop()
        if name in seen or name in sys.stdlib_module_names or name == "__main__":
            continue
        seen.add(name)
        file = locate(name)
        if not file:
            parts.missing[name] = importer
        elif is_installed(file):
            for distribution in distributions.get(name, [name]):
                parts.packages[distribution] = version_of(distribution)
        else:
            for relative, path in _files(name, file):
                parts.files[relative] = path
                waiting += [(one, relative) for one in _imported(path)]
    return parts


def version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _files(name: str, file: str) -> Iterator[tuple[str, str]]:
    if os.path.isfile(file) and not os.path.basename(file).startswith("__init__."):
        yield os.path.basename(file), file
        return
    top = file if os.path.isdir(file) else os.path.dirname(file)
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(one for one in folders if one != "__pycache__" and one[0] != ".")
        for one in sorted(files):
            path = os.path.join(folder, one)
            yield os.path.join(name, os.path.relpath(path, top)), path


def _imported(path: str) -> set[str]:
    """The top-level packages that a source imports, except where it can do without."""
    if not path.endswith(".py"):
        return set()
    try:
        with open(path, "rb") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    optional: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            optional |= {one for statement in node.body for one in _names(statement)}
    for node in ast.walk(tree):
        found |= _names_of(node)
    return found - {one for one in optional if locate(one) is None}


def _names(statement: ast.AST) -> set[str]:
    return set().union(*(_names_of(node) for node in ast.walk(statement)))


def _names_of(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {one.name.partition(".")[0] for one in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return {node.module.partition(".")[0]}
    return set()
