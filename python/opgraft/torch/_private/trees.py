"""Nested arguments (torch's pytrees), and tensors without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opgraft.torch._private.lookup import moved, private


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Returns the leaves and the structure of nested lists, tuples, dicts and so on. None is a
    leaf."""
    leaves, shape = private("torch.utils._pytree", "tree_flatten")(tree)
    return leaves, shape


def unflatten(leaves: Sequence[Any], shape: Any) -> Any:
    return private("torch.utils._pytree", "tree_unflatten")(list(leaves), shape)


def flatten_once(tree: Any) -> tuple[list[Any], Any]:
    """Returns a tree's children, which may be trees, and its structure. A leaf is its own child."""
    children, shape = private("torch.utils._pytree", "tree_flatten")(
        tree, is_leaf=lambda one: one is not tree
    )
    return children, shape


def paths(tree: Any) -> list[list[str]]:
    """Returns the indices and keys that lead to each leaf of a tree."""
    found, _ = private("torch.utils._pytree", "tree_flatten_with_path")(tree)
    return [[_key(one) for one in path] for path, _ in found]


def _key(entry: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(entry, name):
            return str(getattr(entry, name))
    return str(entry)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    return private("torch.utils._pytree", "tree_map")(function, tree)


def split_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Takes a dict at the end of the arguments as the keyword arguments, like torch.onnx.export."""
    if not kwargs and args and isinstance(args[-1], dict):
        return tuple(args[:-1]), args[-1]
    return tuple(args), kwargs


def tree_leaves(tree: Any) -> list[Any]:
    leaves: list[Any] = private("torch.utils._pytree", "tree_leaves")(tree)
    return leaves


def flat_arguments(
    program: torch.export.ExportedProgram, args: Any, kwargs: dict[str, Any]
) -> list[Any] | None:
    """Returns the leaves of the arguments in the program's order, or None if their structure
    differs from the program's."""
    return leaves_like(program.call_spec.in_spec, args, kwargs)


def leaves_like(expected: Any, args: Any, kwargs: dict[str, Any]) -> list[Any] | None:
    """Returns the leaves of arguments, or None if their structure is not `expected`."""
    try:
        names = expected.children()[1].context
    except AttributeError as error:
        raise moved("TreeSpec.children") from error
    if set(names or ()) != set(kwargs):
        return None
    in_order = {name: kwargs[name] for name in names or ()}
    leaves, structure = private("torch.utils._pytree", "tree_flatten")((args, in_order))
    return leaves if structure == expected else None


def arguments_text(structure: Any) -> str:
    """Returns a structure of arguments as text, with "*" for each tensor or number:
    "(*, {'a': *})"."""
    stars = [_Star() for _ in range(structure.num_leaves)]
    args, kwargs = unflatten(stars, structure)
    named = [f"{name}={value}" for name, value in kwargs.items()]
    return f"({', '.join([*map(str, args), *named])})"


class _Star:
    def __repr__(self) -> str:
        return "*"


def fake_mode() -> Any:
    """Returns a mode in which tensors have no data."""
    environment = private("torch.fx.experimental.symbolic_shapes", "ShapeEnv")(
        allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False
    )
    made = private("torch._subclasses.fake_tensor", "FakeTensorMode")
    return made(allow_non_fake_inputs=True, shape_env=environment)


def is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, private("torch._subclasses.fake_tensor", "FakeTensor"))


def has_fakes(tree: Any) -> bool:
    """Whether any tensor has no data."""
    tensors = [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]
    return any(is_fake(one) or one.is_meta for one in tensors)
