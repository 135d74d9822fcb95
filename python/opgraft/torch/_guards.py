"""What a captured graph takes for granted of the data, line by line of the model.

Whatever the way of capture, it is a list of guards: where in the model, what the graph holds for,
and what to write instead.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opgraft._errors import ModelError

#: Where a model in ONNX says what it holds for, one condition in a line.
HOLDS_WHERE = "opgraft.holds_where"


@dataclass(frozen=True)
class Line:
    """A line of the user's model."""

    file: str = ""  # empty where nobody knows
    number: int = 0
    code: str = ""

    @property
    def short(self) -> str:
        """Without the folder, for what leaves this machine."""
        return str(replace(self, file=os.path.basename(self.file)))

    def __str__(self) -> str:
        if not self.number:
            return ""
        return f"{self.file}, line {self.number}: {self.code}" if self.file else self.code


@dataclass(frozen=True)
class Guard:
    """One thing that the graph takes for granted of the data."""

    line: Line
    #: Such as "x.sum() > 0".
    condition: str
    #: What to write in place of that line.
    advice: str = ""
    #: Whether the model itself fails on other data: an `assert`, a `torch._check`, a `view`.
    is_asserted: bool = False

    def __str__(self) -> str:
        return _joined(str(self.line), f"holds where {self.condition}")

    @property
    def short(self) -> str:
        return _joined(self.line.short, f"holds where {self.condition}")


def _joined(line: str, text: str) -> str:
    return f"{line.removesuffix(':')}: {text}" if line else text


def at(line: Line, taken: bool | None = None, detail: str = "") -> Guard:
    """The guard of a line where a tensor became a value of Python's.

    `taken` is what the condition in that line was, where it was asked once. `detail` says what
    torch knows of it, for lines without a condition.
    """
    found = _statement(line)
    if found is None:
        return Guard(line, _as_example(line.code, detail), _ADVICE["value"])
    kind, test = found
    if kind == "while":
        condition = f"`while {ast.unparse(test)}` goes as often as with the example"
    elif kind == "for":
        does = "goes as often as" if _is_count(test) else "goes over the same values as"
        condition = f"`for … in {ast.unparse(test)}` {does} with the example"
    elif kind == "assert":
        condition = ast.unparse(test)
    elif kind == "raise":
        condition = f"not ({ast.unparse(test)})"
    elif kind == "if":
        condition = _condition(test, taken)
    else:
        condition = _as_example(ast.unparse(test), detail)
    return Guard(line, condition, _ADVICE[kind], is_asserted=kind in ("assert", "raise"))


def _is_count(test: ast.expr) -> bool:
    """Whether a loop goes over `range(...)`: how often is all that matters."""
    return isinstance(test, ast.Call) and _name(test.func) == "range"


def _as_example(code: str, detail: str) -> str:
    what = f"`{code}`" if code else "the data"
    return f"{what} is as with the example" + (f" ({detail})" if detail else "")


def _condition(test: ast.expr, taken: bool | None) -> str:
    # It is the tensor that is asked; what `not` makes of it is Python's.
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    text = ast.unparse(test)
    # Of several parts nobody knows which was which.
    if taken is None or isinstance(test, ast.BoolOp):
        return f"`{text}` is as with the example"
    return text if taken else f"not ({text})"


_CHOOSE = "torch.where(condition, a, b), or torch.cond(condition, f, g, arguments)"
_ADVICE = {
    "if": f"write {_CHOOSE}, in place of `if`",
    "while": "write torch.while_loop(condition, body, arguments) in place of `while`",
    "for": "write operators on whole tensors, or torch.while_loop(condition, body, arguments), in "
    "place of `for`",
    "index": "index a tensor (torch.stack(values)[i]), not a list, a dictionary or modules; or "
    f"write {_CHOOSE}",
    "assert": "",
    "raise": "",
    "value": f"keep it a tensor: no item(), int(), float() or tolist(); to choose, write {_CHOOSE}",
}
_CHECKS = ("_check", "_assert", "assert_")


def _statement(line: Line) -> tuple[str, ast.expr] | None:
    """What stands in a line that asks for a value: its kind, and the expression that is asked."""
    holding = [
        node
        for node in _nodes(line.file)
        if isinstance(node, (ast.stmt, ast.expr))
        and node.lineno <= line.number <= (node.end_lineno or node.lineno)
    ]
    for node in reversed(holding):  # the innermost first
        if isinstance(node, (ast.If, ast.While, ast.Assert)) and _covers(node.test, line, node):
            if isinstance(node, ast.If) and _always_raises(node.body):
                return "raise", node.test  # which it has not done with the example
            return type(node).__name__.lower(), node.test
        if isinstance(node, ast.IfExp):
            return "if", node.test
        if isinstance(node, ast.For) and _covers(node.iter, line, node):
            return "for", node.iter
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return "for", node.generators[0].iter
        if isinstance(node, ast.Call) and _name(node.func).startswith(_CHECKS) and node.args:
            return "assert", node.args[0]
    for node in reversed(holding):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            calls = [one for one in ast.walk(node.slice) if isinstance(one, ast.Call)]
            if calls:
                return "index", node
    return None


