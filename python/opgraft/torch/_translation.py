"""From operators of ours in torch's graphs to their nodes in ONNX."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir

from opgraft._errors import Error
from opgraft._signature import REQUIRED, VARIADIC
from opgraft.torch import _nodes, _operators, _private
from opgraft.torch._error_lines import first_line
from opgraft.torch._graph import operator_name
from opgraft.torch._schema import TorchSchema
from opgraft.torch._symbolic import ALIASES

#: In the metadata of a node: the Python module that declares its operator, for other processes.
MODULE_ENTRY = "opgraft.module"


def translation_table(*, answering: bool = True) -> dict[Any, Callable[..., Any]]:
    """For `torch.onnx.export(..., custom_translation_table=...)`: how operators of ours become
    nodes, those declared by `@opgraft.op` and those of packs that are loaded.

    Where an operator says by `torch=` or `.Torch(...)` which of torch's it can stand for, it does
    so, even where torch has a translation of its own; not if `answering` is false.

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
    """By `torch.ops.<namespace>.<name>.default` of each operator of ours."""
    return {one.overload: _translation(one.schema) for one in _operators.known()}


def answering_translations() -> dict[Any, Callable[..., Any]]:
    """By the operators of torch's that operators of ours say they can stand for, and other names
    that torch has for those.

    A translation raises an Error where the arguments are none that the operator has.
    """
    table: dict[Any, Callable[..., Any]] = {}
    schemas = [one.schema for one in _operators.known()]
    for names in (lambda name: [name], lambda name: ALIASES.get(name, [])):
        for schema in schemas:
            for name in filter(None, map(str.strip, schema.answers_to.split(","))):
                for overload in itertools.chain(*map(_overloads, names(name))):
                    table.setdefault(overload, answer(schema, overload))
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
    """Adds the node, and gives its outputs as torch arranges them."""
    values: list[Any] = []
    for parameter, value in zip(schema.inputs, inputs, strict=True):
        values += value if parameter.occurrence == VARIADIC else [value]
    while values and values[-1] is None:
        values.pop()
    for one in schema.attributes:
        if isinstance(given.get(one.name), ir.Value):
            raise Error(
                f"{schema.full_name}: attribute '{one.declared}' is computed in the model, but "
                "expected to be a constant, as attributes of ONNX are. Fix: make it an input"
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
    """As ONNX holds it, in which a bool is an integer."""
    if isinstance(value, bool):
        return int(value)
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _overloads(name: str) -> list[Any]:
    """What `namespace::name` or `namespace::name.overload` names, and writes to no argument."""
    if "." not in name:
        return _private.functional_overloads(name)
    found = _private.find_target(name)
    return [] if found is None or _private.is_mutable(found) else [found]


def answer(schema: TorchSchema, overload: Any) -> Callable[..., Any]:
    """A call of one of torch's own operators as a node of ours: tensors in their order, attributes
    by their names."""
    arguments, returns = _private.schema_of(overload)
    attributes = {one.declared: one.name for one in schema.attributes}
    required = sum(one.occurrence == REQUIRED for one in schema.inputs)

    def translate(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip((one.name for one in arguments), args, strict=False)) | kwargs
        tensors: list[Any] = []
        given: dict[str, Any] = {}
        for argument in arguments:
            value = named.get(argument.name, argument.default)
            if "Tensor" in argument.type:
                tensors.append(value)
            elif argument.name in attributes:
                given[attributes[argument.name]] = value
            elif not argument.has_default or value != argument.default:
                raise _mismatch(schema, overload, f"'{argument.name}' is {value!r}")
        while tensors and tensors[-1] is None:
            tensors.pop()
        if not required <= len(tensors) <= len(schema.inputs):
            raise _mismatch(schema, overload, f"{len(tensors)} tensors are given")
        if len(returns) > len(schema.outputs) or schema.count is not None:
            raise _mismatch(schema, overload, f"{len(returns)} outputs are wanted")
        for parameter in schema.inputs[len(tensors) :]:
            tensors.append([] if parameter.occurrence == VARIADIC else None)
        values = _append(schema, tensors, given, len(schema.outputs))
        wanted = (values if isinstance(values, tuple) else (values,))[: len(returns)]
        return wanted[0] if len(wanted) == 1 else wanted

    translate.__name__ = schema.core.name
    return translate


def _mismatch(schema: TorchSchema, overload: Any, what: str) -> Error:
    return Error(
        f"{schema.full_name} says that it can stand for {overload}, but not here: {what}, which it "
        "has nothing for. Fix: opgraft.torch.translation_table(answering=False), or declare "
        "what is missing"
    )


@contextmanager
def writing(table: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """An Error where what a translation of the user's gives does not fit into the model."""
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
            f"write it with onnxscript.opset{opset[1]}, which exports are written in before they "
            "are converted to opset_version"
            if opset
            else "give the operator's results, and as many; or write a plain Python function that "
            "calls operators of onnxscript"
        )
        raise Error(
            f"custom_translation_table: the function for {', '.join(guilty)} cannot become a part "
            f"of the model: {first_line(cause)}. Fix: {fix}"
        ) from error
