"""Whose code a model asks for, told without importing anything: the user's own, or not.

An allowance lets a model run a module, with arguments that the model chooses. So the doctor gives
the line that allows a module only where the module can be what the model says: operators in a file
of the user's own, or declared as such in a package that is installed. The model's word is no
evidence: it may name `os` and `system` as well.
"""

from __future__ import annotations

import ast
import functools
import os
import site
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple

from opgraft._locate import locate
from opgraft._permissions import allowance_of, held_for, is_of_standard_library
from opgraft._survey import Operator


class Doubt(NamedTuple):
    """Why a module is not vouched for, and what to do instead of allowing it."""

    problem: str
    remedy: str


def doubt_of(name: str, wanted: str, operator: Operator | None = None) -> Doubt | None:
    """Why the line that allows `name` is not to be pasted; None where it may be.

    `name` is a Python module, what one holds ("module.Name"), or an operator of torch; `wanted` is
    what the model wants of it; `operator` is what the module is to have, where that is known.
    """
    from opgraft import _pyop

    asks = f"WARNING: this model asks to run {wanted}"
    if "::" in name:
        return Doubt(
            f"{asks}, and Opgraft does not know that the operator of torch is safe with whatever "
            "arguments: such may read and write memory and files that are not theirs",
            f"do not allow '{name}', unless you trust this file as you trust a program: one that "
            "you made yourself, say",
        )
    top = name.partition(".")[0]
    if is_of_standard_library(name):
        return Doubt(
            f"{asks}, of Python's standard library, much of which can run programs and change "
            "files",
            "do not allow it: no operator is there. Ask whoever made the model what it is for, or "
            "take another model",
        )
    ours = _pyop.OUR_MODULES  # the class that runs nodes, by the module
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
            f"do not allow it, unless you know that '{module}' ({nearest}) is meant to run what "
            "models ask for, and trust this file as you trust a program",
        )
    if file and operator is not None and not _may_have(operator, file):
        return Doubt(
            f"{asks}, but {file} has nothing of that name",
            f"do not allow '{name}' for it: to import a module runs its code, and this one has no "
            "such operator. If it should have, write it first",
        )
    return None


@functools.cache
def _installation() -> tuple[str, ...]:
    """The folders that packages are installed into, and that of the standard library."""
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    # Where Opgraft and ONNX Runtime lie themselves, however they came there.
    folders.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple({os.path.realpath(one) for one in folders if one})


def is_installed(file: str) -> bool:
    path = os.path.realpath(file)
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return any(path.startswith(folder + os.sep) for folder in _installation())


def _is_among_installed(top: str) -> bool:
    """Whether pip has installed something into the folder it lies in, as `--target` has it."""
    file = locate(top) or ""
    folder = os.path.dirname(file)
    if os.path.basename(file).startswith("__init__."):  # of a package, beside which it is
        folder = os.path.dirname(folder)
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder or "."))
    except OSError:
        return False


def _tree(file: str) -> ast.Module | None:
    """None where it is no source that can be read."""
    if not file.endswith(".py"):
        return None
    try:
        with open(file, "rb") as stream:
            return ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _may_have(operator: Operator, file: str) -> bool:
    """Whether a source binds the class, or knows of Opgraft, which declares operators.

    True where that cannot be told, as of compiled code: where it lies is what speaks for it.
    """
    tree = _tree(file)
    if tree is None:
        return True
    if not operator.is_class:
        return _mentions(tree, "opgraft") or _mentions(tree, operator.full_name)
    return _binds(tree.body, operator.class_name.partition(".")[0])


def _binds(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether a module's own code gives something the name, or imports it from elsewhere."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return True
            if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
                return True
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
            # A module that makes its names while it runs: globals()["Op"], __getattr__.
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
