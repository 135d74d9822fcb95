"""Compares the table of opset changes (src/model/opset_changes.cc) with onnx.defs and its tests."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import opset_changes
import pytest
from onnx import defs, helper, shape_inference

import opgraft

# One ONNX Runtime for each opset limit, and the limit.
RUNTIMES = {"1.20.1": 21, "1.22.1": 22, "1.23.2": 23, "1.24.4": 25, "1.31.1": 26}
TABLE = Path(__file__).resolve().parents[1] / "src" / "model" / "opset_changes.inc"

# All changes in onnx.defs beyond wider types were reviewed; opset_changes.cc has the results. For
# nodes without the new attributes and inputs, these operators differ from the previous opset:
DIFFERENT = {(28, "BitShift")}
# These are the same by themselves; nodes with new attributes may differ (see the C++ test):
SAME = {
    *((22, name) for name in "AveragePool Dropout EyeLike LSTM MaxPool".split()),
    *((23, name) for name in "DequantizeLinear QuantizeLinear Squeeze Unsqueeze".split()),
    *((24, name) for name in "Attention Cast CastLike QuantizeLinear".split()),
    *((25, name) for name in "Attention QuantizeLinear Transpose".split()),
    (27, "Range"),
    *(
        (28, name)
        for name in "Mod QuantizeLinear ReduceLogSum ReduceLogSumExp SpaceToDepth".split()
    ),
}

the_onnx_of_the_table = pytest.mark.skipif(
    not onnx.__version__.startswith(opset_changes.ONNX + "."),
    reason=f"the table was read from onnx {opset_changes.ONNX}",
)


@the_onnx_of_the_table
def test_the_table_is_what_onnx_defs_tells() -> None:
    """If this fails: python tests/opset_changes.py > src/model/opset_changes.inc, and review."""
    assert TABLE.read_text() == opset_changes.table()


@the_onnx_of_the_table
def test_the_newest_ir_version_is_that_of_onnx() -> None:
    """If this fails: read what is new in onnx.proto, then raise kNewestKnownIr."""
    limits = TABLE.with_name("runtime_limits.h").read_text()
    assert f"kNewestKnownIr = {onnx.IR_VERSION};" in limits


@the_onnx_of_the_table
def test_every_revised_operator_was_reviewed() -> None:
    revised = {
        (opset, name)
        for (opset, kind), names in opset_changes.changes().items()
        if kind == "kRevised"
        for name in names
    }
    assert revised == SAME | DIFFERENT


def is_lowered(operator: str, opset: int, runtime: str) -> bool:
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", opset)])
    model.graph.node.append(helper.make_node(operator, [], []))
    try:
        prepared = onnx.ModelProto.FromString(opgraft.prepare(model, runtime=runtime).bytes)
    except opgraft.ModelError as error:
        if f", operator {operator}: " in str(error):
            # It has a body, which a node without inputs does not fit. No runtime runs Swish itself.
            return operator == "Swish" and RUNTIMES[runtime] >= 24
        words = (f"have changed in between: {operator}", f"the same in both: {operator}")
        assert any(one in str(error) for one in words)
        return False
    assert prepared.opset_import[0].version == RUNTIMES[runtime]
    return True


@the_onnx_of_the_table
@pytest.mark.parametrize(
    ("runtime", "opset"),
    [
        (runtime, opset)
        for runtime, limit in RUNTIMES.items()
        for opset in range(limit + 1, defs.onnx_opset_version() + 1)
    ],
)
def test_lowered_just_where_every_change_on_the_way_allows_it(runtime: str, opset: int) -> None:
    def allows(operator: str, step: int) -> bool:
        kind = opset_changes.kind(operator, step)
        return kind in (None, "kWidened") or (step, operator) in SAME

    steps = range(RUNTIMES[runtime] + 1, opset + 1)
    expected = {
        operator: all(allows(operator, step) for step in steps)
        for operator in opset_changes.operators()
        if defs.has(operator, opset)
    }
    assert {operator: is_lowered(operator, opset, runtime) for operator in expected} == expected


def test_an_opset_that_is_not_known_yet_is_not_lowered() -> None:
    assert not is_lowered("Add", 29, "1.31.1")


@cache
def onnx_tests() -> list[Any]:
    """Returns onnx's own tests of the operators in the table: models, inputs, outputs."""
    from onnx.backend.test.case.node import collect_testcases

    changed = {name for names in opset_changes.changes().values() for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in collect_testcases(None) if case.model is not None]
    return [case for case in cases if changed & {node.op_type for node in case.model.graph.node}]


