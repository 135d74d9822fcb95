"""The arguments that a program is verified with: those given, and others of other sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from opgraft.torch import _private
from opgraft.torch._capture._kept import keeping
from opgraft.torch._graphs._graph import calls, is_uninitialised
from opgraft.torch._graphs._random import keeping_random_state

#: The upper bound of a size that has none.
MANY = 2**31


@dataclass(eq=False)  # examples are compared by identity, not by their tensors
class Example:
    """Arguments of the model, and its results for them in torch."""

    what: str
    leaves: list[Any]  # all arguments, as a flat list
    tree: Any  # the structure of (args, kwargs)
    wanted: list[Any]  # the results that are outputs of the program
    sizes: dict[str, int] = field(default_factory=dict)
    #: Whether the program may be wrong for these sizes, which is then reported.
    is_edge: bool = False

    def describe(self) -> str:
        """A description, with the sizes."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.what} ({sizes})" if sizes else self.what

    def run_by(self, program: Callable[..., Any]) -> tuple[Any, str]:
        """Runs an exported program with it. Returns the results, and a message if that fails."""
        args, kwargs = _private.unflatten(self.leaves, self.tree)
        try:
            with keeping_random_state():  # ATen nodes use the random state of this process
                return program(*args, **kwargs), ""
        except Exception as error:
            lines = str(error).strip().splitlines()
            return None, f"it fails in ONNX Runtime: {lines[0] if lines else type(error).__name__}"


class OtherOutputs(Exception):
    """The model returns more or fewer results than the program."""


class Model:
    """The model in torch, as the reference."""

    def __init__(self, model: Any, program: torch.export.ExportedProgram) -> None:
        self._program = program
        self._call = program.module() if isinstance(model, torch.export.ExportedProgram) else model

    def results(self, leaves: list[Any], tree: Any) -> list[Any]:
        """The results of the model that are outputs of the program."""
        return output_values(self._program, results_of(self._call, leaves, tree, self._program))


def results_of(
    model: torch.nn.Module,
    leaves: list[Any],
    tree: Any,
    program: torch.export.ExportedProgram | None = None,
) -> list[Any]:
    """The results of a model, as a flat list, when it is called as for inference: without gradients
    and outside of an export. Changes to its arguments, to its state and to the random state of this
    process are undone."""
    args, kwargs = _private.unflatten([_copy(leaf) for leaf in leaves], tree)
    with keeping(model), repeatable(program), _private.in_use():
        # Copies, since a result may be part of the model's state.
        return [_copy(one) for one in _private.flatten(model(*args, **kwargs))[0]]


@contextmanager
def repeatable(program: torch.export.ExportedProgram | None) -> Iterator[None]:
    """Turns gradients off and uses a random state of its own. Fills uninitialised memory with NaN
    (integers: the largest), so that it does not hold the expected values by chance."""
    has_holes = program is not None and any(
        is_uninitialised(node.target) for _, node in calls(program)
    )
    with torch.no_grad(), keeping_random_state():
        if not has_holes:
            yield
            return
        with warnings.catch_warnings(), _private.deterministic():
            warnings.simplefilter("ignore", UserWarning)  # that an algorithm is not deterministic
            yield


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def output_values(program: torch.export.ExportedProgram, leaves: list[Any]) -> list[Any]:
    """The results of a program that are also outputs in ONNX: all but Python constants."""
    places = _output_places(program)
    if len(places) != len(leaves):
        raise OtherOutputs(f"the model returns {len(leaves)} results, not {len(places)}")
    return [leaf for leaf, is_output in zip(leaves, places, strict=True) if is_output]


def has_outputs(program: torch.export.ExportedProgram) -> bool:
    """Whether a program has results that are outputs in ONNX."""
    return any(_output_places(program))


def _output_places(program: torch.export.ExportedProgram) -> list[bool]:
    """For each result of a program, whether it is an output in ONNX."""
    return [
        not isinstance(one.arg, ConstantArgument)
        for one in program.graph_signature.output_specs
        if one.kind is OutputKind.USER_OUTPUT
    ]


def fixed_values(program: torch.export.ExportedProgram) -> list[tuple[str, Any] | None]:
    """For each argument of a program, its name and value if it is a constant in ONNX, or None if it
    is an input."""
    return [
        (one.arg.name, one.arg.value) if isinstance(one.arg, ConstantArgument) else None
        for one in program.graph_signature.input_specs
        if one.kind is InputKind.USER_INPUT
    ]


