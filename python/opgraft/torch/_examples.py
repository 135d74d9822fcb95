"""The arguments that a program is verified with: those given, and others of a second size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from opgraft.torch import _private
from opgraft.torch._graph import calls, is_uninitialised
from opgraft.torch._kept import keeping
from opgraft.torch._random import keeping_random_state

#: What stands for no bound of a size.
MANY = 2**31


@dataclass
class Example:
    """Arguments of the model, and what it gives for them in torch."""

    what: str
    leaves: list[Any]  # all arguments, one after the other
    tree: Any  # the shape of (args, kwargs)
    wanted: list[Any]  # the results that are outputs of the program
    sizes: dict[str, int] = field(default_factory=dict)

    def describe(self, names: Mapping[str, str]) -> str:
        """In words, with the user's names of dimensions."""
        told = [f"{names.get(one, one)}={size}" for one, size in self.sizes.items()]
        sizes = ", ".join(dict.fromkeys(told))
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
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.no_grad(), keeping_random_state(), warnings.catch_warnings():
        if has_holes:
            warnings.simplefilter("ignore", UserWarning)  # where an algorithm is not deterministic
            torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warns)


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def output_values(program: torch.export.ExportedProgram, leaves: list[Any]) -> list[Any]:
    """Of the results of a program those that ONNX has too: no constants of Python."""
    places = _output_places(program)
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


def input_values(program: torch.export.ExportedProgram, leaves: list[Any]) -> list[Any]:
    """Of the arguments of a program those that are inputs in ONNX."""
    specs = [one for one in program.graph_signature.input_specs if one.kind is InputKind.USER_INPUT]
    return [
        leaf
        for leaf, spec in zip(leaves, specs, strict=True)
        if not isinstance(spec.arg, ConstantArgument)
    ]


def examples(
    model: Model,
    program: torch.export.ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Iterator[Example | str]:
    """The given arguments and, where sizes are symbols, others; or in words why there are none."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    yield Example("the given arguments", leaves, tree, model.results(leaves, tree))
    sizes = _sizes(program)
    if not sizes:
        return
    refusal = ""
    for changed in _other_sizes(sizes, program):
        try:
            others = _resized(program, leaves, changed)
            wanted = model.results(others, tree)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        sizes = {str(name): size for name, size in changed.items()}
        yield Example("other sizes", others, tree, wanted, sizes)
        return
    yield f"no second size that the model takes was found{f' ({refusal})' if refusal else ''}"


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


def _sizes(program: torch.export.ExportedProgram) -> dict[Any, int]:
    """The symbols in the shapes of the arguments, and the size that each has in the example."""
    found: dict[Any, int] = {}
    for example in traced_inputs(program):
        numbers = list(example.shape) if isinstance(example, torch.Tensor) else [example]
        for number in numbers:
            if isinstance(number, torch.SymInt):
                expression = _expression(number)
                if expression.is_Symbol and (hint := _private.hint(number)) is not None:
                    found[expression] = hint
    return found


def _other_sizes(
    sizes: Mapping[Any, int], program: torch.export.ExportedProgram
) -> Iterator[dict[Any, int]]:
    """Fewer first, since a part of good data is good data."""
    for times, plus in ((1, -1), (1, 1), (2, 0), (1, -2), (3, 0)):
        changed = {}
        for symbol, size in sizes.items():
            bounds = program.range_constraints.get(symbol)
            other = max(times * size + plus, 2)
            if bounds is not None:
                other = max(min(other, _bound(bounds.upper)), _bound(bounds.lower))
            changed[symbol] = other
        if changed != dict(sizes):
            yield changed


def _bound(number: Any) -> int:
    return int(number) if getattr(number, "is_Integer", isinstance(number, int)) else MANY


def _resized(
    program: torch.export.ExportedProgram, leaves: list[Any], changed: Mapping[Any, int]
) -> list[Any]:
    return [
        _resize(leaf, example, changed)
        for leaf, example in zip(leaves, traced_inputs(program), strict=True)
    ]


def _resize(leaf: Any, example: Any, changed: Mapping[Any, int]) -> Any:
    if isinstance(example, torch.SymInt):
        return int(_expression(example).subs(changed))
    if not isinstance(example, torch.Tensor):
        return leaf
    for axis, size in enumerate(example.shape):
        if not isinstance(size, torch.SymInt):
            continue
        leaf = with_length(leaf, axis, int(_expression(size).subs(changed)))
    return leaf


def with_length(leaf: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """What is there, from the start and over again: indices stay indices, probabilities so too."""
    if leaf.shape[axis] == 0:
        return leaf.new_zeros([*leaf.shape[:axis], length, *leaf.shape[axis + 1 :]])
    return leaf.index_select(axis, torch.arange(length) % leaf.shape[axis])
