"""Writes src/model/function_bodies.inc: the bodies of ONNX's operators that depend on nothing.

Bodies that depend on attributes or types are in src/model/*_bodies.cc. A body holds for the opsets
in which the operator has it and in which none of its own operators changes its meaning.
tests/test_function_bodies.py compares the file, and runs the bodies.

    python tests/function_bodies.py > src/model/function_bodies.inc
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import opset_changes
from onnx import FunctionProto, defs, helper, printer

# Changes of operators that make no difference where bodies use them; see opset_changes.cc.
HARMLESS = {"Cast", "CastLike", "Range", "Squeeze", "Transpose", "Unsqueeze"}
NEWEST = 28


class Body(NamedTuple):
    operator: str
    first: int
    last: int
    text: str


def operators(body: Any) -> set[str]:
    """Returns the operators of a body's nodes, also in graphs."""
    found = set()
    for node in body.node:
        found.add(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= operators(attribute.g)
    return found


def holds_until(body: Any, opset: int, last: int) -> int:
    """Returns the newest opset up to which all operators of the body mean what they mean now."""
    for operator in operators(body) - HARMLESS:
        for later in range(opset + 1, last + 1):
            if opset_changes.kind(operator, later) not in (None, "kWidened"):
                last = later - 1
    return last


def signature(schema: Any, name: str) -> str:
    attributes = []
    for attribute in schema.attributes.values():
        default = attribute.default_value
        if default.name:
            value = helper.get_attribute_value(default)
            kind = {default.FLOAT: "float", default.INT: "int", default.INTS: "ints"}[default.type]
            shown = str(np.float32(value)) if kind == "float" else str(value)
            attributes.append(f"{default.name}: {kind} = {shown}")
        else:
            attributes.append(attribute.name)
    optional = defs.OpSchema.FormalParameterOption.Optional
    inputs = ", ".join(i.name + ("?" if i.option == optional else "") for i in schema.inputs)
    outputs = ", ".join(output.name for output in schema.outputs)
    given = f" <{', '.join(sorted(attributes))}>" if attributes else ""
    return f"{name}{given} ({inputs}) => ({outputs})"


def bodies_of(operator: str) -> Iterator[Body]:
    schemas = [
        schema
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name == operator
    ]
    schemas.sort(key=lambda schema: schema.since_version)
    for schema, following in zip(schemas, [*schemas[1:], None], strict=True):
        end = following.since_version - 1 if following else NEWEST
        opsets = sorted(schema.function_opset_versions) or [0]
        for opset, later in zip(opsets, [*opsets[1:], None], strict=True):
            if not opset:
                continue
            body = FunctionProto()
            body.ParseFromString(schema.get_function_with_opset_version(opset))
            last = holds_until(body, opset, min(end, later - 1 if later else end))
            text = printer.to_text(body)
            nodes = text[text.index("\n{") :].strip()
            first = max(opset, schema.since_version)
            if first <= last:
                yield Body(operator, first, last, f"{signature(schema, operator)}\n{nodes}")


@cache
def bodies() -> list[Body]:
    """Returns the bodies that hold in some opset; equal ones of consecutive versions once."""
    found: list[Body] = []
    for operator in opset_changes.operators():
        for body in bodies_of(operator):
            last = found[-1] if found else None
            if last and (last.operator, last.last + 1, last.text) == (body[0], body[1], body[3]):
                found[-1] = last._replace(last=body.last)
            else:
                found.append(body)
    return found


def table() -> str:
    rows = [
        "// Written by tests/function_bodies.py from onnx.defs of onnx "
        f"{opset_changes.ONNX}.x: do not edit."
    ]
    for body in bodies():
        rows.append(f'{{"{body.operator}", {body.first}, {body.last},\n R"({body.text})"}},')
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
