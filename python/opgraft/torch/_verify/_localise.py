"""Finds the operator whose translation is wrong, by running each translation alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch.export.graph_signature import OutputKind

from opgraft.torch import _private
from opgraft.torch._capture._examples import output_values, repeatable
from opgraft.torch._graphs import _graph
from opgraft.torch._graphs._bodies import Body, Branch, bodies
from opgraft.torch._graphs._random import keeping_random_state
from opgraft.torch._program._dispatch import Choice, Translated
from opgraft.torch._verify import _rounding
from opgraft.torch._verify._nearby import shifted
from opgraft.torch._verify._part import (
    Open,
    Parts,
    Source,
    as_array,
    as_tensors,
    flattened,
    outputs_of,
)
from opgraft.torch._verify._rounding import plain

#: A change to each input of an operator.
_Change = Callable[[Any], Any]
#: The tolerance, in roundings of the largest element, for an operator that computes each element
#: from many.
ROUNDINGS = 10


@dataclass
class Guilt:
    """A node with different results in ONNX and in torch, for the same inputs."""

    choice: Choice
    reason: str
    #: Other nodes for which the same is true.
    others: Sequence[Choice] = ()


def find_guilty(
    translated: Translated,
    leaves: Sequence[Any],
    open_session: Open,
    progress: Callable[[float], None] = lambda share: None,
    branches: dict[str, Branch] | None = None,
    undecided: list[str] | None = None,
    opset: int = 0,
) -> Guilt | None:
    """Runs the program in torch, node by node, and the ONNX nodes of each with the same inputs.

    The first that differs, or that ONNX Runtime refuses, is guilty. Of random operators, only types
    and shapes are compared. Bodies of control flow are checked in the same way, including those
    that are not called with these inputs; `branches` receives the outcome of each. `undecided`
    receives the names of operators whose results depend on rounding, here and at nearby numbers.
    `opset` is that of the finished program, if it matters: the kernels of a runtime depend on it.
    """
    parts = Parts(translated, opset)
    court = _Court(
        translated,
        parts,
        open_session,
        progress,
        {} if branches is None else branches,
        [] if undecided is None else undecided,
    )
    trial = _Trial(court, translated.decomposed.graph_module)
    try:
        with torch.no_grad(), keeping_random_state():
            trial.run(*_graph.all_inputs(translated.decomposed, leaves))
    except _Found as found:
        return found.guilt
    return None


class _Unchecked(torch.fx.Interpreter):
    """Runs a graph without its assertions, as ONNX does."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if _graph.operator_name(target).startswith("aten::_assert_"):
            return None
        return super().call_function(target, args, kwargs)


def run_in_torch(
    program: torch.export.ExportedProgram, leaves: Sequence[Any], *, is_checked: bool = True
) -> list[Any]:
    """Returns the results of a program in torch that the ONNX model has too. `is_checked`: its
    assertions are checked."""
    interpreter = torch.fx.Interpreter if is_checked else _Unchecked
    with repeatable(program):
        results = interpreter(program.graph_module).run(*_graph.all_inputs(program, leaves))
    specs = program.graph_signature.output_specs
    users = [
        one for one, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT
    ]
    return output_values(program, users)


class _Found(Exception):
    """Ends the run, because a guilty node has been found."""

    def __init__(self, guilt: Guilt) -> None:
        super().__init__(guilt.reason)
        self.guilt = guilt


class _Court:
    """State that the trials of a program and of its bodies share."""

    def __init__(
        self,
        translated: Translated,
        parts: Parts,
        open_session: Open,
        progress: Callable[[float], None],
        branches: dict[str, Branch],
        undecided: list[str],
    ) -> None:
        self.choices = translated.choices
        self.parts = parts
        self.open = open_session
        self.branches = branches
        self.undecided = undecided
        self._progress = progress
        self._done = 0

    def proceed(self) -> None:
        self._done += 1
        self._progress(min(self._done / len(self.choices), 1.0))


