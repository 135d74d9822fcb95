"""Checks the arguments of `opgraft.torch.export` before the export begins."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from opgraft._base._errors import Error, ModelError
from opgraft.torch import _private
from opgraft.torch._capture._examples import has_outputs
from opgraft.torch._rungs import _ladder

#: Arguments of torch.onnx.export that are not supported, and what to do instead.
_REFUSED = {
    "dynamic_axes": "give dynamic_shapes, such as dynamic_shapes=({0: 'batch'},)",
    "report": "program.report is always available",
    "profile": "use a profiler",
    "dump_exported_program": "save program.exported_program",
    "artifacts_dir": "only the model is written",
    "export_params": "program.save(path, include_initializers=False)",
    "keep_initializers_as_inputs": "program.save(path, keep_initializers_as_inputs=True)",
    "training": "call model.eval() or model.train() before the export",
}


def refuse(others: Mapping[str, Any]) -> None:
    """Raises a TypeError for arguments that are unknown, or that only torch.onnx.export has."""
    others = {name: value for name, value in others.items() if name != "verbose"}
    if isinstance(others.get("dynamo"), bool):
        others.pop("dynamo")
    for name in others:
        instead = _REFUSED.get(name)
        raise TypeError(
            f"opgraft.torch.export has no argument '{name}'" + (f": {instead}" if instead else "")
        )


def kinds(fallback: str | Collection[str]) -> tuple[str, ...]:
    """The rungs that are allowed."""
    if fallback == "auto":
        return _ladder.KINDS
    if fallback == "none":
        return ()
    known = ", ".join(f'"{kind}"' for kind in _ladder.KINDS)
    expected = f'"auto", "none", {known}, or a list of them'
    if not isinstance(fallback, Collection):
        raise TypeError(f"fallback: expected {expected}, not {fallback!r}")
    given = [fallback] if isinstance(fallback, str) else list(fallback)
    wrong = [one for one in given if one not in _ladder.KINDS]
    if wrong:
        raise Error(f"fallback: expected {expected}, not {wrong[0]!r}")
    return tuple(given)


def time_limit(seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"time_limit: expected a number of seconds, or None, not {seconds!r}")
    if not seconds > 0:
        raise Error(f"time_limit: expected more than 0 seconds, not {seconds!r}")
    return float(seconds)


#: The error for a model whose results are all Python constants.
NO_TENSOR = (
    "the model returns no tensor: there is nothing to export. Fix: return tensors; convert numbers "
    "with torch.as_tensor"
)


def check(
    f: Any,
    opset_version: Any,
    input_names: Any,
    output_names: Any,
    custom_translation_table: Any,
) -> None:
    """Checks all that can be checked without the model."""
    if f is not None:
        if not isinstance(f, (str, os.PathLike)):
            raise TypeError(f"f: expected the name of a file, not {type(f).__name__}")
        if not Path(f).absolute().parent.is_dir():
            raise FileNotFoundError(f"f: cannot write {f}: there is no folder {Path(f).parent}")
    if opset_version is not None:
        newest = onnx.defs.onnx_opset_version()
        if isinstance(opset_version, bool) or not isinstance(opset_version, int):
            raise TypeError(f"opset_version: expected a number, not {opset_version!r}")
        if not 1 <= opset_version <= newest:
            raise Error(
                f"opset_version: expected 1 to {newest}, the newest opset of onnx "
                f"{onnx.__version__}, not {opset_version}"
            )
    for name, given in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(given, str) or not all(isinstance(one, str) for one in given or ()):
            raise TypeError(f"{name}: expected a list of names, not {given!r}")
    names = [*(input_names or ()), *(output_names or ())]
    if twice := [one for one in dict.fromkeys(names) if names.count(one) > 1]:
        raise Error(
            f"input_names, output_names: {', '.join(map(repr, twice))} is given twice; each input "
            "and output of a graph needs its own name. Fix: use different names"
        )
    for target in custom_translation_table or {}:
        if isinstance(target, str) or not callable(target):
            raise TypeError(
                f"custom_translation_table: expected operators such as torch.ops.aten.relu.default "
                f"as keys, not {target!r}"
            )


def check_counts(names: Sequence[Sequence[str] | None], graph: Any) -> None:
    """Raises an Error if more names are given than there are inputs or outputs."""
    for name, given, values in zip(
        ("input_names", "output_names"), names, (graph.inputs, graph.outputs), strict=True
    ):
        if given is not None and len(given) > len(values):
            raise Error(f"{name}: {len(given)} names are given, but the model has {len(values)}")


def check_call(
    title: str,
    forward: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> None:
    """Raises an error if the model does not accept these arguments."""
    if dynamic_shapes is not None and not (
        isinstance(dynamic_shapes, (Mapping, tuple, list))
        or hasattr(dynamic_shapes, "dynamic_shapes")
    ):
        raise TypeError(
            "dynamic_shapes: expected one entry for each argument, such as ({0: 'batch'},) or "
            f"{{'x': {{0: 'batch'}}}}, not {dynamic_shapes!r}"
        )
    signature = signature_of(forward)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"args, kwargs: {title}{signature} does not accept these arguments: {error}"
        ) from None
    for name, value in bound_arguments(forward, args, kwargs).items():
        for one in _private.flatten(value)[0]:
            if dataclasses.is_dataclass(one) and not isinstance(one, type):
                kind = type(one).__name__
                raise TypeError(
                    f"args, kwargs: argument '{name}' is a {kind}, a dataclass that torch cannot "
                    "flatten. Fix: call "
                    f"torch.export.register_dataclass({kind}) before the export"
                )


def distinct(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments; a tensor that is given twice, or that is a parameter of the model, is
    copied. Otherwise torch.export would make one input of both."""
    is_module = isinstance(model, torch.nn.Module)
    seen = {id(one) for one in (*model.parameters(), *model.buffers())} if is_module else set()

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or id(value) not in seen:
            seen.add(id(value))
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    copies: tuple[tuple[Any, ...], dict[str, Any]] = _private.tree_map(
        copied, (tuple(args), dict(kwargs))
    )
    return copies


