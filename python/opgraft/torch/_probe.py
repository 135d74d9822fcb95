"""Tries the translations of operators at numbers that examples do not have.

A translation may hold near the example alone: log(cumsum(exp(x))) for logcumsumexp, until an x is
-100. So each operator that is elementwise or reduces is run once more, alone, with hard numbers of
its types, and compared with torch where the numbers that go in and those that torch gives are
finite. What NaN and infinities become is told, and nothing else: ONNX Runtime's own kernels differ
there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import onnxruntime
import torch

from opgraft.torch import _compare, _graph, _hard_numbers, _private
from opgraft.torch._compare import plain
from opgraft.torch._dispatch import STANDARD, Choice, Translated
from opgraft.torch._exact import is_exact
from opgraft.torch._graph import operator_name
from opgraft.torch._hard_numbers import EASY, Fills, shape, tensors
from opgraft.torch._localise import ROUNDINGS, Guilt
from opgraft.torch._part import Parts, Source, as_array, as_tensors, flattened, outputs_of
from opgraft.torch._program import Program

#: Beyond which a run would take longer than it is worth.
_MOST_ELEMENTS = 1 << 20
#: Those that torch's tags do not count among the reducing ones.
_REDUCING = frozenset(
    f"aten::{name}"
    for name in (
        "_log_softmax _softmax cumsum cumprod log_sigmoid_forward log_softmax logcumsumexp softmax"
    ).split()
)

_COPYING = frozenset(("aten::clone", "aten::detach", "aten::alias", "aten::copy"))


@dataclass
class Outcome:
    """What came of the numbers."""

    #: What is wrong, in words; empty where nothing is.
    wrong: str = ""
    #: What NaN and infinities become, where that is not what torch makes of them.
    not_numbers: str = ""


@dataclass
class Probed:
    """What came of a program's operators."""

    guilt: Guilt | None = None
    #: By the name of the operator.
    not_numbers: dict[str, str] = field(default_factory=dict)


_Key = tuple[Any, ...]
#: From an operator to what torch takes it apart by, None where it stays whole.
Decomposition = Callable[[Any], Callable[..., Any] | None]
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
        if key not in _known:
            parts = parts or Parts(translated)
            try:
                tried = Trial(_best(choices), parts, program)
            except Exception:  # it takes what the example has, and not a tensor of ones
                _known[key] = Outcome()
            else:
                _known[key] = tried.outcome()
        outcome = _known[key]
        if outcome.not_numbers:
            found.not_numbers[operator_name(choices[0].node.target)] = outcome.not_numbers
        if outcome.wrong and found.guilt is None:
            found.guilt = Guilt(choices[0], outcome.wrong, choices[1:])
    return found


def _open(program: Program, model: bytes) -> Any:
    """A plain session where that is enough, which takes a tenth of the time of one of ours."""
    if not program.report.providers:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        except Exception:  # functions of the model may have operators of ours
            pass
    return program.open_session(model, threads=1)


def probe_decompositions(
    captured: torch.export.ExportedProgram, decomposition: Decomposition
) -> tuple[Any, str] | None:
    """The first operator of the model that torch takes apart wrongly, and how wrongly."""
    for _, node in _graph.calls(captured):
        apart = decomposition(node.target)
        if apart is None or not _can_be_tried(node):
            continue
        key = (apart, operator_name(node.target), *_all_alike(node))
        if key not in _known:
            _known[key] = _Taken(node, _Apart(node.target, decomposition)).outcome()
        if _known[key].wrong:
            return node.target, _known[key].wrong
    return None