def examples(
    model: Model,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sizes: Sizes,
    is_held: Callable[[Example], bool],
) -> Iterator[Example | str]:
    """Yields the given arguments and, if sizes are open, arguments of other sizes and of size 1; or
    a message if no other sizes were found. `is_held`: whether the graph itself is right for an
    example."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    yield Example("the given arguments", leaves, tree, model.results(leaves, tree))
    if not sizes.own:
        return
    refusal = ""
    for numbers in sizes.others():
        found = resized(model, leaves, tree, sizes, numbers)
        if isinstance(found, Example):
            yield found
            break
        refusal = found
    else:
        yield f"found no second size that the model accepts{f' ({refusal})' if refusal else ''}"
    for place, numbers in enumerate(sizes.ones()):
        found = resized(model, leaves, tree, sizes, numbers)
        if isinstance(found, Example) and is_held(found):
            found.is_edge = True
            yield found
            if place == 0:  # all sizes are 1
                return


def resized(
    model: Model, leaves: list[Any], tree: Any, sizes: Sizes, numbers: dict[str, int]
) -> Example | str:
    """The example with other sizes, or a message that says why the model rejects them."""
    try:
        others = sizes.resized(leaves, numbers)
        if not is_small(others, leaves):
            return "it would be too large to try"
        wanted = model.results(others, tree)
    except OtherOutputs:
        wanted = []
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return Example("other sizes", others, tree, wanted, dict(numbers))


class Sizes(Protocol):
    """Open sizes to try a program with (`_trial_sizes.TrialSizes`)."""

    own: dict[str, int]

    def others(self) -> Iterator[dict[str, int]]: ...
    def ones(self) -> Iterator[dict[str, int]]: ...
    def resized(self, leaves: Sequence[Any], numbers: dict[str, int]) -> list[Any]: ...


def input_names(program: torch.export.ExportedProgram) -> list[str]:
    """The names of the arguments in the program."""
    specs = program.graph_signature.input_specs
    return [str(one.arg.name) for one in specs if one.kind is InputKind.USER_INPUT]


def traced_inputs(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """The value of each argument in the capture: a tensor with symbolic sizes, or a number."""
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            node = by_name.get(spec.arg.name)
            yield None if node is None else node.meta.get("val")


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def constant_size(size: Any, program: torch.export.ExportedProgram) -> int | None:
    """The size, if the program accepts only that one; torch may still have a symbol for it."""
    expression = _expression(size)
    if not isinstance(size, torch.SymInt):
        return size if isinstance(size, int) else None
    ranges = program.range_constraints.items()
    known = {symbol: range.lower for symbol, range in ranges if range.lower == range.upper}
    expression = expression.subs(known)
    return int(expression) if expression.is_Integer else None


def size_bounds(size: Any, program: torch.export.ExportedProgram) -> tuple[int, int]:
    """The smallest and the largest size that a program accepts; 0 and MANY if unlimited."""
    bounds = None
    if isinstance(size, torch.SymInt):
        bounds = program.range_constraints.get(_expression(size))
    return (0, MANY) if bounds is None else (_bound(bounds.lower), min(_bound(bounds.upper), MANY))


def _bound(number: Any) -> int:
    return int(number) if getattr(number, "is_Integer", isinstance(number, int)) else MANY


#: Arguments of more elements than the first, and than this multiple of the example's, are not made.
_MOST_ELEMENTS, _MOST_TIMES = 2**16, 4


def is_small(leaves: Sequence[Any], example: Sequence[Any]) -> bool:
    """Whether arguments are small enough to be tried."""
    counts = [
        sum(one.numel() for one in given if isinstance(one, torch.Tensor))
        for given in (leaves, example)
    ]
    return counts[0] <= max(_MOST_ELEMENTS, _MOST_TIMES * counts[1])


def with_length(leaf: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """Repeats or cuts a tensor along an axis: indices stay valid, and so do probabilities."""
    if leaf.shape[axis] == 0:
        return leaf.new_zeros([*leaf.shape[:axis], length, *leaf.shape[axis + 1 :]])
    return leaf.index_select(axis, torch.arange(length) % leaf.shape[axis])
