"""Tries the translations of operators with numbers that are not in the examples.

A translation may be right only near the example: log(cumsum(exp(x))) for logcumsumexp fails if an x
is -100. So each elementwise operator and each reduction runs once more, alone, with hard numbers of
its types, and is compared with torch where inputs and torch's results are finite. Differences for
NaN and infinities are only reported, because ONNX Runtime's own kernels differ there. The same goes
for reductions of extreme numbers such as 1e30, whose squares overflow: torch's translations are
right for all other numbers, so a fallback to ATen nodes is not worth it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnxruntime
import torch

from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._apart import Apart, Decomposition
from opgraft.torch._graphs._error_lines import first_line
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._program._dispatch import STANDARD, Choice, Translated
from opgraft.torch._program._program import Program
from opgraft.torch._verify import _rounding
from opgraft.torch._verify._exact import is_exact
from opgraft.torch._verify._hard_numbers import EASY, Fills, Numbers, shape, tensors
from opgraft.torch._verify._localise import ROUNDINGS, Guilt
from opgraft.torch._verify._part import Parts, Source, as_array, as_tensors, flattened, outputs_of
from opgraft.torch._verify._rounding import plain
from opgraft.torch._verify._triable import MOST_ELEMENTS, can_be_tried, is_choosing, is_large


@dataclass
class Outcome:
    """The outcome for one operator."""

    #: What is wrong; empty if nothing is.
    wrong: str = ""
    #: The difference from torch for NaN and infinities; empty if there is none.
    not_numbers: str = ""
    #: The differences from torch for extreme numbers.
    extremes: list[str] = field(default_factory=list)
    #: Whether all numbers were tried, so that the outcome holds for other sizes too.
    is_complete: bool = True


@dataclass
class Probed:
    """The outcomes for a program's operators."""

    guilt: Guilt | None = None
    #: By the name of the operator.
    not_numbers: dict[str, str] = field(default_factory=dict)
    extremes: dict[str, list[str]] = field(default_factory=dict)
    #: By the name of the operator, why it could not be tried.
    not_tried: dict[str, str] = field(default_factory=dict)


_Key = tuple[Any, ...]
#: The outcomes so far in this process. Translations do not change.
_known: dict[_Key, Outcome] = {}


def forget() -> None:
    """Forgets all outcomes, so that operators are tried again."""
    _known.clear()


def probe(translated: Translated, program: Program) -> Probed:
    """Tries each translation, torch's or ours, once, even if several nodes use it."""
    found = Probed()
    parts: Parts | None = None
    opset = translated.onnx.model.opset_imports.get("", 0)
    key_of_runtime = (opset, *program.report.providers)
    for key, choices in by_key(translated.choices.values(), key_of_runtime).items():
        if is_exact(choices[0]) and not program.report.providers:
            continue
        outcome = _known.get(key)
        if outcome is None:
            parts = parts or Parts(translated)
            try:
                outcome = tried(_best(choices), parts, program)
            except Exception as error:  # not kept: the next run may have enough memory
                found.not_tried[operator_name(choices[0].node.target)] = first_line(error)
                continue
            if outcome.is_complete:
                _known[key] = outcome
        if outcome.not_numbers:
            found.not_numbers[operator_name(choices[0].node.target)] = outcome.not_numbers
        if outcome.extremes:
            found.extremes[operator_name(choices[0].node.target)] = outcome.extremes
        if outcome.wrong and found.guilt is None:
            found.guilt = Guilt(choices[0], outcome.wrong, choices[1:])
    return found


def tried(choice: Choice, parts: Parts, program: Program) -> Outcome:
    """Tries an operator with our own sizes; or with the example's sizes if the translation is only
    for these, so that it does not run with others or differs even for ones."""
    try:
        return _outcome(lambda numbers: Trial(choice, parts, program, numbers), choice.node)
    except _NotTakenError:
        return Outcome()


