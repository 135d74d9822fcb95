"""The sizes that `dynamic_shapes` leaves open, and those of them that the model fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch.export import Dim

from opgraft._base._errors import ModelError
from opgraft.torch import _private
from opgraft.torch._capture._arguments import bound_arguments
from opgraft.torch._capture._examples import constant_size, input_names, traced_inputs


@dataclass(frozen=True)
class Size:
    """A size that should be open."""

    position: int  # of the tensor in the flat list of arguments
    axis: int | None  # None for an argument that is a number itself
    parameter: str  # of the model
    name: str  # "" if none was given
    example: int | None = None  # its value in the given arguments


@dataclass(frozen=True)
class Fixed:
    """A size that is a constant in the captured program."""

    size: Size
    input: str
    number: int
    #: The lines of the model that fixed it, where they are known.
    because: str = ""

    def __str__(self) -> str:
        why = f", fixed by {self.because}" if self.because else ""
        return f"{_title(self.size, self.input)} is always {self.number}{why}"

    def write(self, inputs: Iterable[ir.Value]) -> None:
        """Writes the number into the shape of the ONNX input, which may still have a symbol."""
        for one in inputs:
            if one.name == self.input and one.shape is not None and self.size.axis is not None:
                one.shape[self.size.axis] = self.number


def _title(size: Size, input: str) -> str:
    axis = "" if size.axis is None else f", axis {size.axis}"
    return f"input '{input}'{axis}" + (f" ('{size.name}')" if size.name else "")


def warning(fixed: Sequence[Fixed]) -> str:
    return (
        "dynamic_shapes leaves sizes open that the model fixes; they are constants in the exported "
        f"model: {'; '.join(map(str, fixed))}. Fix: change the model so that it accepts other "
        "sizes (such as view(x.shape[0], -1) for view(4, -1)), or remove them from dynamic_shapes"
    )


#: Maps an open size and its entry in `dynamic_shapes` to a new entry.
Change = Callable[[Size, Any], Any]


class OpenSizes:
    """The open sizes in `dynamic_shapes`, for the arguments that a model is captured with. Raises a
    ModelError if they do not fit the arguments."""

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
    ) -> None:
        self._model = model
        self._args = args
        self._kwargs = kwargs
        self._shapes = shapes
        #: Each open size and its entry in `dynamic_shapes`.
        self.asked: list[tuple[Size, Any]] = []
        self._changed(self._note)
        _check_names([size for size, _ in self.asked])

    def _note(self, size: Size, dim: Any) -> Any:
        self.asked.append((size, dim))
        return dim

    def changed(self, new: Mapping[Size, Any]) -> Any:
        """A copy of the shapes with other entries for some sizes."""
        return self._changed(lambda size, dim: new.get(size, dim))

    def _changed(self, change: Change) -> Any:
        shapes = self._shapes
        if shapes is None:
            return None
        args, kwargs = tuple(self._args), dict(self._kwargs)
        if hasattr(shapes, "dynamic_shapes"):  # a builder, such as torch.export.ShapesCollection
            shapes = shapes.dynamic_shapes(self._model, args, kwargs)
        forward = getattr(self._model, "forward", self._model)
        if isinstance(self._model, torch.export.ExportedProgram):
            forward = self._model.module().forward
        given = bound_arguments(forward, args, kwargs)
        walk = _Walk(change)
        if isinstance(shapes, Mapping):
            return {name: walk.through(one, shapes.get(name), name) for name, one in given.items()}
        pairs = zip(given.items(), shapes, strict=False)
        return type(shapes)([walk.through(one, shape, name) for (name, one), shape in pairs])

    def fixed_in(self, program: torch.export.ExportedProgram) -> list[Fixed]:
        """The sizes that are constants in a program."""
        found = []
        for size, _, name, traced in self._traced(program):
            constant = constant_size(traced, program)
            if constant is not None:
                found.append(Fixed(size, name, constant))
        return found

    def _traced(
        self, program: torch.export.ExportedProgram
    ) -> Iterator[tuple[Size, Any, str, Any]]:
        """Each size, its entry, the input's name, and the size in a program."""
        inputs = list(zip(input_names(program), traced_inputs(program), strict=True))
        for size, dim in self.asked:
            if size.position < len(inputs):
                name, traced = inputs[size.position]
                is_tensor = size.axis is not None and isinstance(traced, torch.Tensor)
                yield size, dim, name, traced.shape[size.axis] if is_tensor else traced


