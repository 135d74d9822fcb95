"""The registry of torch's exporter: its translations, and how to add some."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opgraft.torch._private.exporter import _EXPORTER, lowest_opset, recorder, torch_registry
from opgraft.torch._private.lookup import moved, private


@functools.cache
def own_translations() -> dict[str, list[tuple[Callable[..., Any], bool]]]:
    """Returns torch's translations and whether they are for complex inputs, by the operator's name,
    namespace::name.overload."""
    registry = torch_registry(lowest_opset())
    found: dict[str, list[tuple[Callable[..., Any], bool]]] = {}
    try:
        for target, translations in registry.functions.items():
            if not isinstance(target, str):
                target = f"{target.__module__}::{target.__name__}"
            name = target if "." in target else f"{target}.default"
            found[name] = [(one.onnx_function, one.is_complex) for one in translations]
    except AttributeError as error:
        raise moved("ONNXRegistry.functions") from error
    return found


def whole_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Completes a function of onnxscript with what torch omits: its outputs, if the result has no
    type annotation, and the functions that it calls. Returns other functions unchanged."""
    import onnx_ir as ir
    import onnxscript

    if not isinstance(function, onnxscript.OnnxFunction):
        return function
    signature = private(f"{_EXPORTER}._schemas", "op_signature_from_function")(
        function,
        function.function_ir.domain,
        function.name,
        since_version=function.opset.version,
    )
    if not signature.outputs:
        outputs = [
            ir.schemas.Parameter(
                name=f"output_{index}",
                type_constraint=ir.schemas.TypeConstraintParam.any_value(f"T_output_{index}"),
                required=True,
                variadic=False,
            )
            for index, _ in enumerate(function.function_ir.outputs)
        ]
        signature = ir.schemas.OpSignature(
            domain=signature.domain,
            name=signature.name,
            overload=signature.overload,
            params=signature.params,
            outputs=outputs,
            since_version=signature.since_version,
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        function._pt_onnx_signature = signature  # type: ignore[attr-defined]
        recorder().functions.update(called_functions(function))
        return function(*args, **kwargs)

    call.__name__ = function.name
    call.__dict__["__wrapped__"] = function
    return call


def called_functions(function: Any) -> dict[tuple[str, str, str], Any]:
    """Returns a function of onnxscript and all that it calls, by their identifiers in models."""
    called = function.function_ir.get_called_functions().values()
    return {(one.function_ir.domain, one.name, ""): one for one in (*called, function)}


@contextmanager
def complex_translations(table: dict[Any, Callable[..., Any]]) -> Iterator[None]:
    """Makes exports use these translations for complex inputs, which a custom_translation_table
    cannot express."""
    if not table:
        yield
        return
    registry = private(f"{_EXPORTER}._registration", "ONNXRegistry")
    original = registry.__dict__["from_torchlib"]

    def from_torchlib(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = original.__func__(cls, *args, **kwargs)
        for target, function in table.items():
            made.register_op(target, function, is_complex=True)
        return made

    registry.from_torchlib = classmethod(from_torchlib)
    try:
        yield
    finally:
        registry.from_torchlib = original
