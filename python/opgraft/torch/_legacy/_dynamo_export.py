"""dynamo_export and its options, as in torch up to 2.6, on top of the current exporter."""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from opgraft._base._errors import Error
from opgraft.torch import _private
from opgraft.torch._graphs._optimiser import optimised
from opgraft.torch._legacy import _symbolic
from opgraft.torch._legacy._legacy_program import ONNXProgram
from opgraft.torch._legacy._registry import OnnxRegistry


@dataclass
class DiagnosticOptions:
    """The log level of torch's exporter, and whether its warnings are raised as errors."""

    verbosity_level: int = logging.INFO
    warnings_as_errors: bool = False


@dataclass
class ONNXFakeContext:
    """What enable_fake_mode yields."""

    fake_mode: Any
    state_dict_paths: tuple[Any, ...] | None = None


class ExportOptions:
    """The options of dynamo_export.

    With `dynamic_shapes=True` all sizes of the inputs are open, except for sizes that are 0 or 1
    or that the model itself fixes. Otherwise they are the sizes of the example. `fake_context`
    comes from enable_fake_mode.
    """

    def __init__(
        self,
        *,
        dynamic_shapes: bool | None = None,
        op_level_debug: bool | None = None,
        fake_context: ONNXFakeContext | None = None,
        onnx_registry: OnnxRegistry | None = None,
        diagnostic_options: DiagnosticOptions | None = None,
    ) -> None:
        if onnx_registry is not None and not isinstance(onnx_registry, OnnxRegistry):
            raise TypeError(
                "ExportOptions: onnx_registry must be an opgraft.torch.OnnxRegistry, not "
                f"{onnx_registry!r}"
            )
        if op_level_debug:
            raise Error(
                "ExportOptions: op_level_debug is no longer supported. Fix: use "
                "opgraft.torch.export with verify=True, which compares the results with torch and "
                "names the operator that differs"
            )
        self.dynamic_shapes = dynamic_shapes
        self.op_level_debug = op_level_debug
        self.fake_context = fake_context
        self.onnx_registry = onnx_registry
        self.diagnostic_options = diagnostic_options


@contextmanager
def enable_fake_mode() -> Iterator[ONNXFakeContext]:
    """Models that are created inside it have weights without data, so that they need no memory.

    >>> with opgraft.torch.enable_fake_mode() as fake_context:
    ...     model, x = torch.nn.Linear(2, 3), torch.randn(4, 2)
    >>> options = opgraft.torch.ExportOptions(fake_context=fake_context)
    >>> program = opgraft.torch.dynamo_export(model, x, export_options=options)
    >>> program.save("model.onnx", model_state=torch.nn.Linear(2, 3).state_dict())
    """
    mode = _private.fake_mode()
    with mode:
        yield ONNXFakeContext(mode)


def dynamo_export(
    model: Any,
    /,
    *model_args: Any,
    export_options: ExportOptions | None = None,
    **model_kwargs: Any,
) -> ONNXProgram:
    """Exports a module, a function or an ExportedProgram, called with these arguments.

    >>> program = opgraft.torch.dynamo_export(torch.nn.ReLU(), torch.randn(3))
    >>> program.model_proto.graph.node[0].op_type
    'Relu'
    """
    options = export_options or ExportOptions()
    if not isinstance(options, ExportOptions):
        raise TypeError(
            f"dynamo_export: export_options must be an opgraft.torch.ExportOptions, not {options!r}"
        )
    registry = options.onnx_registry or OnnxRegistry()
    module = _as_module(model)
    _check_fakes(module, (model_args, model_kwargs), options.fake_context)
    # torch.onnx.export takes a dictionary at the end for keyword arguments.
    ends_with_names = model_args and isinstance(model_args[-1], dict) and not model_kwargs
    args = (*model_args, {}) if ends_with_names else model_args
    with (
        _told(options.diagnostic_options),
        _private.reading_torch_once(registry.opset_version),
        _private.complex_translations(registry.translations(is_complex=True)),
    ):
        symbolics = _symbolic.translations(registry.opset_version)
        program: Any = torch.onnx.export(
            module,
            args,
            kwargs=model_kwargs,
            dynamo=True,
            verbose=False,
            opset_version=registry.opset_version,
            dynamic_shapes=_open_shapes(module, model_args, model_kwargs, options.dynamic_shapes),
            custom_translation_table={**symbolics, **registry.translations()},
            optimize=False,
        )
    if options.fake_context is None:  # the optimiser needs data
        program.model, problem = optimised(program.model)
        if problem:
            logging.getLogger(__name__).warning("dynamo_export: not optimised: %s", problem)
    return ONNXProgram(program, options.fake_context)


def _as_module(model: Any) -> Any:
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return model
    if not callable(model):
        raise TypeError(
            "dynamo_export: expected a torch.nn.Module, a function or a "
            f"torch.export.ExportedProgram, not {model!r}"
        )
    module = _Function(model).eval()
    with contextlib.suppress(ValueError):  # a built-in function has no signature
        inspect.signature(model)
        setattr(module, "forward", model)  # noqa: B010 (for the names of the inputs)
    return module


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _open_shapes(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: bool | None
) -> dict[str, Any] | None:
    """Returns the dynamic shapes of each argument, by name: every size above 1 is open."""
    if not wanted:
        return None
    if isinstance(model, torch.export.ExportedProgram):
        raise Error(
            "dynamo_export: dynamic_shapes=True, but the model is an ExportedProgram, whose shapes "
            "are already fixed. Fix: pass dynamic_shapes to torch.export.export"
        )
    given = inspect.signature(model.forward).bind(*args, **kwargs).arguments

    def open_sizes(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            # A size of 1 is broadcast; an open size is not.
            return {i: torch.export.Dim.AUTO for i, size in enumerate(value.shape) if size > 1}
        return None

    shapes: dict[str, Any] = _private.tree_map(open_sizes, dict(given))
    return shapes


def _check_fakes(model: Any, arguments: Any, fake_context: ONNXFakeContext | None) -> None:
    tensors = [one for one in _private.tree_leaves(arguments) if isinstance(one, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    fakes = [_private.is_fake(tensor) for tensor in tensors]
    if any(fakes) and fake_context is None:
        raise Error(
            "dynamo_export: the model or its arguments were created inside enable_fake_mode. Fix: "
            "pass its context, ExportOptions(fake_context=…)"
        )
    if fake_context is not None and not all(fakes):
        raise Error(
            "dynamo_export: with a fake_context, the model and its arguments must be created "
            "inside enable_fake_mode, but some tensors have data"
        )


@contextmanager
def _told(options: DiagnosticOptions | None) -> Iterator[None]:
    """Sets the log level of torch's exporter; raises its warnings if the options say so."""
    if options is None:
        yield
        return
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(options.verbosity_level)
    try:
        with warnings.catch_warnings():
            if options.warnings_as_errors:
                warnings.simplefilter("error", UserWarning)
            yield
    finally:
        logger.setLevel(level)


for _public in (DiagnosticOptions, ExportOptions, dynamo_export, enable_fake_mode):
    _public.__module__ = "opgraft.torch"  # where users find them
