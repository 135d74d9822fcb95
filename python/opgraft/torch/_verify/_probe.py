"""Tries the translations of operators at numbers that examples do not have.

A translation may hold near the example alone: log(cumsum(exp(x))) for logcumsumexp, until an x is
-100. So each operator that is elementwise or reduces is run once more, alone, with hard numbers of
its types, and compared with torch where the numbers that go in and those that torch gives are
finite. What NaN and infinities become is told, and nothing else: ONNX Runtime's own kernels differ
there. So is what reducing operators make of rows of extreme numbers, as 1e30, whose squares
overflow: torch's own translations are right for all others, and no ATen node is worth these.
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
    """What came of the numbers."""

    #: What is wrong, in words; empty where nothing is.
    wrong: str = ""
    #: What NaN and infinities become, where that is not what torch makes of them.
    not_numbers: str = ""
    #: What extreme numbers become, likewise.
    extremes: list[str] = field(default_factory=list)
    #: Whether all numbers were tried, so that it holds for other sizes too.
    is_complete: bool = True


@dataclass
class Probed:
    """What came of a program's operators."""

    guilt: Guilt | None = None
    #: By the name of the operator.
    not_numbers: dict[str, str] = field(default_factory=dict)
    extremes: dict[str, list[str]] = field(default_factory=dict)
    #: Likewise, why it could not be tried.
    not_tried: dict[str, str] = field(default_factory=dict)


_Key = tuple[Any, ...]
#: In this process; translations do not change.
_known: dict[_Key, Outcome] = {}


def forget() -> None:
    """Has all of them tried anew."""
    _known.clear()


def probe(translated: Translated, program: Program) -> Probed:
    """Tries each translation of torch's or of ours once, whatever the number of nodes it made."""
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
            except Exception as error:  # of this run; the next may have the memory for it
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
    """With tensors of our own sizes; with those of the example's, where a translation is for these
    alone, so that it does not run or gives something else even for ones."""
    try:
        return _outcome(lambda numbers: Trial(choice, parts, program, numbers), choice.node)
    except _NotTakenError:
        return Outcome()


def _outcome(compare: Callable[[Numbers], _Comparison], node: torch.fx.Node) -> Outcome:
    with _one_thread():
        return _outcome_of(compare, node)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For small tensors: threads cost more than they give."""
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
            f"it has more than {MOST_ELEMENTS} elements, and is not the same for fewer"
        )
    return compare(Numbers(node, resize=False, chooses=is_choosing(node))).outcome()


class _TooLargeError(Exception):
    """A run would take longer than it is worth."""


_LACKING = "the example has not (0, ±1, ±10, ±100, large and small ones)"
#: Types of which a plain session neither takes nor gives arrays.
_NOT_NUMPYS = re.compile(r"bfloat16|float8|float4|int4|int2\b")


def _open(program: Program, model: bytes) -> Any:
    """A plain session where that is enough, which takes a tenth of the time of one of ours."""
    if not program.report.providers:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        except Exception:  # functions of the model may have operators of ours
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
    """The first operator of the model that torch takes apart wrongly, and how wrongly. `not_tried`
    gets why others could not be tried, `extremes` what extreme numbers become."""
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
    # An elementwise operator is tried with sizes of our own; a sum of two is none of ten.
    most = 2 if _graph.is_pointwise(node.target) else len(EASY)
    return [_likeness(one, most) for one in (*node.args, *node.kwargs.items())]


def by_key(choices: Iterable[Choice], runtime: _Key) -> dict[_Key, list[Choice]]:
    """The choices that can be tried, those together that are alike but for large sizes."""
    found: dict[_Key, list[Choice]] = {}
    for choice in choices:
        node = choice.node
        if choice.kind in (STANDARD, "function") and can_be_tried(node):
            key = (choice.kind, operator_name(node.target), *runtime, *_all_alike(node))
            found.setdefault(key, []).append(choice)
    return found


def _likeness(argument: Any, most: int) -> str:
    """Alike are sizes from `most` on."""
    if isinstance(argument, (list, tuple)):
        return str([_likeness(one, most) for one in argument])
    if not isinstance(argument, torch.fx.Node):
        return repr(argument)
    value = argument.meta["val"]
    return f"{value.dtype}, {[min(size, most) for size in shape(value)]}"


def _best(choices: list[Choice]) -> Choice:
    """The one with the fewest elements of those that hold all numbers at once."""

    def size(choice: Choice) -> int:
        return max(math.prod(shape(one.meta["val"])) for one in choice.node.all_input_nodes)

    enough = [one for one in choices if size(one) >= len(EASY) ** 2]
    return min(enough, key=size) if enough else max(choices, key=size)


class _Comparison:
    """One operator in torch, and what is held against it."""

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
        """And for other easy numbers. Raises where torch does."""
        all_fills = self._numbers.easy()
        for fills in all_fills:
            self._in_torch(fills)
        return not any(self._difference(fills, finite=True) for fills in all_fills)

    def _at(self, extreme: float) -> list[str]:
        """What is wrong for numbers of this size, in words, and from which size on."""

        def wrong(size: float) -> str:
            return self._difference(self._numbers.row(size), finite=False, disturb=False)

        if not (told := wrong(extreme)):
            return []
        # The exponents of a size that is right, and of one that is wrong.
        right, off = int(math.copysign(10, math.log10(extreme))), round(math.log10(extreme))
        while abs(off - right) > 1:
            middle = (right + off) // 2
            right, off = (right, middle) if wrong(10.0**middle) else (middle, off)
        side = "above" if off > 0 else "below"
        return [f"differs from torch for numbers {side} about 1e{off}; at {extreme:g} {told}"]

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        """What the other gives for the same numbers."""
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
        """What is wrong with a run, in words."""
        try:
            fills, wanted = self._taken(fills)
        except MemoryError:
            raise
        except Exception:  # it takes no such numbers
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
        """The numbers, without those that torch does not take where that is known, and its results.
        Raises where torch does."""
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
    """An operator takes what the example has, and not a tensor of ones."""


class Trial(_Comparison):
    """The ONNX nodes of an operator, in a session of their own."""

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
    """What torch takes an operator apart into."""

    def __init__(self, node: torch.fx.Node, apart: Callable[..., Any], numbers: Numbers) -> None:
        super().__init__(node, numbers)
        self._apart = apart

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        return self._wanted(self._in_torch(fills, target=self._apart))


def _fetch(source: Source, fills: dict[torch.fx.Node, torch.Tensor]) -> torch.Tensor:
    return fills[source[0]]


def _holes(tensor: torch.Tensor) -> torch.Tensor:
    """Where torch gives no number."""
    return ~torch.isfinite(tensor) if tensor.is_floating_point() else torch.zeros_like(tensor) != 0


def _filled_up(tensors: list[torch.Tensor], holes: list[torch.Tensor]) -> list[torch.Tensor]:
    pairs = zip(tensors, holes, strict=True)
    return [one.masked_fill(hole, 0) if one.shape == hole.shape else one for one, hole in pairs]
