"""The table of operators that changed between opsets, against onnx.defs, which it was read from."""

from __future__ import annotations

import onnx
import pytest
from onnx import defs, helper

import opgraft

# An ONNX Runtime for each limit that there is, and that limit.
RUNTIMES = {"1.20.1": 21, "1.22.1": 22, "1.23.2": 23, "1.24.4": 25, "1.31.1": 26}
OPERATORS = sorted(
    {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
)


def since_version(operator: str, opset: int) -> int | None:
    return defs.get_schema(operator, opset).since_version if defs.has(operator, opset) else None


def is_lowered(operator: str, opset: int, runtime: str) -> bool:
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", opset)])
    model.graph.node.append(helper.make_node(operator, [], []))
    try:
        prepared = onnx.ModelProto.FromString(opgraft.prepare(model, runtime=runtime).bytes)
    except opgraft.ModelError as error:
        assert f"have changed: {operator}." in str(error)
        return False
    assert prepared.opset_import[0].version == RUNTIMES[runtime]
    return True


@pytest.mark.parametrize(
    ("runtime", "opset"),
    [
        (runtime, opset)
        for runtime, limit in RUNTIMES.items()
        for opset in range(limit + 1, defs.onnx_opset_version() + 1)
    ],
)
def test_lowered_just_where_no_operator_changed(runtime: str, opset: int) -> None:
    expected = {
        operator: since_version(operator, RUNTIMES[runtime]) == since_version(operator, opset)
        for operator in OPERATORS
        if since_version(operator, opset) is not None
    }
    assert {operator: is_lowered(operator, opset, runtime) for operator in expected} == expected


def test_an_opset_that_is_not_known_yet_is_not_lowered() -> None:
    assert not is_lowered("Add", defs.onnx_opset_version() + 1, "1.31.1")
