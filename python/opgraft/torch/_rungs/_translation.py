"""Translates Opgraft operators in torch graphs to ONNX nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir

from opgraft._base._errors import Error
from opgraft._declare._signature import VARIADIC
from opgraft._declare._torch_calls import TorchCall
from opgraft.torch import _private
from opgraft.torch._eager import _registered
from opgraft.torch._eager._schema import TorchSchema
from opgraft.torch._graphs._error_lines import first_line
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._legacy._symbolic import ALIASES
from opgraft.torch._rungs import _nodes, _stand_in
from opgraft.torch._rungs._stand_in import StandIn

#: The key, in the metadata of a node, for the Python module that declares its operator: other
#: processes import it.
MODULE_ENTRY = "opgraft.module"


def translation_table(*, answering: bool = True) -> dict[Any, Callable[..., Any]]:
    """Returns a table for `torch.onnx.export(..., custom_translation_table=...)`, which translates
    the operators declared by `@opgraft.op` and those of loaded packs.

    An operator also replaces the torch operators that it declares by `torch=` or `.Torch(...)`,
    even if torch has its own translation for them; not if `answering` is false.

    >>> table = opgraft.torch.translation_table()
    >>> program = torch.onnx.export(
    ...     model, (x,), dynamo=True, verbose=False, custom_translation_table=table
    ... )
    """
    table = own_translations()
    if answering:
        table |= answering_translations()
    return table


def own_translations() -> dict[Any, Callable[..., Any]]:
    """Returns translations by `torch.ops.<namespace>.<name>.default` of each Opgraft operator."""
    return {one.overload: _translation(one.schema) for one in _registered.known()}


def answering_translations() -> dict[Any, Callable[..., Any]]:
    """Returns translations by the torch operators that Opgraft operators declare they can replace,
    including other names that torch has for those.

    A translation raises an Error if the operator does not support the arguments.
    """
    table: dict[Any, Callable[..., Any]] = {}
    ours = _stand_in.known()
    for names in (lambda name: [name], lambda name: ALIASES.get(name, [])):
        for one in ours:
            for call in one.calls:
                for overload in itertools.chain(*map(_overloads, names(call.name))):
                    table.setdefault(overload, answer(one, overload))
    return table


def _translation(schema: TorchSchema) -> Callable[..., Any]:
    def translate(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip((one.name for one in schema.inputs), args, strict=False)) | kwargs
        inputs = [named.get(one.name) for one in schema.inputs]
        return _append(schema, inputs, kwargs, schema.count_outputs(kwargs))

    translate.__name__ = schema.core.name
    return translate


def _append(
    schema: TorchSchema, inputs: Sequence[Any], given: Mapping[str, Any], outputs: int
) -> Any:
    """Adds the node, and returns its outputs as torch arranges them."""
    values: list[Any] = []
    for parameter, value in zip(schema.inputs, inputs, strict=True):
        values += value if parameter.occurrence == VARIADIC else [value]
    while values and values[-1] is None:
        values.pop()
    for one in schema.attributes:
        if isinstance(given.get(one.name), ir.Value):
            raise Error(
                f"{schema.full_name}: attribute '{one.declared}' is computed in the model, but an "
                "attribute in ONNX must be a constant. Fix: make it an input"
            )
    attributes = {
        one.declared: ir.Attr(one.declared, ir.AttributeType(one.kind), value)
        for one in schema.attributes
        if (value := _plain(schema.attributes_of(given).get(one.declared))) is not None
    }
    made = _nodes.append(
        schema.core.domain,
        schema.core.name,
        values,
        attributes,
        outputs,
        version=schema.core.since_version if schema.core.domain else None,
    )
    if schema.core.module and made:
        made[0].producer().metadata_props[MODULE_ENTRY] = schema.core.module
    return schema.arrange(made)


def _plain(value: Any) -> Any:
    """Converts a value for an ONNX attribute, in which a bool is an integer."""
    if isinstance(value, bool):
        return int(value)
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _overloads(name: str) -> list[Any]:
    """Returns the overloads of a name, with or without `.overload`, that change no argument."""
    if "." not in name:
        return _private.functional_overloads(name)
    found = _private.find_target(name)
    return [] if found is None or _private.is_mutable(found) else [found]


def answer(one: StandIn, overload: Any) -> Callable[..., Any]:
    """Returns a translation of calls of a torch operator to nodes of an Opgraft operator. Tensors
    are matched in order, attributes by name, and others as declared."""
    schema = one.schema
    calls = one.calls_of(_private.overload_name(overload))
    arguments, returns = _private.schema_of(overload)

    def translate(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
        problems = []
        for call in calls:
            own = _own_translation(call, overload, given.values())
            if own is not None:
                return own(*args, **kwargs)
            try:
                inputs, attributes = _stand_in.arrange(schema, call, arguments, given)
            except _stand_in.UnlikeError as error:
                problems.append(str(error))
            else:
                break
        else:
            raise _mismatch(schema, overload, problems[0])
        if len(returns) > len(schema.outputs) or schema.count is not None:
            raise _mismatch(schema, overload, f"{len(returns)} outputs are needed")
        values = _append(schema, list(map(_tensor, inputs)), attributes, len(schema.outputs))
        wanted = (values if isinstance(values, tuple) else (values,))[: len(returns)]
        return wanted[0] if len(wanted) == 1 else wanted

    translate.__name__ = schema.core.name
    return translate


def _own_translation(call: TorchCall, overload: Any, given: Iterable[Any]) -> Any:
    """Returns torch's own translation if the declaration leaves the type to torch, else None."""
    tensor = next((one for one in given if isinstance(one, ir.Value)), None)
    if tensor is None or tensor.dtype is None or int(tensor.dtype) not in call.left_to_torch:
        return None
    name = _private.overload_name(overload)
    found = _private.own_translations().get(name if "." in name else f"{name}.default", [])
    return next((function for function, is_complex in found if not is_complex), None)


def _tensor(value: Any) -> Any:
    """Makes a constant of an input that is a number in torch."""
    if not isinstance(value, (int, float)):
        return value
    kind = np.int64 if isinstance(value, int) else np.float32
    return _nodes.append("", "Constant", [], {"value": ir.tensor(np.array(value, kind))}, 1)[0]


def _mismatch(schema: TorchSchema, overload: Any, what: str) -> Error:
    return Error(
        f"{schema.full_name} is declared to replace {overload}, but cannot replace this call: "
        f"{what}, which it does not support. Fix: "
        "opgraft.torch.translation_table(answering=False), or declare what is missing"
    )


@contextmanager
def writing(table: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Raises an Error if the result of a user's translation does not fit into the model."""
    try:
        yield
    except ir.passes.PassError as error:
        cause = error.__cause__ or error
        name = re.search(r"function '[^']*?::(\w+)'", str(cause))
        guilty = [
            operator_name(target)
            for target, one in table.items()
            if name is None or getattr(one, "name", getattr(one, "__name__", "")) == name[1]
        ]
        if not guilty:
            raise
        opset = re.search(r"version (\d+) in the model", str(cause))
        fix = (
            f"write it with onnxscript.opset{opset[1]}: models are written in that opset, and then "
            "converted to opset_version"
            if opset
            else "return as many results as the operator; or write a plain Python function that "
            "calls onnxscript operators"
        )
        raise Error(
            f"custom_translation_table: the function for {', '.join(guilty)} cannot become part "
            f"of the model: {first_line(cause)}. Fix: {fix}"
        ) from error
