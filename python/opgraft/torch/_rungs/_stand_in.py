"""Opgraft operators that declare that they can replace a torch operator, and their arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._declare import _declare, _packs, _torch_calls
from opgraft._declare._signature import REQUIRED, VARIADIC
from opgraft._declare._torch_calls import TorchCall
from opgraft.torch._eager import _registered, _schema
from opgraft.torch._eager._schema import TorchSchema
from opgraft.torch._legacy._symbolic import ALIASES


class UnlikeError(Exception):
    """Says why an operator cannot replace a call."""


@dataclass(frozen=True)
class StandIn:
    """An Opgraft operator, and the torch operators that it declares it can replace."""

    schema: TorchSchema
    calls: tuple[TorchCall, ...]
    #: None if it is declared in Python.
    native: _pyop.Schema | None = None

    def calls_of(self, name: str) -> list[TorchCall]:
        """Returns the declarations for `name`, such as "aten::triu.default"; if there are none,
        those for another name that torch has for the same operator."""
        plain = name.partition(".")[0]
        for names in ({name, plain}, {*ALIASES.get(name, ()), *ALIASES.get(plain, ())}):
            if found := [one for one in self.calls if one.name in names]:
                return found
        return []


def known() -> list[StandIn]:
    """Returns the operators declared in Python, and those of the packs that are loaded."""
    natives = {one.full_name: one for one in sorted(_packs.operators(), key=_packs.version_of)}
    found = []
    for one in _registered.known():
        if isinstance(one.source, _declare.Operator):
            calls = _torch_calls.of_names(one.schema.answers_to)
            found.append(StandIn(one.schema, calls))
        else:
            native = natives[one.schema.full_name]
            found.append(StandIn(one.schema, _packs.torch_calls(native), native))
    return found


@functools.cache
def shipped() -> list[StandIn]:
    """Returns the operators of the packs that come with Opgraft, loaded or not."""
    newest = {one.full_name: one for one in sorted(_packs.shipped(), key=_packs.version_of)}
    return [
        StandIn(_schema.of(one), _packs.torch_calls(one), one)
        for one in newest.values()
        if _packs.torch_calls(one)
    ]


def keeps_shape(native: _pyop.Schema, rank: int) -> bool:
    """Whether the only output always has the shape of the first input, by the shape rule."""
    shape = tuple(f"d{place}" for place in range(rank))
    inputs = [(native.types[native.inputs[0].type].allowed[0], shape, None)]
    try:
        ((_, given),) = _pyop.infer_native(
            native.full_name, native.since_version, inputs, {}, len(native.outputs)
        )
    except Error:
        return False
    return given == shape


def arrange(
    schema: TorchSchema, call: TorchCall, arguments: Sequence[Any], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the inputs of the Opgraft operator, in order, with None for one that is left out,
    and its attributes by their names in torch. `arguments` are those of the torch operator, and
    `given` their values.

    Raises an UnlikeError if the Opgraft operator has no input or attribute for one of them.
    """
    own_inputs = {one.declared for one in schema.inputs}
    own_attributes = {one.declared: one.name for one in schema.attributes}
    sources = {one.argument: one.name for one in call.arguments if one.argument}
    fixed = {one.name: one.value for one in call.arguments if not one.argument}
    attributes = {own_attributes[name]: fixed.pop(name) for name in own_attributes if name in fixed}
    if missing := {*sources, *fixed} - {one.name for one in arguments}:
        raise UnlikeError(f"the torch operator has no argument '{min(missing)}'")
    placed: dict[str, Any] = {}
    tensors: list[Any] = []
    for argument in arguments:
        value = given.get(argument.name, argument.default)
        name = sources.get(argument.name, argument.name)
        if argument.name in fixed:
            if value != fixed[argument.name]:
                raise UnlikeError(f"'{argument.name}' is {value!r}")
        elif argument.name in sources and name in own_inputs:
            placed[name] = value
        elif "Tensor" in argument.type:
            tensors.append(value)
        elif name in own_attributes and own_attributes[name] not in attributes:
            attributes[own_attributes[name]] = value
        elif not argument.has_default or value != argument.default:
            raise UnlikeError(f"'{argument.name}' is {value!r}")
    while tensors and tensors[-1] is None:
        tensors.pop()
    left = [one for one in schema.inputs if one.declared not in placed]
    required = sum(one.occurrence == REQUIRED for one in left)
    if not required <= len(tensors) <= len(left):
        raise UnlikeError(f"{len(tensors)} tensors are given")
    for parameter in left[len(tensors) :]:
        tensors.append([] if parameter.occurrence == VARIADIC else None)
    by_name = dict(zip((one.declared for one in left), tensors, strict=True)) | placed
    return [by_name[one.declared] for one in schema.inputs], attributes
