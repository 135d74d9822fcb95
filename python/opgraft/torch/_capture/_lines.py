"""Reads lines of the user's model: decisions, assertions, and what may catch an exception.

torch reports only the number of a line that asks a tensor for a value. If several statements share
a line, it is unknown which one asked.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Line:
    """A line of the user's model."""

    file: str = ""  # empty if unknown
    number: int = 0
    code: str = ""

    @property
    def short(self) -> str:
        """Without the folder, for texts that leave this machine."""
        return str(replace(self, file=os.path.basename(self.file)))

    def __str__(self) -> str:
        if not self.number:
            return ""
        return f"{self.file}, line {self.number}: {self.code}" if self.file else self.code


def line_at(file: str, number: int) -> Line:
    return Line(file, number, linecache.getline(file, number).strip())


_LOOPS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def asked(line: Line) -> tuple[str, ast.expr] | None:
    """The kind of a line that asks for a value, and the expression that is evaluated."""
    if is_assertion(line):
        return _asserted(statements_in(line), line.file)
    holding = [
        node
        for node in nodes(line.file)
        if isinstance(node, (ast.stmt, ast.expr)) and _spans(node, line)
    ]
    for node in reversed(holding):  # the innermost first
        if isinstance(node, (ast.If, ast.While)) and _is_head(node, node.test, line):
            return type(node).__name__.lower(), node.test
        if isinstance(node, ast.IfExp):
            return "if", node.test
        if isinstance(node, ast.For) and _is_head(node, node.iter, line):
            return "for", node.iter
        if isinstance(node, _LOOPS):
            return "for", node.generators[0].iter
    for node in reversed(holding):
        if isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
            return "logic", node
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            calls = [one for one in ast.walk(node.slice) if isinstance(one, ast.Call)]
            if calls:
                return "index", node
    return None


def _asserted(own: Sequence[ast.stmt], file: str) -> tuple[str, ast.expr]:
    tests = [_tested(one, file) for one in own]
    if len(tests) == 1:
        return tests[0]
    negated = [ast.UnaryOp(ast.Not(), test) if kind == "raise" else test for kind, test in tests]
    return "assert", ast.BoolOp(ast.And(), negated)


def _tested(statement: ast.stmt, file: str) -> tuple[str, ast.expr]:
    if isinstance(statement, ast.If):
        return ("raise" if always_raises(statement.body) else "assert"), statement.test
    test = statement.test if isinstance(statement, ast.Assert) else _checked(statement, file)
    assert test is not None
    return "assert", test


def is_assertion(line: Line) -> bool:
    """Whether a line only checks the data: an `assert`, a `torch._check`, or the head of an `if`
    that raises. On other data the model then takes the same path, or raises."""
    own = statements_in(line)
    return bool(own) and all(_asserts(one, line.file) for one in own)


def asks_sizes(line: Line) -> bool:
    """Whether an assertion is only about sizes of tensors: `x.size(-1) != self.width`."""
    found = asked(line)
    if found is None:
        return False
    calls = [one for one in ast.walk(found[1]) if isinstance(one, ast.Call)]
    return bool(calls) and all(last_name(one.func) in ("dim", "len", "size") for one in calls)


def _asserts(statement: ast.stmt, file: str) -> bool:
    if isinstance(statement, ast.Assert):
        return _only_looks(statement.test, file)
    if isinstance(statement, ast.If):
        is_raised = always_raises(statement.body) or always_raises(statement.orelse)
        return is_raised and _only_looks(statement.test, file)
    test = _checked(statement, file)
    return test is not None and _only_looks(test, file)


def _checked(statement: ast.stmt, file: str) -> ast.expr | None:
    """The expression that a statement such as `torch._check(...)` checks; None for others."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    name = full_name(call.func, file)
    is_check = name.startswith(("torch._check", "torch._assert", "torch.testing.assert_"))
    return call.args[0] if is_check and call.args else None


def always_raises(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end in an exception, other than those that end an iteration."""
    inside = [one for statement in body for one in ast.walk(statement)]
    if any(isinstance(one, (ast.Return, ast.Break, ast.Continue)) for one in inside):
        return False
    last = body[-1] if body else None
    if not isinstance(last, ast.Raise):
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return raised is None or last_name(raised) not in _ENDING


#: Exceptions that end an iteration in map(), next() or a `for`, and are not errors.
_ENDING = frozenset({"StopIteration", "StopAsyncIteration", "GeneratorExit"})
#: Calls that turn a tensor into a Python value.
_VALUES = frozenset(
    "bool complex float format hash int item numpy repr str tolist __bool__ __int__".split()
)
#: Functions without side effects.
_PURE = frozenset(
    """abs all any bool complex divmod float format hash int isinstance len list max min pow range
    repr round set sorted str sum tuple type zip""".split()
)


def _only_looks(test: ast.expr, file: str) -> bool:
    """Whether an expression uses the values that it asks for only to compute its result."""
    for node in ast.walk(test):
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(node, ast.Call) and gives_values_away(node, file):
            return False
    return True


def gives_values_away(call: ast.Call, file: str) -> bool:
    """Whether a Python value made from a tensor is passed to an unknown function."""
    name = full_name(call.func, file)
    if name in _PURE or name.startswith(("torch.", "math.", "numpy.", "operator.")):
        return False
    if isinstance(call.func, ast.Attribute) and _is_text(call.func.value):
        return False  # "{}".format(x)
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(_makes_value(node) for one in given for node in ast.walk(one))


