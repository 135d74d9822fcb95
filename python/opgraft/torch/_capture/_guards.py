"""Guards: what a captured graph assumes about the data, by the lines of the model.

Every way of capture gives a list of guards: the line of the model, what the graph holds for, and
what to write instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opgraft._base._errors import ModelError
from opgraft.torch._capture import _lines
from opgraft.torch._capture._lines import Line as Line

#: The metadata key of an ONNX model for what it holds for, one condition per line.
HOLDS_WHERE = "opgraft.holds_where"


@dataclass(frozen=True)
class Guard:
    """One assumption of the graph about the data."""

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


def at(
    line: Line, taken: bool | None = None, detail: str = "", callers: Iterable[Line] = ()
) -> Guard:
    """The guard of a line where a tensor became a Python value.

    `taken` is the value of the condition in that line, if it was evaluated once. `detail` says what
    torch knows about it, for lines without a condition. `callers` are the lines of the model that
    lead there: an exception may be caught in any of them.
    """
    found = _lines.asked(line)
    if found is None:
        return Guard(line, _as_example(line.code, detail), _ADVICE["value"])
    kind, test = found
    if kind == "while":
        condition = f"`while {ast.unparse(test)}` runs as often as in the example"
    elif kind == "for":
        does = "runs as often as" if _is_count(test) else "goes over the same values as"
        condition = f"`for … in {ast.unparse(test)}` {does} in the example"
    elif kind == "assert":
        condition = ast.unparse(test)
    elif kind == "raise":
        condition = f"not ({ast.unparse(test)})"
    elif kind == "if":
        condition = _condition(test, taken)
    else:
        condition = _as_example(ast.unparse(test), detail)
    guard = Guard(line, condition, _ADVICE[kind], is_asserted=kind in ("assert", "raise"))
    return unless_caught(guard, callers)


def unless_caught(guard: Guard, callers: Iterable[Line] = ()) -> Guard:
    """Turns an assertion that the model itself may catch into a decision."""
    if not guard.is_asserted:
        return guard
    for one in (guard.line, *callers):
        if (catching := _lines.caught_at(one)) is not None:
            where = f"line {catching.number}" + (f" of {one.file}" if one != guard.line else "")
            advice = (
                f"the exception may be caught in {where} (`{catching.code}`), and the model goes "
                f"on: write {_CHOOSE} instead, or do not catch it"
            )
            return replace(guard, is_asserted=False, advice=advice)
    return guard


def _is_count(test: ast.expr) -> bool:
    """Whether a loop goes over `range(...)`: only the number of steps matters."""
    return isinstance(test, ast.Call) and _lines.last_name(test.func) == "range"


def _as_example(code: str, detail: str) -> str:
    what = f"`{code}`" if code else "the data"
    return f"{what} is the same as in the example" + (f" ({detail})" if detail else "")


def _condition(test: ast.expr, taken: bool | None) -> str:
    # The tensor's value decides; Python applies the `not` afterwards.
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    text = ast.unparse(test)
    # With several parts, it is unknown which one was evaluated.
    if taken is None or isinstance(test, ast.BoolOp):
        return f"`{text}` is the same as in the example"
    return text if taken else f"not ({text})"


_CHOOSE = "torch.where(condition, a, b), or torch.cond(condition, f, g, arguments)"
_ADVICE = {
    "if": f"write {_CHOOSE}, instead of `if`",
    "while": "write torch.while_loop(condition, body, arguments) instead of `while`",
    "for": "use operators on whole tensors, or torch.while_loop(condition, body, arguments), "
    "instead of `for`",
    "logic": "write torch.logical_and(a, b) for `a and b` and for `a < b < c`, and "
    "torch.logical_or(a, b) for `a or b`",
    "index": "index a tensor (torch.stack(values)[i]), not a list, a dictionary or modules; or "
    f"write {_CHOOSE}",
    "assert": "",
    "raise": "",
    "value": f"keep it a tensor: no item(), int(), float() or tolist(); to choose, write {_CHOOSE}",
}


def merged(guards: Iterable[Guard]) -> list[Guard]:
    """Returns each guard once, in order. The condition of a line that was evaluated several times,
    with different results, must be the same each time."""
    found = list(dict.fromkeys(guards))
    for one in list(found):
        other = replace(one, condition=f"not ({one.condition})")
        if one in found and other in found:
            same = f"`{one.condition}` is the same each time as in the example"
            both = replace(one, condition=same)
            found[found.index(one)] = both
            found.remove(other)
    return found


def refused(guards: Iterable[Guard]) -> list[Guard]:
    """The guards that make a graph silently wrong for other data: the model itself does not
    raise."""
    return [one for one in guards if not one.is_asserted]


_MOST_SHOWN = 8


def places(guards: Sequence[Guard]) -> str:
    """The lines of the guards, each once."""
    lines = list(dict.fromkeys(str(one.line) or one.condition for one in guards))
    more = f"; and {len(lines) - _MOST_SHOWN} more" if len(lines) > _MOST_SHOWN else ""
    return "; ".join(lines[:_MOST_SHOWN]) + more


def by_sizes(guard: Guard) -> str:
    """The metadata line for a line that asks for sizes, if other sizes were right."""
    return _joined(guard.line.short, "asks for sizes; right at those that were tried")


_DECIDES = "decides by data what it computes"


def is_refusal(error: Exception) -> bool:
    """Whether it is an error made by `refusal`."""
    return isinstance(error, ModelError) and _DECIDES in str(error)


def refusal(name: str, guards: Sequence[Guard]) -> ModelError:
    """The error for a graph that is right only for data like the example's."""
    shown = [
        f"  {guard}" + (f"\n    Fix: {guard.advice}" if guard.advice else "")
        for guard in guards[:_MOST_SHOWN]
    ]
    if len(guards) > _MOST_SHOWN:
        shown.append(f"  and {len(guards) - _MOST_SHOWN} more")
    error = ModelError(
        f"{name} {_DECIDES}: a graph of it would be right only where the data is "
        "as in the example, and silently wrong elsewhere.\n" + "\n".join(shown) + "\n"
        "To export what the model does with the example anyway: specialise=True"
    )
    error.guards = name, list(guards)  # type: ignore[attr-defined]
    return error


def both(error: Exception, other: Exception) -> Exception:
    """Joins two refusals: no way of capture sees all lines, since it does not evaluate again what
    it has fixed."""
    name, guards = getattr(error, "guards", ("", []))
    _, others = getattr(other, "guards", ("", []))
    lines = {one.line for one in guards}
    more = [one for one in others if one.line not in lines]
    return refusal(name, [*guards, *more]) if guards and more else error


def warning(guards: Sequence[Guard]) -> str:
    """The warning for a graph that was exported with specialise=True."""
    return (
        "the exported model is specialised: it is right only where the data is as in the example, "
        f"and silently wrong elsewhere: {'; '.join(map(str, guards))}"
    )


def where(guards: Sequence[Guard]) -> str:
    """The conditions in one line, such as ", where x.sum() > 0"; empty if there are none."""
    if not guards:
        return ""
    conditions = list(dict.fromkeys(one.condition for one in guards))
    more = f" and {len(conditions) - 3} more" if len(conditions) > 3 else ""
    return f", where {' and '.join(conditions[:3])}{more}"
