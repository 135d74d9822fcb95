"""The symbolic functions of the operators that Opgraft ships: exports write these as one node each.

>>> opgraft.torch.symbolics.register()  # torch.inverse becomes com.microsoft::Inverse, and so on

They hold for exports by Opgraft; for those by torch.onnx.export with opgraft.torch.compat imported.
They are made of what the operators in ops/ declare by `.Torch(...)`. The tests are run by

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

#: The opset that the functions are registered for, and all above it.
_OPSET = 1
#: How `symbolic_helper.parse_args` reads arguments of torch's types; others stay values.
_READ_AS = {
    "int": "i",
    "float": "f",
    "number": "f",
    "bool": "b",
    "str": "s",
    "List[int]": "is",
    "List[float]": "fs",
}
#: What the names of attributes end in, by their kinds in ONNX.
_SUFFIXES = {1: "f", 2: "i", 3: "s", 6: "f", 7: "i", 8: "s"}


def _symbolic(one: StandIn, name: str) -> Callable[..., Any]:
    """The function for one of torch's operators, which writes a node of ours; where ours cannot
    stand for a call, what torch writes."""
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
    """torch's own function for the newest opset that is not above that of the export."""
    function = name.partition("::")[2]
    for opset in range(g.opset, 6, -1):
        try:
            module = importlib.import_module(f"torch.onnx.symbolic_opset{opset}")
        except ImportError:
            continue
        if hasattr(module, function):
            return getattr(module, function)  # type: ignore[no-any-return]
    raise Error(
        f"{name}: no operator that Opgraft ships can stand for this call, and torch has no "
        f"symbolic function of its own for it. Fix: opgraft.torch.export"
    )


def _element_type(value: Any) -> int:
    dtype = _private.dtype_of_value(value)
    return 0 if dtype is None else _private.onnx_type(dtype)


def _plain(kind: str) -> str:
    return kind.removeprefix("Optional[").removesuffix("]") if "Optional[" in kind else kind


def _is_none(value: Any) -> bool:
    return value is None or (hasattr(value, "node") and value.node().mustBeNone())


#: By the names of the operators of torch.
SYMBOLICS: dict[str, Callable[..., Any]] = {
    name: _symbolic(one, name)
    for one in _stand_in.shipped()
    for name in dict.fromkeys(call.name.partition(".")[0] for call in one.calls)
}


def register() -> None:
    """Has exports write these operators as nodes of ours."""
    for name, function in SYMBOLICS.items():
        register_custom_op_symbolic(name, function, _OPSET)


def unregister() -> None:
    """Takes back what `register` has said."""
    for name in SYMBOLICS:
        unregister_custom_op_symbolic(name, _OPSET)


def register_custom_op(is_ortmodule: bool = False) -> None:
    """`register`, by the name it has in ONNX Runtime's register_custom_ops_pytorch_exporter."""
    if is_ortmodule:
        raise Error("register_custom_op: ORTModule's operators are not among Opgraft's")
    register()


unregister_custom_op = unregister