def _makes_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in _VALUES
    kinds = (ast.BoolOp, ast.IfExp, ast.JoinedStr)
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, kinds)


def _is_text(node: ast.expr) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def caught_at(line: Line, raised: Collection[str] = ()) -> Line | None:
    """The `try` or `with` around a line that may catch an exception raised there, so that the model
    goes on; None if there is none. `raised` names the exceptions, if they are known: unknown
    contexts are then assumed not to catch them."""
    for node in nodes(line.file):
        is_try = isinstance(node, _TRIES) and _goes_on(node, raised)
        is_context = isinstance(node, (ast.With, ast.AsyncWith)) and not all(
            _lets_pass(one.context_expr, line.file, raised) for one in node.items
        )
        if is_try or is_context:
            body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
            if body[0].lineno <= line.number <= (body[-1].end_lineno or 0):
                return line_at(line.file, node.lineno)  # type: ignore[attr-defined]
    return None


_TRIES: tuple[type[ast.AST], ...] = tuple(
    getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name)
)


def _goes_on(node: ast.AST, raised: Collection[str]) -> bool:
    handlers: list[ast.ExceptHandler] = node.handlers  # type: ignore[attr-defined]
    last: list[ast.stmt] = node.finalbody  # type: ignore[attr-defined]
    leaves = (ast.Return, ast.Break, ast.Continue)
    is_left = any(isinstance(one, leaves) for statement in last for one in ast.walk(statement))
    return is_left or not all(
        always_raises(one.body) or not _may_catch([one.type], raised) for one in handlers
    )


#: Exception types that do not match the errors of operators.
_OF_OTHERS = frozenset(
    """ArithmeticError AttributeError ImportError KeyError ModuleNotFoundError NameError
    NotImplementedError OSError StopIteration TypeError ZeroDivisionError""".split()
)


def _may_catch(types: Sequence[ast.expr | None], raised: Collection[str]) -> bool:
    names = [
        last_name(each)
        for one in types
        if one is not None
        for each in (one.elts if isinstance(one, ast.Tuple) else [one])
    ]
    return not raised or not names or not set(names) <= _OF_OTHERS


#: Contexts outside of torch that catch nothing.
_PASSING = frozenset(
    """contextlib.closing contextlib.nullcontext contextlib.redirect_stderr
    contextlib.redirect_stdout open warnings.catch_warnings""".split()
)


def _lets_pass(context: ast.expr, file: str, raised: Collection[str]) -> bool:
    """Whether a context is known to catch nothing."""
    if isinstance(context, ast.IfExp):
        both = (context.body, context.orelse)
        return all(_lets_pass(one, file, raised) for one in both)
    if raised:
        is_suppress = isinstance(context, ast.Call) and last_name(context.func) == "suppress"
        return not is_suppress or not _may_catch(context.args, raised)  # type: ignore[attr-defined]
    function = context.func if isinstance(context, ast.Call) else context
    name = full_name(function, file)
    return name.startswith("torch.") or name in _PASSING


def statements_in(line: Line) -> list[ast.stmt]:
    """The statements that have their own part, not their body, in a line; without those in a branch
    that raises, which the example did not take."""
    found = [
        node for node in nodes(line.file) if isinstance(node, ast.stmt) and _is_own(node, line)
    ]
    raised = {
        id(inner)
        for node in found
        if isinstance(node, ast.If)
        for body in (node.body, node.orelse)
        if always_raises(body)
        for statement in body
        for inner in ast.walk(statement)
    }
    return [node for node in found if id(node) not in raised]


def _is_own(node: ast.stmt, line: Line) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, *_TRIES)):
        return False
    heads: Iterable[ast.expr] = ()
    if isinstance(node, (ast.If, ast.While)):
        heads = [node.test]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        heads = [node.target, node.iter]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        heads = [one.context_expr for one in node.items]
    elif isinstance(node, ast.Match):
        heads = [node.subject]
    else:
        return _spans(node, line)
    return any(_is_head(node, one, line) for one in heads)


def _spans(node: ast.stmt | ast.expr, line: Line) -> bool:
    return node.lineno <= line.number <= (node.end_lineno or node.lineno)


def _is_head(node: ast.stmt, head: ast.expr, line: Line) -> bool:
    """Whether the line is in a statement's head, not in its body."""
    return node.lineno <= line.number <= (head.end_lineno or node.lineno)


def last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def full_name(function: ast.expr, file: str) -> str:
    """The full name of a function according to the imports of its file: "torch._check", "len"; ""
    if unknown."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    imported = _imported(file)
    if parts and function.id not in imported:
        return ""
    return ".".join([imported.get(function.id, function.id), *reversed(parts)])


@functools.lru_cache(maxsize=16)
def _imported(file: str) -> Mapping[str, str]:
    found = {"torch": "torch"}  # some files import it in other ways
    for node in nodes(file):
        if isinstance(node, ast.Import):
            for one in node.names:
                name = one.name if one.asname else one.name.partition(".")[0]
                found[one.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in nodes(file):
        if isinstance(node, own):
            found[node.name] = f"{file}.{node.name}"
    return found


@functools.lru_cache(maxsize=16)
def nodes(file: str) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree, parents before children."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(ast.walk(tree))