class _Apart(_private.DispatchMode):  # type: ignore[no-untyped-call]
    """Runs an operator as torch takes it apart, down to what is taken apart no more."""

    def __init__(self, target: Any, decomposition: Decomposition) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._target = target
        self._decomposition = decomposition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self:
            return self._target(*args, **kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        apart = self._decomposition(func)
        if apart is None:
            return func(*args, **(kwargs or {}))
        with self:
            return apart(*args, **(kwargs or {}))


def _all_alike(node: torch.fx.Node) -> list[str]:
    return [_likeness(one) for one in (*node.args, *node.kwargs.items())]


def by_key(choices: Iterable[Choice], runtime: _Key) -> dict[_Key, list[Choice]]:
    """The choices that can be tried, those together that are alike but for sizes."""
    found: dict[_Key, list[Choice]] = {}
    for choice in choices:
        node = choice.node
        if choice.kind in (STANDARD, "function") and _can_be_tried(node):
            key = (choice.kind, operator_name(node.target), *runtime, *_all_alike(node))
            found.setdefault(key, []).append(choice)
    return found


def _likeness(argument: Any) -> str:
    if isinstance(argument, (list, tuple)):
        return str([_likeness(one) for one in argument])
    if not isinstance(argument, torch.fx.Node):
        return repr(argument)
    value = argument.meta["val"]
    return f"{value.dtype}, {[size == 1 for size in shape(value)]}"


@functools.cache
def _is_of_a_kind(target: Any) -> bool:
    """Whether an operator is elementwise, or reduces."""
    if not isinstance(target, _private.OpOverload):
        return False
    name = operator_name(target)
    is_reducing = torch.Tag.reduction in target.tags or name.partition(".")[0] in _REDUCING
    return name not in _COPYING and (_graph.is_pointwise(target) or is_reducing)


def _can_be_tried(node: torch.fx.Node) -> bool:
    if not _is_of_a_kind(node.target) or _graph.is_random(node):
        return False
    inputs = [one for node in node.all_input_nodes for one in tensors(node.meta.get("val"))]
    results = tensors(node.meta.get("val"))
    if not results or not inputs or len(inputs) < len(node.all_input_nodes):
        return False
    if not all(_is_known(one.dtype) for one in (*inputs, *results)):
        return False
    # What a number becomes that a type of integers has not, nobody says.
    loses = any(one.dtype.is_floating_point for one in inputs) and any(
        not one.dtype.is_floating_point and one.dtype != torch.bool for one in results
    )
    sizes = [math.prod(shape(one)) for one in inputs]
    return not loses and min(sizes) > 0 and max(sizes) <= _MOST_ELEMENTS


def _is_known(dtype: torch.dtype) -> bool:
    is_float = dtype.is_floating_point and dtype.itemsize > 1
    return is_float or dtype in (torch.bool, torch.int32, torch.int64)


def _best(choices: list[Choice]) -> Choice:
    """The one with the fewest elements of those that hold all numbers at once."""

    def size(choice: Choice) -> int:
        return max(math.prod(shape(one.meta["val"])) for one in choice.node.all_input_nodes)

    enough = [one for one in choices if size(one) >= len(EASY) ** 2]
    return min(enough, key=size) if enough else max(choices, key=size)


class _Comparison:
    """One operator in torch, and what is held against it."""

    def __init__(self, node: torch.fx.Node) -> None:
        self._node = node
        self._is_pointwise = _graph.is_pointwise(node.target)

    def outcome(self) -> Outcome:
        outcome = Outcome()
        for fills in _hard_numbers.numbers(self._node):
            outcome.wrong = self._difference(fills, finite=True)
            if outcome.wrong:
                return outcome
        for fills in _hard_numbers.not_numbers(self._node):
            outcome.not_numbers = outcome.not_numbers or self._difference(fills, finite=False)
        return outcome

    def _other(self, fills: Fills) -> list[torch.Tensor]:
        """What the other gives for the same numbers."""
        raise NotImplementedError

    def _wanted(self, result: Any) -> list[torch.Tensor]:
        return [plain(one) for one in tensors(result)]

    def _in_torch(self, fills: Fills, *, target: Any = None, disturb: bool = False) -> Any:
        def value(node: torch.fx.Node) -> Any:
            return _compare.disturb(fills[node]) if disturb else fills[node].clone()

        args, kwargs = torch.fx.node.map_arg((self._node.args, self._node.kwargs), value)
        call: Any = target or self._node.target
        return call(*args, **kwargs)

    def _difference(self, fills: Fills, *, finite: bool) -> str:
        """What is wrong with a run, in words."""
        try:
            wanted = self._wanted(self._in_torch(fills))
        except Exception:  # it takes no such numbers
            return ""
        try:
            got = self._other(fills)
        except Exception as error:
            lines = str(error).strip().splitlines()
            return f"it fails: {lines[0] if lines else type(error).__name__}"
        if _compare.are_surely_near(wanted, got):
            return ""
        if finite:
            holes = [_holes(one) for one in wanted]
            wanted, got = _filled_up(wanted, holes), _filled_up(got, holes)
        difference = _compare.difference(
            wanted,
            got,
            lambda: self._noise(fills, wanted),
            roundings=0 if self._is_pointwise else ROUNDINGS,
        )
        if not difference or not finite:
            return difference
        numbers = "0, ±1, ±10, ±100, large and small ones"
        return f"its result is wrong for numbers that the example has not ({numbers}): {difference}"

    def _noise(self, fills: Fills, wanted: list[torch.Tensor]) -> list[torch.Tensor]:
        others = self._wanted(self._in_torch(fills, disturb=True))
        return [
            torch.where(_holes(one), two, one) if one.is_floating_point() else one
            for one, two in zip(others, wanted, strict=True)
        ]


class Trial(_Comparison):
    """The ONNX nodes of an operator, in a session of their own."""

    def __init__(self, choice: Choice, parts: Parts, program: Program) -> None:
        super().__init__(choice.node)
        self._choice = choice
        self._sources = parts.sources(choice)
        fills = _hard_numbers.ones(choice.node)
        wanted, values = outputs_of(self._in_torch(fills), choice.outputs)
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

    def __init__(self, node: torch.fx.Node, apart: Callable[..., Any]) -> None:
        super().__init__(node)
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