class _Trial(torch.fx.Interpreter):
    """Checks one graph: that of the program, or of a body."""

    def __init__(self, court: _Court, module: torch.fx.GraphModule, path: str = "") -> None:
        super().__init__(module)
        self._court = court
        self._path = path

    def run_node(self, n: torch.fx.Node) -> Any:
        self._try_bodies(n, only_first=True)
        choice = self._court.choices.get(n)
        try:
            result = super().run_node(n)
        except _Found:
            raise
        except Exception as error:  # no fault in a body: its real inputs may be others
            if choice is None or self._path:
                raise
            lines = str(error).strip().splitlines() or [""]
            said = f"torch cannot run its own decomposition: {type(error).__name__}: {lines[0]}"
            raise _Found(Guilt(choice, said)) from error
        if choice is not None:
            self._court.proceed()
            reason = self._check(choice, result)
            if reason:
                self._try_bodies(n, only_first=False)  # the cause may be in a later loop step
                raise _Found(Guilt(choice, reason))
        return result

    def _try_bodies(self, node: torch.fx.Node, *, only_first: bool) -> None:
        if node.op != "call_function":
            return
        seen: set[str] = set()
        for body in bodies(node, self.fetch_args_kwargs_from_env(node)[0]):
            if only_first and body.name in seen:
                return
            seen.add(body.name)
            self._try_body(body)

    def _try_body(self, body: Body) -> None:
        path = f"{self._path}.{body.name}" if self._path else body.name
        branch = self._court.branches.setdefault(path, Branch(body.node, path))
        is_taken = body.is_taken and self._is_taken()
        branch.is_taken = branch.is_taken or is_taken
        try:
            with keeping_random_state():
                _Trial(self._court, body.module, path).run(*body.inputs)
        except _Found:
            raise
        except Exception as error:  # a body that is really called raises again in the graph's run
            branch.error = f"{type(error).__name__}: {error}".splitlines()[0]

    def _is_taken(self) -> bool:
        """Whether the body of this trial is called."""
        return not self._path or self._court.branches[self._path].is_taken

    def _check(self, choice: Choice, result: Any) -> str:
        wanted, values = outputs_of(_as_onnx(result), choice.outputs)
        sources = self._court.parts.sources(choice)
        pairs = list(zip(wanted, values, strict=True))
        # Inputs that are passed on unchanged need no run.
        passed = [(one, self._fetch(sources[value])) for one, value in pairs if value in sources]
        reason = _rounding.difference(
            flattened(one for one, _ in passed), flattened(one for _, one in passed)
        )
        if reason:
            return f"its result is wrong: {reason}"
        wanted = [one for one, value in pairs if value not in sources]
        values = [value for value in values if value not in sources]
        if not values:
            return ""
        feed, nodes = self._court.parts.inputs(choice, sources, values, self._fetch)
        model = self._court.parts.build(nodes, feed, values, wanted)
        try:
            session = self._court.open(model.SerializeToString())
            got = _run(session, feed)
        except Exception as error:
            lines = str(error).strip().splitlines()
            return f"it fails in ONNX Runtime: {lines[0] if lines else type(error).__name__}"
        wanted = [plain(one) for one in flattened(wanted)]
        target = choice.node.target
        if _graph.is_random(choice.node) or _graph.is_uninitialised(target):
            wanted, got = [_blank(one) for one in wanted], [_blank(one) for one in got]

        def compare(wanted: list[Any], got: list[Any], where: _Change) -> _rounding.Comparison:
            return _rounding.compare(
                wanted,
                got,
                lambda: self._results(choice, sources, lambda one: _rounding.disturb(where(one))),
                roundings=0 if _graph.is_pointwise(target) else ROUNDINGS,
            )

        found = compare(wanted, got, lambda one: one)
        reason = found.problem
        is_decided = found.is_decided
        for each in (True, False) if found.excused and not reason else ():
            where = functools.partial(shifted, each=each)
            try:
                feed, _ = self._court.parts.inputs(
                    choice, sources, values, functools.partial(self._fetch, change=where)
                )
                near = self._results(choice, sources, where)
                got = _run(session, feed)
            except Exception:  # the operator may not take these numbers
                continue
            found = compare([plain(one) for one in near], got, where)
            reason = reason or found.problem
            is_decided |= found.is_decided
        if not is_decided:
            self._court.undecided.append(_graph.operator_name(target))
        return f"its result is wrong: {reason}" if reason else ""

    def _results(self, choice: Choice, sources: Collection[ir.Value], change: _Change) -> list[Any]:
        """Returns the operator's results in torch with changed inputs."""
        args, kwargs = self.fetch_args_kwargs_from_env(choice.node)
        args, kwargs = _private.tree_map(change, (args, kwargs))
        result = choice.node.target(*args, **kwargs)  # type: ignore[operator]
        pairs = zip(*outputs_of(_as_onnx(result), choice.outputs), strict=True)
        return flattened(one for one, value in pairs if value not in sources)

    def _fetch(self, source: Source, change: _Change | None = None) -> Any:
        node, place = source
        value = self.env[node] if place is None else self.env[node][place]
        return _as_onnx(value if change is None else _private.tree_map(change, value))


def _run(session: Any, feed: Mapping[str, Any]) -> list[torch.Tensor]:
    arrays = session.run(None, {name: as_array(value) for name, value in feed.items()})
    return [one for array in arrays for one in as_tensors(array)]


def _as_onnx(value: Any) -> Any:
    """Converts a Python float to a float32 tensor, as torch's exporter does."""
    return torch.tensor(value, dtype=torch.float32) if isinstance(value, float) else value


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor)