def _check_names(asked: Sequence[Size]) -> None:
    """Raises a ModelError if one name is used for different sizes."""
    first: dict[str, Size] = {}
    for size in asked:
        other = first.setdefault(size.name, size)
        if size.name and other.example != size.example:
            raise ModelError(
                f"dynamic_shapes: '{size.name}' names different sizes: axis {other.axis} of "
                f"input '{other.parameter}' is {other.example}, axis {size.axis} of input "
                f"'{size.parameter}' is {size.example}. Fix: give them two names"
            )


class _Walk:
    """Walks through arguments and their entries in `dynamic_shapes`."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._position = 0

    def through(self, value: Any, shape: Any, parameter: str) -> Any:
        children = _children(value)
        if children is None:
            position = self._position
            self._position += 1
            return self._leaf(value, shape, parameter, position)
        if isinstance(shape, Mapping) and isinstance(value, Mapping):
            return {key: self.through(one, shape.get(key), parameter) for key, one in value.items()}
        given = list(shape) if isinstance(shape, (list, tuple)) else [None] * len(children)
        new = [self.through(one, own, parameter) for one, own in zip(children, given, strict=False)]
        return shape if shape is None else _like(shape, new)

    def _leaf(self, value: Any, shape: Any, parameter: str, position: int) -> Any:
        def new(axis: int | None, dim: Any) -> Any:
            if not _is_open(dim):
                return dim
            example = value if axis is None else value.shape[axis]
            return self._change(Size(position, axis, parameter, _name(dim), example), dim)

        if not isinstance(value, torch.Tensor):
            return new(None, shape)
        pairs: Sequence[tuple[int, Any]] = ()
        if isinstance(shape, Mapping):
            pairs = list(shape.items())
        elif isinstance(shape, (list, tuple)):
            pairs = list(enumerate(shape))
        for axis, _ in pairs:
            if axis not in range(value.dim()):
                raise ModelError(
                    f"dynamic_shapes: input '{parameter}' has no axis {axis}: it has {value.dim()} "
                    "axes, counted from 0"
                )
        dims = {axis: new(axis, dim) for axis, dim in pairs}
        if isinstance(shape, Mapping):
            return dims
        return _like(shape, list(dims.values())) if isinstance(shape, (list, tuple)) else shape


def _like(shape: Any, new: list[Any]) -> Any:
    if hasattr(shape, "_fields"):  # a namedtuple
        return type(shape)(*new)
    return tuple(new) if isinstance(shape, tuple) else new


def _children(value: Any) -> list[Any] | None:
    """The items of a list, a dict or another structure that torch knows; None for a leaf."""
    children, _ = _private.flatten_once(value)
    return None if len(children) == 1 and children[0] is value else children


def _is_open(dim: Any) -> bool:
    return isinstance(dim, (str, Dim)) or _private.is_open_hint(dim)


def _name(dim: Any) -> str:
    return dim if isinstance(dim, str) else getattr(dim, "__name__", "")


def has_dims(shapes: Any) -> bool:
    """Whether some size is a torch.export.Dim, whose limits torch enforces."""
    return any(isinstance(one, Dim) for one in _leaves(shapes))


def _leaves(shapes: Any) -> Iterator[Any]:
    if isinstance(shapes, (list, tuple)):
        for one in shapes:
            yield from _leaves(one)
    elif isinstance(shapes, Mapping):
        for one in shapes.values():
            yield from _leaves(one)
    else:
        yield shapes
