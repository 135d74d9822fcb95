"""Decides, without importing anything, whether the code that a model asks for is the user's own.

An allowance lets a model run a module, with arguments that the model chooses. So the doctor gives
the line that allows a module only if the module can be what the model claims: operators in a file
of the user, or declared as operators in an installed package. The model's claim alone is no
evidence: it may just as well name `os` and `system`.
"""

from __future__ import annotations

import ast
import functools
import os
import site
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple

from opgraft._base._library import PACKAGE
from opgraft._doctor._locate import locate
from opgraft._doctor._permissions import allowance_of, held_for, is_of_standard_library
from opgraft._doctor._survey import Operator


class Doubt(NamedTuple):
    """Why a module is not vouched for, and what to do instead of allowing it."""

    problem: str
    remedy: str


def doubt_of(name: str, wanted: str, operator: Operator | None = None) -> Doubt | None:
    """Returns why the line that allows `name` should not be given, or None if it may be.

    `name` is a Python module, a name in one ("module.Name"), or an operator of torch. `wanted` is
    what the model wants to run. `operator` is what the module should contain, if that is known.
    """
    from opgraft import _pyop

    asks = f"WARNING: this model asks to run {wanted}"
    if "::" in name:
        return Doubt(
            f"{asks}, and Opgraft does not know whether this operator of torch is safe with all "
            "arguments: some operators may read and write arbitrary memory and files",
            f"do not allow '{name}', unless you trust this file as you trust a program, such as "
            "one that you made yourself",
        )
    top = name.partition(".")[0]
    if is_of_standard_library(name):
        return Doubt(
            f"{asks}, of Python's standard library, much of which can run programs and change "
            "files",
            "do not allow it: the standard library has no operators. Ask the author of the model "
            "what it is for, or use another model",
        )
    ours = _pyop.OUR_MODULES  # from modules to the classes that run nodes
    if any(held_for(one) and name == allowance_of(one) for one in ours):
        return None
    if name in ours and (operator is None or operator.class_name == ours[name]):
        return None
    file = locate(name)
    nearest = file
    module = name
    while not nearest and "." in module:  # the package around it, or the module of a type
        module = module.rpartition(".")[0]
        nearest = locate(module)
    if nearest and (is_installed(nearest) or _is_among_installed(top)):
        if file and operator is not None and _declares(operator.full_name, file):
            return None
        return Doubt(
            f"{asks}, of the installed package '{top}', which does not declare it as an operator",
            f"do not allow it, unless you know that '{module}' ({nearest}) is meant to be run by "
            "models, and trust this file as you trust a program",
        )
    if file and operator is not None and not _may_have(operator, file):
        return Doubt(
            f"{asks}, but {file} has nothing of that name",
            f"do not allow '{name}' for it: importing a module runs its code, and this one has no "
            "such operator. If it should have one, write it first",
        )
    return None


@functools.cache
def _installation() -> tuple[str, ...]:
    """Returns the folders of installed packages and of the standard library."""
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    # The folder of Opgraft itself, however it was installed.
    folders.append(str(PACKAGE.parent))
    return tuple({os.path.realpath(one) for one in folders if one})


def is_installed(file: str) -> bool:
    path = os.path.realpath(file)
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return any(path.startswith(folder + os.sep) for folder in _installation())


def _is_among_installed(top: str) -> bool:
    """Whether pip has installed packages into the module's folder, as with `--target`."""
    file = locate(top) or ""
    folder = os.path.dirname(file)
    if os.path.basename(file).startswith("__init__."):  # the folder that contains the package
        folder = os.path.dirname(folder)
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder or "."))
    except OSError:
        return False


def _tree(file: str) -> ast.Module | None:
    """Parses a source; returns None if it cannot be read."""
    if not file.endswith(".py"):
        return None
    try:
        with open(file, "rb") as stream:
            return ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _may_have(operator: Operator, file: str) -> bool:
    """Whether a source defines the class, or mentions Opgraft, which declares operators.

    True if that is unknown, such as for compiled code, which is judged by its place only.
    """
    tree = _tree(file)
    if tree is None:
        return True
    if not operator.is_class:
        return _mentions(tree, "opgraft") or _mentions(tree, operator.full_name)
    return _binds(tree.body, operator.class_name.partition(".")[0])


def _binds(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether a module's own code defines the name or imports it."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return True
            if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
                return True
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
            # A module may define names at run time: globals()["Op"], __getattr__.
            if isinstance(node, ast.Name) and node.id in ("globals", "setattr"):
                return True
            if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
                return True
    return False


def _mentions(tree: ast.Module, text: str) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and node.name.partition(".")[0] == text:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == text:
            return True
        if isinstance(node, ast.Constant) and node.value == text:
            return True
    return False


def _declares(full_name: str, file: str) -> bool:
    """Whether a source declares the operator by name: @opgraft.op("domain::Name")."""
    tree = _tree(file)
    if tree is None or "::" not in full_name:
        return False
    return any(
        isinstance(node, ast.Call)
        and _called(node) == "op"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == full_name
        for node in ast.walk(tree)
    ) and _mentions(tree, "opgraft")


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
