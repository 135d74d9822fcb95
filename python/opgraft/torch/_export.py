"""`opgraft.torch.export`: torch.onnx.export, which no missing operator stops."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch import _ladder, _private
from opgraft.torch._capture import Called, capture
from opgraft.torch._dispatch import Dispatcher
from opgraft.torch._program import Program


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Any = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    fallback: Any = "auto",
    verify: bool = True,
    optimize: bool = True,
) -> Program:
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        model = Called(model)
    opset = opset_version or _private.default_opset()
    registry = _private.new_registry(max(opset, _private.lowest_opset()))
    with _private.exporting():
        captured = capture(model, args, kwargs or {}, dynamic_shapes)
        dispatcher = Dispatcher(captured.program, registry, _ladder.KINDS)
        translated = dispatcher.translate()
        model = translated.onnx.model
        model.opset_imports.setdefault("", registry.opset_version)
        model = _private.convert_version(model, opset)
        program = Program(model, translated.decomposed)
        if optimize:
            program.optimize()
    return program