def split(
    forward: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Splits the arguments into positional and named ones. As in torch.onnx.export, a dict at the
    end holds named arguments, unless the model accepts only the dict itself. The named ones are in
    the order of the parameters, which is the order that torch.export expects for sizes."""
    by_name = _private.split_arguments(args, kwargs)
    if forward is None:
        return by_name
    is_split = len(by_name[0]) < len(args)
    if is_split and _takes(forward, args, kwargs) and not _takes(forward, *by_name):
        return args, kwargs
    return by_name[0], _in_order(forward, by_name[1])


def _in_order(forward: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    signature = signature_of(forward)
    parameters = signature.parameters if signature is not None else {}
    names = [name for name in parameters if name in kwargs]
    return {name: kwargs[name] for name in [*names, *kwargs]}


def _takes(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    signature = signature_of(forward)
    if signature is None:
        return False
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def bound_arguments(
    forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the parameters; by "x0", "x1" if the names are unknown, as for
    a module from torch.jit.trace."""
    signature = signature_of(forward)
    if signature is None:
        return {**{f"x{index}": one for index, one in enumerate(args)}, **kwargs}
    return dict(signature.bind(*args, **kwargs).arguments)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function; None if Python does not know it, as for some built-ins."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def check_outputs(program: torch.export.ExportedProgram) -> None:
    if not has_outputs(program):
        raise ModelError(NO_TENSOR)


def check_results(results: Sequence[Any]) -> None:
    """Raises a ModelError if a graph cannot return one of the model's results, which are given as a
    flat list."""
    for one in results:
        if isinstance(one, torch.Tensor) and one.is_meta:
            raise ModelError(
                "the model returns a tensor on the device `meta`, which has no data: there is "
                "nothing to compute. Fix: create the result on the device of the arguments"
            )
        if one is not None and not isinstance(one, (torch.Tensor, bool, int, float, str)):
            kind = type(one).__name__
            is_cache = kind.endswith("Cache")
            fix = "pass use_cache=False, or set `model.config.use_cache = False`; or " * is_cache
            raise ModelError(
                f"the model returns a {kind}, not a tensor. Fix: {fix}return the tensors that "
                "are in it, or register it with torch.utils._pytree"
            )
