"""Writes src/model/opset_changes.inc: the differences between operator versions in onnx.defs.

Run it with an onnx package that has a new opset, and review the operators that become `kRevised`:
each needs a row in src/model/opset_changes.cc, or a reason for having none.
tests/test_opset_table.py compares the file.

    python tests/opset_changes.py > src/model/opset_changes.inc
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import Any

from onnx import defs

FIRST = 22  # the oldest supported runtime has the opset before it
ONNX = "1.23"  # documentation changes between versions, so the file is for one version


def interface(schema: Any) -> tuple[object, ...]:
    """Returns everything except the allowed types: inputs, outputs, attributes, documentation."""
    parameters = [
        [
            (p.name, p.option.name, p.type_str, p.is_homogeneous, p.min_arity, p.description)
            for p in side
        ]
        for side in (schema.inputs, schema.outputs)
    ]
    attributes = sorted(
        (a.name, a.type.name, a.required, a.default_value.SerializeToString(), a.description)
        for a in schema.attributes.values()
    )
    return schema.doc, parameters, attributes, schema.deprecated


def types(schema: Any) -> dict[str, set[str]]:
    return {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}


def kind(operator: str, opset: int) -> str | None:
    """Returns how `opset` changed an operator of the default domain, or None if it did not."""
    if not defs.has(operator, opset):
        return None
    newer = defs.get_schema(operator, opset)
    if newer.since_version != opset:
        return None
    if not defs.has(operator, opset - 1):
        return "kBrought"
    older = defs.get_schema(operator, opset - 1)
    allowed, before = types(newer), types(older)
    only_wider = allowed.keys() == before.keys() and all(before[t] <= allowed[t] for t in before)
    return "kWidened" if only_wider and interface(older) == interface(newer) else "kRevised"


def operators() -> list[str]:
    return sorted({s.name for s in defs.get_all_schemas_with_history() if s.domain == ""})


def changes() -> dict[tuple[int, str], list[str]]:
    """Returns the operators that each opset changed, by the kind of change."""
    found = defaultdict(list)
    for opset in range(FIRST, defs.onnx_opset_version() + 1):
        for operator in operators():
            done = kind(operator, opset)
            if done:
                found[opset, done].append(operator)
    return dict(sorted(found.items()))


def table() -> str:
    rows = [f"// Written by tests/opset_changes.py from onnx.defs of onnx {ONNX}.x: do not edit."]
    for (opset, done), names in changes().items():
        lines = textwrap.wrap(" ".join(names), 92)
        rows.append(f"{{{opset}, Kind::{done},")
        rows += [f'     " {line}{" " if line is lines[-1] else ""}"' for line in lines]
        rows[-1] += "},"
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