def lowered(runtime: str | None = None) -> Iterator[tuple[Any, opgraft.PreparedModel]]:
    for case in onnx_tests():
        try:
            prepared = opgraft.prepare(case.model, runtime=runtime)
        except opgraft.ModelError:
            continue
        if prepared.bytes != case.model.SerializeToString() and not prepared.rescues:
            yield case, prepared


def inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto] | None:
    for output in model.graph.output:
        output.ClearField("type")
    try:
        return list(shape_inference.infer_shapes(model, strict_mode=True).graph.output)
    except Exception:  # a type that the older version does not support
        return None


@pytest.mark.exhaustive
def test_shapes_are_inferred_as_before() -> None:
    compared = 0
    for case, prepared in lowered("1.19.2"):
        original = onnx.ModelProto.FromString(case.model.SerializeToString())
        before = inferred(original)
        after = inferred(onnx.ModelProto.FromString(prepared.bytes))
        if before is None or after is None:
            continue
        assert after == before, case.name
        compared += 1
    assert compared > 100


# Wrong in ONNX Runtime in every opset: a sequence of length 0 in older versions, an output_shape.
KNOWN = {"test_reversesequence_batch", "test_maxunpool_export_with_output_shape"}
RANDOM = {"Bernoulli", "Dropout", "RandomNormal", "RandomUniform", "Multinomial"}


def as_array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@pytest.mark.exhaustive
def test_the_runtime_computes_what_the_newer_opset_says() -> None:
    """Each is refused by the runtime, mostly because of its types, or gives correct results."""
    outcomes: Counter[str] = Counter()
    onnxruntime.set_default_logger_severity(4)
    try:
        for case, prepared in lowered():
            is_random = RANDOM & {node.op_type for node in case.model.graph.node}
            if is_random or "bernoulli" in case.name or case.name in KNOWN:
                continue
            for given, expected in case.data_sets:
                try:
                    session = onnxruntime.InferenceSession(prepared.bytes)
                    names = [value.name for value in session.get_inputs()]
                    arrays = [as_array(value) for value in given]
                    arrays = [a if isinstance(a, list) else np.asarray(a) for a in arrays]
                    results = session.run(None, dict(zip(names, arrays, strict=False)))
                except Exception:
                    outcomes["refused"] += 1
                    continue
                for result, value in zip(results, expected, strict=True):
                    compare(result, as_array(value), case)
                outcomes["right"] += 1
    finally:
        onnxruntime.set_default_logger_severity(2)
    assert outcomes["right"] > 100, outcomes


def compare(result: Any, expected: Any, case: Any) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(result) == len(expected), case.name
        for one, other in zip(result, expected, strict=True):
            compare(one, other, case)
        return
    if expected is None:
        assert result is None, case.name
        return
    result, expected = np.asarray(result), np.asarray(expected)
    if result.dtype != expected.dtype:  # a type that NumPy lacks, as bytes
        assert result.dtype.itemsize == expected.dtype.itemsize, case.name
        expected = expected.view(result.dtype)
    np.testing.assert_allclose(
        result, expected, rtol=case.rtol or 1e-3, atol=1e-6, err_msg=case.name
    ) if result.dtype.kind in "fiub" else np.testing.assert_array_equal(result, expected)