def is_caught(line: Line) -> bool:
    """Whether what is raised in a line may be caught where the line stands, and the model go on."""
    return any(
        isinstance(node, ast.Try)
        and node.handlers
        and node.body[0].lineno <= line.number <= (node.body[-1].end_lineno or 0)
        for node in _nodes(line.file)
    )


def _always_raises(body: Sequence[ast.stmt]) -> bool:
    ends = (ast.Return, ast.Break, ast.Continue)
    inside = [one for statement in body for one in ast.walk(statement)]
    return isinstance(body[-1], ast.Raise) and not any(isinstance(one, ends) for one in inside)


def raises_otherwise(line: Line) -> bool:
    """Whether a line is the head of an `if` that raises, or of an `assert`: on other data the model
    goes the same way, or fails itself."""
    for node in reversed(_nodes(line.file)):
        if isinstance(node, (ast.If, ast.Assert)) and _covers(node.test, line, node):
            return (
                isinstance(node, ast.Assert)
                or _always_raises(node.body)
                or bool(node.orelse and _always_raises(node.orelse))
            )
    return False


def _covers(test: ast.expr, line: Line, node: ast.stmt) -> bool:
    """Whether the line is that of a statement's head, not of its body."""
    return node.lineno <= line.number <= (test.end_lineno or node.lineno)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@functools.lru_cache(maxsize=16)
def _nodes(file: str) -> tuple[ast.AST, ...]:
    """All that stands in a file, what is inside something after it."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(ast.walk(tree))


def merged(guards: Iterable[Guard]) -> list[Guard]:
    """Each once, in the order in which they came. A line that was asked several times, and said
    yes and no, is as with the example."""
    found = list(dict.fromkeys(guards))
    for one in list(found):
        other = replace(one, condition=f"not ({one.condition})")
        if one in found and other in found:
            both = replace(one, condition=f"`{one.condition}` is, each time, as with the example")
            found[found.index(one)] = both
            found.remove(other)
    return found


def refused(guards: Iterable[Guard]) -> list[Guard]:
    """Those that make a graph wrong for other data, where the model goes on."""
    return [one for one in guards if not one.is_asserted]


_MOST_SHOWN = 8


def places(guards: Sequence[Guard]) -> str:
    """Their lines, each once."""
    lines = list(dict.fromkeys(str(one.line) or one.condition for one in guards))
    more = f"; and {len(lines) - _MOST_SHOWN} more" if len(lines) > _MOST_SHOWN else ""
    return "; ".join(lines[:_MOST_SHOWN]) + more


def by_sizes(guard: Guard) -> str:
    """What a model in ONNX says of a line that asks for sizes, where other sizes were right."""
    return _joined(guard.line.short, "asks for sizes; right at those that were tried")


_DECIDES = "decides by data what it computes"


def is_refusal(error: Exception) -> bool:
    """Whether it is the error below."""
    return isinstance(error, ModelError) and _DECIDES in str(error)


def refusal(name: str, guards: Sequence[Guard]) -> ModelError:
    """The error for a graph that holds for the example's data alone."""
    shown = [
        f"  {guard}" + (f"\n    Fix: {guard.advice}" if guard.advice else "")
        for guard in guards[:_MOST_SHOWN]
    ]
    if len(guards) > _MOST_SHOWN:
        shown.append(f"  and {len(guards) - _MOST_SHOWN} more")
    error = ModelError(
        f"{name} {_DECIDES}: a graph of it would be right where the data is "
        "as in the example, and silently wrong elsewhere.\n" + "\n".join(shown) + "\n"
        "To export what the example does anyway: specialise=True"
    )
    error.guards = name, list(guards)  # type: ignore[attr-defined]
    return error


def both(error: Exception, other: Exception) -> Exception:
    """One refusal of two: no way of capture sees all lines, since what one has fixed it does not
    ask for again."""
    name, guards = getattr(error, "guards", ("", []))
    _, others = getattr(other, "guards", ("", []))
    lines = {one.line for one in guards}
    more = [one for one in others if one.line not in lines]
    return refusal(name, [*guards, *more]) if guards and more else error


def warning(guards: Sequence[Guard]) -> str:
    """What is said of a graph that was asked for with specialise=True."""
    return (
        "the exported model is specialised: it is right where the data is as in the example, and "
        f"silently wrong elsewhere: {'; '.join(map(str, guards))}"
    )


def where(guards: Sequence[Guard]) -> str:
    """The conditions in one line: ", where x.sum() > 0"; empty where there are none."""
    if not guards:
        return ""
    conditions = list(dict.fromkeys(one.condition for one in guards))
    more = f" and {len(conditions) - 3} more" if len(conditions) > 3 else ""
    return f", where {' and '.join(conditions[:3])}{more}"
