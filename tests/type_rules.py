"""Writes src/model/type_rules.inc: the type of each input and output of ONNX's operators.

Run it with an onnx package that has a new opset. An output whose type follows from an attribute or
from a graph inside the node is written as `?`, and src/model/type_inference.cc knows its rule.
tests/test_type_rules.py compares the file.

    python tests/type_rules.py > src/model/type_rules.inc
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from onnx import TensorProto, defs

ONNX = "1.23"  # types are added between versions, so the file is for one version
SEQUENCE, OPTIONAL = 1000, 2000  # as in src/model/type_inference.h
ELEMENTS = {
    "float": "FLOAT",
    "double": "DOUBLE",
    **{n: n.upper() for n in "float16 bfloat16 bool string complex64 complex128".split()},
    **{n: n.upper() for n in "int2 int4 int8 int16 int32 int64".split()},
    **{n: n.upper() for n in "uint2 uint4 uint8 uint16 uint32 uint64".split()},
    **{n: n.upper() for n in "float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2".split()},
    **{n: n.upper() for n in "float8e5m2fnuz float8e8m0".split()},
}


def number(text: str) -> int | None:
    """Returns the number of a type such as "seq(tensor(float))"; None for a map."""
    found = re.fullmatch(r"(optional\()?(seq\()?tensor\((\w+)\)*", text)
    if found is None:
        return None
    kind = OPTIONAL * bool(found[1]) + SEQUENCE * bool(found[2])
    return kind + int(TensorProto.DataType.Value(ELEMENTS[found[3]]))


def signature(schema: Any) -> tuple[str, str]:
    """Returns the inputs and the outputs: a letter for a type variable, or the only type."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    letters: dict[str, str] = {}
    for parameter in schema.inputs:
        kinds = allowed.get(parameter.type_str, [parameter.type_str])
        if parameter.is_homogeneous and len(kinds) > 1:
            letters.setdefault(parameter.type_str, chr(ord("a") + len(letters)))

    def written(parameter: Any) -> str:
        kinds = allowed.get(parameter.type_str, [parameter.type_str])
        is_variadic = parameter.option == defs.OpSchema.FormalParameterOption.Variadic
        word = "?"
        if len(kinds) == 1:
            word = str(number(kinds[0]) or "?")
        elif parameter.is_homogeneous:
            word = letters.get(parameter.type_str, "?")
        return word + "*" * is_variadic

    return (
        " ".join(written(p) for p in schema.inputs),
        " ".join(written(p) for p in schema.outputs),
    )


def table() -> str:
    rows = [f"// Written by tests/type_rules.py from onnx.defs of onnx {ONNX}.x: do not edit."]
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    for name, versions in groupby(schemas, lambda s: str(s.name)):
        before = None
        for schema in versions:
            row = ("", "") if schema.deprecated else signature(schema)
            if row != before:
                rows.append(f'{{"{name}", {schema.since_version}, "{row[0]}", "{row[1]}"}},')
            before = row
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
