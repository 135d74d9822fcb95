"""Runs onnxscript's optimiser without the steps that change results: by itself it treats close
numbers as equal, merges bounds that cross, and computes random numbers once for all runs."""

from __future__ import annotations

import functools
import importlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxscript

from opgraft.torch import _private
from opgraft.torch._graphs._error_lines import innermost_line

#: Rules that merge bounds even if the lower bound is above the upper one.
_CARELESS = frozenset(("FuseSuccessiveClip", "FuseSuccessiveReluClip"))
#: Random operators that onnxscript does not know to be random.
_RANDOM = frozenset(("Bernoulli", "Dropout"))
# The optimiser must not remove any of these nodes.
_TRIAL = """
    <ir_version: 10, opset_import: ["" : 20, "trial" : 1]>
    trial (float[3] x) => (a, b, c, d, e, f, g, h, i, j, k, l) {
      small = Constant <value_float = 1e-10> ()
      near = Constant <value_float = 1.000001> ()
      half = Constant <value_float = 0.5> ()
      one = Constant <value_float = 1.0> ()
      two = Constant <value_float = 2.0> ()
      ones = Constant <value_floats = [1.0, 1.0]> ()
      yes = Constant <value = bool {1}> ()
      a = Add (x, small)
      b = Sub (x, small)
      c = Mul (x, near)
      d = Div (x, near)
      below = Clip (x, half, one)
      e = Clip (below, two)
      below_zero = Neg (one)
      negative = Clip (x, , below_zero)
      f = Relu (negative)
      g = Bernoulli (x)
      h = Bernoulli (x)
      i = Bernoulli (ones)
      j = Dropout (ones, half, yes)
      k = trial.Draw (x)
      l = trial.Draw (x)
    }
"""
_LEFT = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Relu", "Dropout"), 1),
    "Clip": 3,
    "Bernoulli": 3,
    "Draw": 2,
}


def optimised(model: Any) -> tuple[Any, str]:
    """Returns the optimised model and ""; or the model as it is, and why it is not optimised."""
    with _private.export_lock:
        if not is_exact():
            return model, (
                f"onnxscript {onnxscript.__version__} changes the results of a trial model, and "
                "this cannot be prevented"
            )
        copy = model.clone()
        try:
            _optimise(copy)
        except MemoryError:
            raise
        except Exception as error:
            return model, f"the optimiser fails: {innermost_line(error)}"
        return copy, ""


@functools.cache
def is_exact() -> bool:
    """Whether the optimiser of this version leaves the trial model as it is."""
    model = trial()
    try:
        _optimise(model)
    except MemoryError:
        raise
    except Exception:
        return False
    return Counter(node.op_type for node in model.graph) == _LEFT


def trial() -> Any:
    """Returns a model in which every node must stay."""
    return ir.serde.deserialize_model(onnx.parser.parse_model(_TRIAL))


def _optimise(model: Any) -> None:
    with exactly():
        onnxscript.optimizer.optimize_ir(
            model, should_fold=lambda node: False if _may_be_random(node) else None
        )


@contextmanager
def exactly() -> Iterator[None]:
    """Replaces the parts of onnxscript that change results, for this thread."""
    with ExitStack() as stack:
        for place, name, held in _HELD:
            stack.enter_context(_holding(place, name, held))
        yield


@contextmanager
def _holding(place: str, name: str, held: Callable[[Any, int], Any]) -> Iterator[None]:
    module, _, part = place.partition(":")
    owner: Any = importlib.import_module(module)
    if part:
        owner = getattr(owner, part)
    before = getattr(owner, name)
    setattr(owner, name, held(before, threading.get_ident()))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _matching(match: Any, thread: int) -> Any:
    """Returns a function that decides whether a rule matches a constant: only if it is equal."""

    def match_exactly(matcher: Any, pattern: Any, value: Any) -> bool:
        if not match(matcher, pattern, value):
            return False
        if threading.get_ident() != thread or np.array_equal(
            value.const_value.numpy(), pattern.value
        ):
            return True
        return bool(matcher.fail(f"{value.name} is close to {pattern.value}, but not equal."))

    return match_exactly


def _merging(is_random: Any, thread: int) -> Any:
    """Returns a function that decides whether a node must not be merged with an identical one."""

    def is_random_too(node: Any) -> bool:
        return is_random(node) or (threading.get_ident() == thread and _may_be_random(node))

    return is_random_too


def _careful(rules: Any, _: int) -> Any:
    return tuple(rule for rule in rules if rule.name not in _CARELESS)


def _may_be_random(node: Any) -> bool:
    return node.domain != "" or node.op_type in _RANDOM


#: What is replaced: its module or class, its name, and the function that makes a replacement for
#: one thread.
_HELD: tuple[tuple[str, str, Callable[[Any, int], Any]], ...] = (
    ("onnxscript.rewriter._matcher:SimplePatternMatcher", "_match_constant", _matching),
    ("onnxscript.rewriter", "_DEFAULT_REWRITE_RULES", _careful),
    (
        "onnx_ir.passes.common.common_subexpression_elimination",
        "_is_non_deterministic_op",
        _merging,
    ),
)
