"""The arguments that a program is verified with: those given, and others of a second size."""

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

#: What stands for no bound of a size.
MANY = 2**31


@dataclass(eq=False)  # tensors are not compared: one example is that one
class Example:
    """Arguments of the model, and what it gives for them in torch."""

    what: str
    leaves: list[Any]  # all arguments, one after the other
    tree: Any  # the shape of (args, kwargs)
    wanted: list[Any]  # the results that are outputs of the program
    sizes: dict[str, int] = field(default_factory=dict)
    #: Whether it may be that the program is not for such sizes, which is told then.
    is_edge: bool = False

    def describe(self) -> str:
        """In words, with the sizes."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.what} ({sizes})" if sizes else self.what

    def run_by(self, program: Callable[..., Any]) -> tuple[Any, str]:
        """What an exported program gives for it; where that fails, what is wrong, in words."""
        args, kwargs = _private.unflatten(self.leaves, self.tree)
        try:
            with keeping_random_state():  # ATen nodes draw from the process's own numbers
                return program(*args, **kwargs), ""
        except Exception as error:
            lines = str(error).strip().splitlines()
            return None, f"it fails in ONNX Runtime: {lines[0] if lines else type(error).__name__}"


class OtherOutputs(Exception):
    """The model gives more results, or fewer, than the program."""


class Model:
    """The model in torch, as the reference."""

    def __init__(self, model: Any, program: torch.export.ExportedProgram) -> None:
        self._program = program
        self._call = program.module() if isinstance(model, torch.export.ExportedProgram) else model

    def results(self, leaves: list[Any], tree: Any) -> list[Any]:
        """What the model gives, as far as it is an output of the program."""
        return output_values(self._program, results_of(self._call, leaves, tree, self._program))


def results_of(
    model: torch.nn.Module,
    leaves: list[Any],
    tree: Any,
    program: torch.export.ExportedProgram | None = None,
) -> list[Any]:
    """All that a model gives when it is used, without gradients and in no export, one after the
    other. Nothing that it does to its arguments, to what it keeps or to the random numbers of this
    process lasts."""
    args, kwargs = _private.unflatten([_copy(leaf) for leaf in leaves], tree)
    with keeping(model), repeatable(program), _private.in_use():
        # Copies: what it gives may be what it keeps.
        return [_copy(one) for one in _private.flatten(model(*args, **kwargs))[0]]


@contextmanager
def repeatable(program: torch.export.ExportedProgram | None) -> Iterator[None]:
    """Without gradients, with random numbers of its own; and what memory holds that nobody wrote is
    no number, rather than by chance what is expected."""
    has_holes = program is not None and any(
        is_uninitialised(node.target) for _, node in calls(program)
    )
    with torch.no_grad(), keeping_random_state():
        if not has_holes:
            yield
            return
        with warnings.catch_warnings(), _private.deterministic():
            warnings.simplefilter("ignore", UserWarning)  # where an algorithm is not deterministic
            yield


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def output_values(program: torch.export.ExportedProgram, leaves: list[Any]) -> list[Any]:
    """Of the results of a program those that ONNX has too: no constants of Python."""
    places = _output_places(program)
    if len(places) != len(leaves):
        raise OtherOutputs(f"the model gives {len(leaves)} results, not {len(places)}")
    return [leaf for leaf, is_output in zip(leaves, places, strict=True) if is_output]


def has_outputs(program: torch.export.ExportedProgram) -> bool:
    """Whether ONNX has any of its results."""
    return any(_output_places(program))


def _output_places(program: torch.export.ExportedProgram) -> list[bool]:
    """Of each result of a program whether ONNX has it."""
    return [
        not isinstance(one.arg, ConstantArgument)
        for one in program.graph_signature.output_specs
        if one.kind is OutputKind.USER_OUTPUT
    ]


def fixed_values(program: torch.export.ExportedProgram) -> list[tuple[str, Any] | None]:
    """Of each argument of a program its name and value, where it is a constant in ONNX; None where
    it is an input."""
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
    """The given arguments and, where sizes are open, larger ones, or others, and such of 1; or in
    words why there are none. `is_held`: whether the graph itself is right for an example."""
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
        yield f"no second size that the model takes was found{f' ({refusal})' if refusal else ''}"
    for place, numbers in enumerate(sizes.ones()):
        found = resized(model, leaves, tree, sizes, numbers)
        if isinstance(found, Example) and is_held(found):
            found.is_edge = True
            yield found
            if place == 0:  # of all sizes
                return


def resized(
    model: Model, leaves: list[Any], tree: Any, sizes: Sizes, numbers: dict[str, int]
) -> Example | str:
    """The example with other sizes; in words why the model takes none such."""
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
    """Of each argument the name that it has in the program."""
    specs = program.graph_signature.input_specs
    return [str(one.arg.name) for one in specs if one.kind is InputKind.USER_INPUT]


def traced_inputs(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Of each argument what it is while tracing: a tensor with symbols in its shape, a number."""
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            node = by_name.get(spec.arg.name)
            yield None if node is None else node.meta.get("val")


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def constant_size(size: Any, program: torch.export.ExportedProgram) -> int | None:
    """The size, where the program takes no other; torch may keep a symbol for it all the same."""
    expression = _expression(size)
    if not isinstance(size, torch.SymInt):
        return size if isinstance(size, int) else None
    ranges = program.range_constraints.items()
    known = {symbol: range.lower for symbol, range in ranges if range.lower == range.upper}
    expression = expression.subs(known)
    return int(expression) if expression.is_Integer else None


def size_bounds(size: Any, program: torch.export.ExportedProgram) -> tuple[int, int]:
    """The least and the most that a program takes; 0 and MANY where it says nothing."""
    bounds = None
    if isinstance(size, torch.SymInt):
        bounds = program.range_constraints.get(_expression(size))
    return (0, MANY) if bounds is None else (_bound(bounds.lower), min(_bound(bounds.upper), MANY))


def _bound(number: Any) -> int:
    return int(number) if getattr(number, "is_Integer", isinstance(number, int)) else MANY


#: Of larger arguments than these, and than the example's, none are made.
_MOST_ELEMENTS, _MOST_TIMES = 2**16, 4


def is_small(leaves: Sequence[Any], example: Sequence[Any]) -> bool:
    """Whether arguments are no larger than what may be made of the example's."""
    counts = [
        sum(one.numel() for one in given if isinstance(one, torch.Tensor))
        for given in (leaves, example)
    ]
    return counts[0] <= max(_MOST_ELEMENTS, _MOST_TIMES * counts[1])


def with_length(leaf: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """What is there, from the start and over again: indices stay indices, probabilities so too."""
    if leaf.shape[axis] == 0:
        return leaf.new_zeros([*leaf.shape[:axis], length, *leaf.shape[axis + 1 :]])
    return leaf.index_select(axis, torch.arange(length) % leaf.shape[axis])
