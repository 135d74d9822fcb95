"""Finds the line of a model's source that writes to the model's state."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from typing import Any

import torch

from opgraft.torch._capture._guards import Line
from opgraft.torch._capture._leaf import Leaf
from opgraft.torch._capture._watch import is_of_the_model


def line_of(leaf: Leaf) -> Line:
    """The line in `forward`, or in what it calls, that writes to it, if it can be found. Lines of
    torch do not count, since the user cannot change them."""
    name = leaf.name.rpartition(".")[2].partition("[")[0]
    owner = leaf.holder if isinstance(leaf.holder, type) else type(leaf.module)
    functions = dict(_functions(owner))
    for finds in (_writes, _calls):
        for called in _called(functions):
            file, first, function = functions[called]
            if number := finds(function, name):
                number += first - 1
                return Line(file, number, linecache.getline(file, number).strip())
    return Line()


def _functions(owner: type) -> Iterator[tuple[str, tuple[str, int, ast.FunctionDef]]]:
    """The methods of a class and its bases, by name: the file, the first line of the class's
    source, and the method itself."""
    seen = set()
    for one in owner.__mro__:
        if one in (torch.nn.Module, object):
            break
        try:
            lines, first = inspect.getsourcelines(one)
            file = inspect.getsourcefile(one) or ""
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        if not is_of_the_model(file):
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name not in seen:
                seen.add(function.name)
                yield function.name, (file, max(first, 1), function)


def _called(functions: dict[str, Any]) -> list[str]:
    """The names of `forward` and of the methods that it calls, in order."""
    waiting, found = ["forward", "__call__"], list[str]()
    while waiting:
        name = waiting.pop(0)
        if name in functions and name not in found:
            found.append(name)
            body = functions[name][2]
            waiting += [one.attr for one in ast.walk(body) if isinstance(one, ast.Attribute)]
    return found


def _has(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == name for one in ast.walk(node))


def _writes(function: ast.FunctionDef, name: str) -> int:
    """The number of the first line that writes to `self.name`, or calls a method that does."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if (method.endswith("_") and not method.endswith("__")) or method in _METHODS:
                targets = [node.func.value]
        if any(_has(one, name) for one in targets):
            return targets[0].lineno
    return 0


def _calls(function: ast.FunctionDef, name: str) -> int:
    """The number of the first line that calls it or one of its methods, or passes it on."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _has(node, name):
            return node.lineno
    return 0


#: Methods of lists, dictionaries and sets that write.
_METHODS = frozenset(
    "append extend insert pop popleft update add setdefault appendleft clear remove discard".split()
)
