"""Conditions on sizes, and on numbers in tensors, that torch assumes while it captures a model."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import typing_extensions

from opgraft.torch._private.folders import OF_TORCH, OURS
from opgraft.torch._private.lookup import private

_SHAPES = "torch.fx.experimental.symbolic_shapes"
_DYNAMO = os.path.join(OF_TORCH, "_dynamo", "")
#: File names of generated code. What a user types into a console has a name in brackets too.
_GENERATED = ("<frozen ", "<eval_with_key>", "<torch_package")
#: Wrappers of functions, torch's deprecated ones among them.
_WRAPPERS = (str(typing_extensions.__file__), str(functools.__file__), str(contextlib.__file__))
NOT_THE_MODELS = (OF_TORCH, OURS, *_GENERATED, *_WRAPPERS)
#: torch's symbols for numbers that depend on data: u0, zuf1.
_OF_DATA = re.compile(r"z?u\w*\d+")


@dataclass(frozen=True)
class Condition:
    """A condition that holds for the example."""

    expression: Any  #: an expression of sympy that is true
    #: The lines of the model, file and number, innermost last.
    stack: tuple[tuple[str, int], ...]
    #: Whether the model's own code asked for it, rather than an operator of torch.
    is_of_model: bool
    #: The file and the function of torch's code that asked for it: "_decomp/…:split".
    origin: str
    #: The ShapeEnv that it belongs to. The body of a loop has its own.
    shapes: Any
    #: What its symbols stand for, as torch writes it: "L['x'].size()[0]"; "" if unknown.
    sources: tuple[tuple[Any, str], ...]

    @property
    def is_of_data(self) -> bool:
        """Whether it is about numbers that depend on data, not only about sizes of arguments."""
        return any(_OF_DATA.fullmatch(str(symbol)) for symbol, _ in self.sources)

    def in_words(self, names: Mapping[Any, str]) -> str:
        """Returns it as Python code, with these names for its symbols."""
        return text_of(self.expression, names)

    @property
    def texts(self) -> set[str]:
        """The texts that torch may write for it into its graph."""
        canonical = private(_SHAPES, "canonicalize_bool_expr")
        return {str(self.expression), str(canonical(self.expression))}

    @property
    def bound(self) -> tuple[str, float, float] | None:
        """If it bounds one integer: the integer's symbol, its least and its greatest value. Else
        None."""
        sympy = private("sympy")
        one = self.expression
        if not isinstance(one, sympy.core.relational.Relational) or len(one.free_symbols) != 1:
            return None
        if not one.lhs.is_Symbol:
            one = one.reversed
        if not one.lhs.is_Symbol or not one.lhs.is_integer or not one.rhs.is_number:
            return None
        bound = float(one.rhs)
        for kind, (least, most) in {
            sympy.Ge: (bound, math.inf),
            sympy.Gt: (math.floor(bound) + 1, math.inf),
            sympy.Le: (-math.inf, bound),
            sympy.Lt: (-math.inf, math.ceil(bound) - 1),
            sympy.Eq: (bound, bound),
        }.items():
            if isinstance(one, kind):
                return str(one.lhs), least, most
        return None

    def fixes(self, parameter: str, axis: int | None) -> bool:
        """Whether it fixes a size of that parameter."""
        size = "" if axis is None else f".size()[{axis}]"
        return isinstance(self.expression, private("sympy").Eq) and any(
            source.startswith(f"L['{parameter}']") and source.endswith(size)
            for _, source in self.sources
        )


def text_of(expression: Any, names: Mapping[Any, str]) -> str:
    """Returns an expression as Python code, with these names for its symbols."""
    symbol = private("sympy", "Symbol")
    named = expression.xreplace({one: symbol(name) for one, name in names.items()})
    code = str(private("torch.utils._sympy.printers", "PythonPrinter")().doprint(named))
    code = re.sub(r"\d+\.\d{9,}", lambda one: f"{float(one[0]):g}", code)
    code = re.sub(r"torch\.sym_float\(([^()]*)\)", r"\1", code)
    return re.sub(r"\((-\d+)\)", r"\1", code)


@contextmanager
def noted_conditions() -> Iterator[list[Condition]]:
    """Collects the conditions of this thread inside the block, each once.

    torch does not note what it already knows: `n == 1` for a size that it assumes to be at least 2.
    So the model's own comparisons are noted when they are made.
    """
    found: dict[Condition, None] = {}
    result: list[Condition] = []
    owner, outside = threading.get_ident(), callers_of(sys._getframe())
    shapes = private(_SHAPES, "ShapeEnv")
    before = private(_SHAPES, "ShapeEnv._log_guard")

    def log_guard(self: Any, prefix: str, guard: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == owner and "suppressed" not in prefix:
            found[_condition(self, guard, sys._getframe(1), outside)] = None
        return before(self, prefix, guard, *args, **kwargs)

    def asked(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def ask(self: Any) -> Any:
            answer = method(self)
            if threading.get_ident() == owner and _is_the_models(sys._getframe(1)):
                expression = _holding(self.node, answer)
                if expression is not None:
                    asking = sys._getframe(1)
                    found[_condition(self.node.shape_env, expression, asking, outside)] = None
            return answer

        return ask

    def compared(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def compare(self: Any, other: Any) -> Any:
            answer = method(self, other)
            if threading.get_ident() == owner and _is_the_models(sys._getframe(1)):
                expression = _known(self.node, name, other, answer)
                if expression is not None:
                    asking = sys._getframe(1)
                    found[_condition(self.node.shape_env, expression, asking, outside)] = None
            return answer

        return compare

    with ExitStack() as undone:
        undone.callback(setattr, shapes, "_log_guard", before)
        shapes._log_guard = log_guard
        for kind, names in (
            (torch.SymInt, ("__bool__", "__int__", "__index__")),
            (torch.SymFloat, ("__bool__", "__int__", "__float__")),
            (torch.SymBool, ("__bool__", "__int__")),
        ):
            for name in names:
                own = vars(kind)[name]
                undone.callback(setattr, kind, name, own)
                setattr(kind, name, asked(own))
        for name in _COMPARISONS:
            if name in vars(torch.SymInt):
                own = vars(torch.SymInt)[name]
                undone.callback(setattr, torch.SymInt, name, own)
                setattr(torch.SymInt, name, compared(name, own))
        yield result
    result += found


def _holding(node: Any, answer: Any) -> Any:
    """Returns what holds if a size, or a comparison of sizes, became this Python value. None if it
    is a constant or depends on data."""
    sympy = private("sympy")
    expression = getattr(node, "_expr", None)
    if not isinstance(expression, sympy.Basic) or not expression.free_symbols:
        return None
    if any(_OF_DATA.fullmatch(str(one)) for one in expression.free_symbols):
        return None
    if isinstance(expression, sympy.logic.boolalg.Boolean):
        return expression if answer else sympy.Not(expression)
    if isinstance(answer, int) and not expression.is_integer and not isinstance(answer, bool):
        return None  # from a float; torch itself notes what it was truncated to
    if isinstance(answer, bool):  # sympy would know that no size is 0
        kind = sympy.Ne if answer else sympy.Eq
        return kind(expression, 0, evaluate=False)
    return sympy.Eq(expression, answer)


#: Comparisons and their opposites in sympy, by the methods of sizes.
_COMPARISONS = {
    "__eq__": ("Eq", "Ne"),
    "__ne__": ("Ne", "Eq"),
    "__lt__": ("Lt", "Ge"),
    "__le__": ("Le", "Gt"),
    "__gt__": ("Gt", "Le"),
    "__ge__": ("Ge", "Lt"),
}


def _known(node: Any, name: str, other: Any, answer: Any) -> Any:
    """Returns what holds if a size was compared with a number and torch knew the answer at once,
    since it assumes that no size is 0. Else None."""
    sympy = private("sympy")
    expression = getattr(node, "_expr", None)
    if type(other) is not int or not isinstance(expression, sympy.Basic):
        return None
    known = answer if isinstance(answer, bool) else getattr(answer.node, "_expr", None)
    if not expression.free_symbols or known not in (True, False):
        return None
    if any(_OF_DATA.fullmatch(str(one)) for one in expression.free_symbols):
        return None
    holding = getattr(sympy, _COMPARISONS[name][0 if known else 1])
    return holding(expression, other, evaluate=False)


def _is_the_models(frame: FrameType) -> bool:
    # Code outside any module is what torch generates while it captures.
    is_torchs = frame.f_code.co_filename.startswith(NOT_THE_MODELS)
    return not is_torchs and "__name__" in frame.f_globals


def callers_of(frame: FrameType | None) -> frozenset[FrameType]:
    """Returns a frame and its callers. Those of an export are not part of the model."""
    found = set()
    while frame is not None:
        found.add(frame)
        frame = frame.f_back
    return frozenset(found)


def _condition(
    shapes: Any, expression: Any, at: FrameType | None, outside: frozenset[FrameType]
) -> Condition:
    plain = private(_SHAPES, "uninteresting_files")()
    while at is not None and _is_plain(at.f_code.co_filename, plain):
        at = at.f_back
    file, function = (at.f_code.co_filename, at.f_code.co_name) if at is not None else ("", "")
    is_of_model = not file.startswith(NOT_THE_MODELS) or file.startswith(_DYNAMO)
    context = private("torch._guards", "TracingContext")
    stack = [(one.filename, int(one.lineno or 0)) for one in context.extract_stack()]
    own = [one for one in stack if not one[0].startswith(NOT_THE_MODELS)] or lines_below(
        at, outside
    )
    origin = "" if is_of_model else f"{file.removeprefix(OF_TORCH)}:{function}"
    sources = _sources(shapes, expression)
    return Condition(expression, tuple(own), is_of_model, origin, shapes, sources)


def _sources(shapes: Any, expression: Any) -> tuple[tuple[Any, str], ...]:
    known = getattr(shapes, "var_to_sources", {})
    found = [(one, _name(known.get(one))) for one in getattr(expression, "free_symbols", ())]
    return tuple(sorted(found, key=str))


def _is_plain(file: str, plain: Collection[str]) -> bool:
    """Whether the code of a file only passes calls on."""
    return file in plain or file.startswith(OURS)


def lines_below(at: FrameType | None, outside: frozenset[FrameType]) -> list[tuple[str, int]]:
    """Returns the lines of the model that lead to a frame, innermost last."""
    found: list[tuple[str, int]] = []
    while at is not None and at not in outside:
        if _is_the_models(at):
            found.append((at.f_code.co_filename, at.f_lineno))
        at = at.f_back
    return found[::-1]


def _name(sources: Any) -> str:
    name = getattr(sources[0], "name", "") if sources else ""
    return str(name() if callable(name) else name)


def conditions_of(program: torch.export.ExportedProgram) -> list[Condition]:
    """Returns the conditions of a program captured earlier, as far as torch has kept them."""
    found: dict[Any, Condition] = {}
    for node in program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        shapes = getattr(mode, "shape_env", None)
        for guard in getattr(shapes, "guards", ()):
            one = guard.expr
            found[one] = Condition(one, (), False, "", shapes, _sources(shapes, one))
    return list(found.values())