def _outcome(compare: Callable[[Numbers], _Comparison], node: torch.fx.Node) -> Outcome:
    with _one_thread():
        return _outcome_of(compare, node)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Uses one thread, because for small tensors more threads are slower."""
    before = torch.get_num_threads()
    if before > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if before > 1:
            torch.set_num_threads(before)


def _outcome_of(compare: Callable[[Numbers], _Comparison], node: torch.fx.Node) -> Outcome:
    numbers = Numbers(node, resize=True, chooses=is_choosing(node), shrink=is_large(node))
    if numbers.is_resized:
        try:
            comparison = compare(numbers)
            is_right = comparison.is_right_for_ones()
        except Exception:
            is_right = False
        if is_right:
            return comparison.outcome()
    if is_large(node):
        raise _TooLargeError(
            f"it has more than {MOST_ELEMENTS} elements, and its translation is not valid for fewer"
        )
    return compare(Numbers(node, resize=False, chooses=is_choosing(node))).outcome()


class _TooLargeError(Exception):
    """A run would take too long."""


_LACKING = "are not in the example (0, ±1, ±10, ±100, large and small ones)"
#: Types for which a plain session neither takes nor returns arrays.
_NOT_NUMPYS = re.compile(r"bfloat16|float8|float4|int4|int2\b")


def _open(program: Program, model: bytes) -> Any:
    """Opens a plain session if that is enough, which takes a tenth of the time of one of ours."""
    if not program.report.providers:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        except Exception:  # functions of the model may have our operators
            pass
        else:
            values = [*session.get_inputs(), *session.get_outputs()]
            if not any(_NOT_NUMPYS.search(one.type) for one in values):
                return session
    return program.open_session(model, threads=1)


def probe_decompositions(
    captured: torch.export.ExportedProgram,
    decomposition: Decomposition,
    not_tried: dict[str, str],
    extremes: dict[str, list[str]],
) -> tuple[Any, str] | None:
    """Returns the first operator of the model that torch decomposes wrongly, and what is wrong.

    `not_tried` receives why others could not be tried, `extremes` the differences for extreme
    numbers.
    """
    for _, node in _graph.calls(captured):
        apart = decomposition(node.target)
        if apart is None or not can_be_tried(node):
            continue
        name = operator_name(node.target)
        key = (apart, name, *_all_alike(node))
        outcome = _known.get(key)
        if outcome is None:
            whole = Apart(node.target, decomposition)
            try:
                outcome = _outcome(functools.partial(_Taken, node, whole), node)
            except Exception as error:
                not_tried[name] = first_line(error)
                continue
            if outcome.is_complete:
                _known[key] = outcome
        if outcome.extremes:
            extremes[name] = outcome.extremes
        if outcome.wrong:
            return node.target, outcome.wrong
    return None


def _all_alike(node: torch.fx.Node) -> list[str]:
    # An elementwise operator is tried with our own sizes; for a sum, two and ten elements differ.
    most = 2 if _graph.is_pointwise(node.target) else len(EASY)
    return [_likeness(one, most) for one in (*node.args, *node.kwargs.items())]


def by_key(choices: Iterable[Choice], runtime: _Key) -> dict[_Key, list[Choice]]:
    """Groups the choices that can be tried by what they have in common, large sizes aside."""
    found: dict[_Key, list[Choice]] = {}
    for choice in choices:
        node = choice.node
        if choice.kind in (STANDARD, "function") and can_be_tried(node):
            key = (choice.kind, operator_name(node.target), *runtime, *_all_alike(node))
            found.setdefault(key, []).append(choice)
    return found


def _likeness(argument: Any, most: int) -> str:
    """Returns a key for an argument. Sizes of `most` or more count as the same."""
    if isinstance(argument, (list, tuple)):
        return str([_likeness(one, most) for one in argument])
    if not isinstance(argument, torch.fx.Node):
        return repr(argument)
    value = argument.meta["val"]
    return f"{value.dtype}, {[min(size, most) for size in shape(value)]}"


def _best(choices: list[Choice]) -> Choice:
    """Returns the smallest choice that can hold all numbers at once, or else the largest."""

    def size(choice: Choice) -> int:
        return max(math.prod(shape(one.meta["val"])) for one in choice.node.all_input_nodes)

    enough = [one for one in choices if size(one) >= len(EASY) ** 2]
    return min(enough, key=size) if enough else max(choices, key=size)


class _Comparison:
    """Compares one operator in torch with another implementation of it."""

    def __init__(self, node: torch.fx.Node, numbers: Numbers) -> None:
        self._node = node
        self._numbers = numbers
        self._is_pointwise = _graph.is_pointwise(node.target)

    def outcome(self) -> Outcome:
        outcome = Outcome()
        for fills in self._numbers.finite():
            if wrong := self._difference(fills, finite=True):
                outcome.wrong = f"its result is wrong for numbers that {_LACKING}: {wrong}"
                return outcome
        for extreme in self._numbers.extremes():
            outcome.extremes += self._at(extreme)
        for fills in self._numbers.not_numbers():
            outcome.not_numbers = outcome.not_numbers or self._difference(fills, finite=False)
        outcome.is_complete = self._numbers.is_complete
        return outcome

    def is_right_for_ones(self) -> bool:
        """Whether it is right for ones and other easy numbers. Raises if torch does."""
        all_fills = self._numbers.easy()
        for fills in all_fills:
            self._in_torch(fills)
        return not any(self._difference(fills, finite=True) for fills in all_fills)

    def _at(self, extreme: float) -> list[str]:
        """Describes what is wrong for numbers of this magnitude, and from which magnitude on."""

        def wrong(size: float) -> str:
            return self._difference(self._numbers.row(size), finite=False, disturb=False)

        if not (told := wrong(extreme)):
            return []
        # The exponents of a magnitude that is right, and of one that is wrong.
        right, off = int(math.copysign(10, math.log10(extreme))), round(math.log10(extreme))
        while abs(off - right) > 1:
            middle = (right + off) // 2
            right, off = (right, middle) if wrong(10.0**middle) else (middle, off)
        side = "above" if off > 0 else "below"
        return [f"differs from torch for numbers {side} about 1e{off}; at {extreme:g} {told}"]

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        """Returns the results of the other implementation for these numbers."""
        raise NotImplementedError

    def _wanted(self, result: Any) -> list[torch.Tensor]:
        return [plain(one) for one in tensors(result)]

    def _in_torch(self, fills: Fills, *, target: Any = None, disturb: bool = False) -> Any:
        def value(node: torch.fx.Node) -> Any:
            return _rounding.disturb(fills[node]) if disturb else fills[node].clone()

        args, kwargs = torch.fx.node.map_arg((self._node.args, self._node.kwargs), value)
        call: Any = target or self._node.target
        return call(*args, **kwargs)

    def _difference(self, fills: Fills, *, finite: bool, disturb: bool = True) -> str:
        """Returns what is wrong with a run; empty if nothing is."""
        try:
            fills, wanted = self._taken(fills)
        except MemoryError:
            raise
        except Exception:  # torch does not take these numbers
            return ""
        try:
            got = self._other(fills)
        except MemoryError:
            raise
        except Exception as error:
            return f"it fails: {first_line(error)}"
        if _rounding.are_surely_near(wanted, got):
            return ""
        if finite:
            holes = [_holes(one) for one in wanted]
            wanted, got = _filled_up(wanted, holes), _filled_up(got, holes)
        return _rounding.difference(
            wanted,
            got,
            (lambda: self._noise(fills, wanted)) if disturb else None,
            roundings=0 if self._is_pointwise else ROUNDINGS,
        )

    def _taken(self, fills: Fills) -> tuple[Fills, list[torch.Tensor]]:
        """Returns the numbers, without those that torch is known to refuse, and torch's results.
        Raises if torch does."""
        try:
            return fills, self._wanted(self._in_torch(fills))
        except MemoryError:
            raise
        except Exception:
            fills = self._numbers.without_zeros(fills)
            return fills, self._wanted(self._in_torch(fills))

    def _noise(self, fills: Fills, wanted: list[torch.Tensor]) -> list[torch.Tensor]:
        others = self._wanted(self._in_torch(fills, disturb=True))
        return [
            torch.where(_holes(one), two, one) if one.is_floating_point() else one
            for one, two in zip(others, wanted, strict=True)
        ]


class _NotTakenError(Exception):
    """An operator does not take a tensor of ones."""


class Trial(_Comparison):
    """Compares with the ONNX nodes of the operator, in a session of their own."""

    def __init__(self, choice: Choice, parts: Parts, program: Program, numbers: Numbers) -> None:
        super().__init__(choice.node, numbers)
        self._choice = choice
        self._sources = parts.sources(choice)
        fills = numbers.ones()
        try:
            result = self._in_torch(fills)
        except MemoryError:
            raise
        except Exception as error:
            raise _NotTakenError from error
        wanted, values = outputs_of(result, choice.outputs)
        self._places = [place for place, one in enumerate(values) if one not in self._sources]
        values = [values[place] for place in self._places]
        feed, nodes = parts.inputs(
            choice, self._sources, values, lambda source: _fetch(source, fills)
        )
        model = parts.build(nodes, feed, values, [wanted[place] for place in self._places])
        self._session = _open(program, model.SerializeToString())
        given = {str(one.name) for one in self._sources}
        self._constants = {name: value for name, value in feed.items() if name not in given}
        self._names = set(feed)

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        feed = {
            str(value.name): _fetch(source, fills)
            for value, source in self._sources.items()
            if value.name in self._names
        }
        given = {name: as_array(value) for name, value in (self._constants | feed).items()}
        return [one for array in self._session.run(None, given) for one in as_tensors(array)]

    def _wanted(self, result: Any) -> list[torch.Tensor]:
        wanted, _ = outputs_of(result, self._choice.outputs)
        return [plain(one) for one in flattened(wanted[place] for place in self._places)]


class _Taken(_Comparison):
    """Compares with torch's decomposition of the operator."""

    def __init__(self, node: torch.fx.Node, apart: Callable[..., Any], numbers: Numbers) -> None:
        super().__init__(node, numbers)
        self._apart = apart

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        return self._wanted(self._in_torch(fills, target=self._apart))


def _fetch(source: Source, fills: dict[torch.fx.Node, torch.Tensor]) -> torch.Tensor:
    return fills[source[0]]


def _holes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns where an element is not finite."""
    return ~torch.isfinite(tensor) if tensor.is_floating_point() else torch.zeros_like(tensor) != 0


def _filled_up(tensors: list[torch.Tensor], holes: list[torch.Tensor]) -> list[torch.Tensor]:
    pairs = zip(tensors, holes, strict=True)
    return [one.masked_fill(hole, 0) if one.shape == hole.shape else one for one, hole in pairs]
