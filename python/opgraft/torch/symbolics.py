"""Symbolic functions for the operators that Opgraft ships: exports write each as one node.

>>> opgraft.torch.symbolics.register()  # torch.inverse becomes com.microsoft::Inverse, and so on

They apply to opgraft's exports, and to torch.onnx.export if opgraft.torch.compat is imported. They
are derived from what the operators in ops/ declare with `.Torch(...)`. To run the tests:

    python -m pytest -v tests/torch/test_symbolics.py
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch.onnx import symbolic_helper

from opgraft._base._errors import Error
from opgraft.torch import _needed, _private

_needed.need_to_export(__name__)

from opgraft.torch._legacy._symbolic import (  # noqa: E402
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)
from opgraft.torch._rungs import _stand_in  # noqa: E402
from opgraft.torch._rungs._stand_in import StandIn  # noqa: E402

__all__ = ["SYMBOLICS", "register", "register_custom_op", "unregister", "unregister_custom_op"]

#: The lowest opset that the functions are registered for.
_OPSET = 1
#: How `symbolic_helper.parse_args` reads arguments, by their types in torch; others stay values.
_READ_AS = {
    "int": "i",
    "float": "f",
    "number": "f",
    "bool": "b",
    "str": "s",
    "List[int]": "is",
    "List[float]": "fs",
}
#: The suffixes of attribute names for `g.op`, by the kinds of attributes in ONNX.
_SUFFIXES = {1: "f", 2: "i", 3: "s", 6: "f", 7: "i", 8: "s"}


def _symbolic(one: StandIn, name: str) -> Callable[..., Any]:
    """Returns the function for one of torch's operators. It writes our node or, if our operator
    cannot replace a call, what torch writes."""
    overload = _private.functional_overloads(name)[0]
    arguments, _ = _private.schema_of(overload)
    calls = one.calls_of(name)
    inputs = {each.argument for call in calls for each in call.arguments if each.argument}

    def write(g: Any, *args: Any) -> Any:
        given = {
            each.name: None if _is_none(value) else value
            for each, value in zip(arguments, args, strict=False)
        }
        tensor = next(each for each in given.values() if each is not None)
        for call in calls:
            if _element_type(tensor) in call.left_to_torch:
                continue
            try:
                values, attributes = _stand_in.arrange(one.schema, call, arguments, given)
            except _stand_in.UnlikeError:
                continue
            return _node(g, one, values, attributes)
        return _of_torch(g, name)(g, *args)

    descriptors: list[Any] = [
        "v" if each.name in inputs else _READ_AS.get(_plain(each.type), "v") for each in arguments
    ]
    write.__name__ = name.partition("::")[2]
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    write.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("g", by_place),
            *(
                inspect.Parameter(
                    each.name,
                    by_place,
                    default=each.default if each.has_default else inspect.Parameter.empty,
                )
                for each in arguments
            ),
        ]
    )
    return symbolic_helper.parse_args(*descriptors)(write)


def _node(g: Any, one: StandIn, values: list[Any], attributes: dict[str, Any]) -> Any:
    while values and values[-1] is None:
        values.pop()
    kinds = {each.name: (each.declared, each.kind) for each in one.schema.attributes}
    named = {
        f"{kinds[name][0]}_{_SUFFIXES[kinds[name][1]]}": value
        for name, value in attributes.items()
        if value is not None
    }
    made = g.op(one.schema.full_name, *values, outputs=len(one.schema.outputs), **named)
    if len(one.schema.outputs) == 1 and _is_like_first(one, values[0]):
        made.setType(values[0].type())
    return made


def _is_like_first(one: StandIn, value: Any) -> bool:
    """Whether the shape rule gives the output the type and the shape of the first input."""
    native = one.native
    assert native is not None
    rank = value.type().dim() if hasattr(value.type(), "dim") else None
    if rank is None or native.outputs[0].type != native.inputs[0].type:
        return False
    return bool(_stand_in.keeps_shape(native, rank))


def _of_torch(g: Any, name: str) -> Callable[..., Any]:
    """Returns torch's own function for the newest opset up to that of the export."""
    function = name.partition("::")[2]
    for opset in range(g.opset, 6, -1):
        try:
            module = importlib.import_module(f"torch.onnx.symbolic_opset{opset}")
        except ImportError:
            continue
        if hasattr(module, function):
            return getattr(module, function)  # type: ignore[no-any-return]
    raise Error(
        f"{name}: no operator that Opgraft ships can replace this call, and torch has no symbolic "
        "function for it. Fix: use opgraft.torch.export"
    )


def _element_type(value: Any) -> int:
    dtype = _private.dtype_of_value(value)
    return 0 if dtype is None else _private.onnx_type(dtype)


def _plain(kind: str) -> str:
    return kind.removeprefix("Optional[").removesuffix("]") if "Optional[" in kind else kind


def _is_none(value: Any) -> bool:
    return value is None or (hasattr(value, "node") and value.node().mustBeNone())


#: The symbolic functions, by the names of torch's operators.
SYMBOLICS: dict[str, Callable[..., Any]] = {
    name: _symbolic(one, name)
    for one in _stand_in.shipped()
    for name in dict.fromkeys(call.name.partition(".")[0] for call in one.calls)
}


def register() -> None:
    """Makes exports write these operators as our nodes."""
    for name, function in SYMBOLICS.items():
        register_custom_op_symbolic(name, function, _OPSET)


def unregister() -> None:
    """Undoes `register`."""
    for name in SYMBOLICS:
        unregister_custom_op_symbolic(name, _OPSET)


def register_custom_op(is_ortmodule: bool = False) -> None:
    """`register`, under its name in ONNX Runtime's register_custom_ops_pytorch_exporter."""
    if is_ortmodule:
        raise Error("register_custom_op: Opgraft does not have ORTModule's operators")
    register()


unregister_custom_op = unregister
