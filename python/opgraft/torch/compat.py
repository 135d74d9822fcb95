"""Restores what torch.onnx dropped or narrowed, so that older programs run: just import it.

>>> import opgraft.torch.compat
>>> torch.onnx.OnnxRegistry
<class 'opgraft.torch.OnnxRegistry'>

- OnnxRegistry, ExportOptions, dynamo_export and the classes around them are added if this version
  of torch lacks them.
- torch.onnx.export honours register_custom_op_symbolic in both exporters, for every name that torch
  has for an operator, from the registered opset upwards.
- torch.onnx.export honours custom_opsets in both exporters.

Importing it again changes nothing. Names that this version of torch has are not replaced.
"""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.onnx

from opgraft.torch import _needed

_needed.need_to_export(__name__)

from opgraft.torch._legacy import _dynamo_export, _legacy_program, _registry, _symbolic  # noqa: E402

# Replaced together, because torch's own functions accept only torch's own classes.
_FAMILY: dict[str, Any] = {
    "DiagnosticOptions": _dynamo_export.DiagnosticOptions,
    "ExportOptions": _dynamo_export.ExportOptions,
    "ONNXRuntimeOptions": _legacy_program.ONNXRuntimeOptions,
    "OnnxRegistry": _registry.OnnxRegistry,
    "dynamo_export": _dynamo_export.dynamo_export,
    "enable_fake_mode": _dynamo_export.enable_fake_mode,
}
_FUNCTIONS: dict[str, Any] = {
    "register_custom_op_symbolic": _symbolic.register_custom_op_symbolic,
    "unregister_custom_op_symbolic": _symbolic.unregister_custom_op_symbolic,
}
_MARK = "_opgraft_original"


def install(onnx: Any) -> None:
    """Adds to torch.onnx what it lacks. May be called more than once."""
    needed = ("OnnxRegistry", "ExportOptions", "dynamo_export")
    if not all(hasattr(onnx, name) for name in needed):
        for name, value in _FAMILY.items():
            setattr(onnx, name, value)
    for name, value in _FUNCTIONS.items():
        if not hasattr(onnx, name):
            setattr(onnx, name, value)
    if not hasattr(onnx.export, _MARK):
        onnx.export = _honouring(onnx.export)


def _honouring(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        given = call.arguments
        opset_version = given.get("opset_version")
        if not _uses_dynamo(signature, given):
            with _symbolic.lent_to_torch(opset_version):
                return original(*call.args, **call.kwargs)
        symbolics = _symbolic.translations(opset_version)
        table = {**symbolics, **(given.get("custom_translation_table") or {})}
        given["custom_translation_table"] = table or None
        custom_opsets = given.pop("custom_opsets", None)
        if not custom_opsets:
            return original(*call.args, **call.kwargs)
        destination = given.pop("f", None)
        program = original(*call.args, **call.kwargs)
        _symbolic.set_versions(program.model, custom_opsets)
        _save(program, destination, given)
        return program

    setattr(export, _MARK, original)
    return export


def _uses_dynamo(signature: inspect.Signature, given: Mapping[str, Any]) -> bool:
    captured = (torch.export.ExportedProgram, getattr(torch.onnx, "ExportableModule", ()))
    if isinstance(given.get("model"), captured):
        return True
    return given.get("dynamo", signature.parameters["dynamo"].default) is True


def _save(program: Any, destination: Any, options: Mapping[str, Any]) -> None:
    """Saves the program as torch.onnx.export does if it has a destination."""
    if isinstance(destination, io.BytesIO):
        destination.write(program.model_proto.SerializeToString())
    elif destination is not None:
        program.save(
            destination,
            include_initializers=options.get("export_params", True),
            keep_initializers_as_inputs=options.get("keep_initializers_as_inputs", False),
            external_data=options.get("external_data", True),
        )


install(torch.onnx)
