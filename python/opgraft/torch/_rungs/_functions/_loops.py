"""Loops of ONNX, whose steps are written like the rest of a function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import onnx_ir as ir

from opgraft.torch import _private
from opgraft.torch._rungs import _nodes
from opgraft.torch._rungs._functions import Value


def repeat(
    count: Value,
    states: Sequence[tuple[Value, ir.DataType]],
    step: Callable[..., tuple[Value, Sequence[Value]]],
) -> Sequence[Value]:
    """Adds a loop of at most `count` steps and returns the last states. `step` gets the number of
    the step and the states; it returns whether to go on, and the new states. It may use values
    from outside."""

    def typed(name: str, kind: ir.DataType, shape: ir.Shape | None = None) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(kind), shape=shape)

    number = typed("loop_number", ir.DataType.INT64, ir.Shape([]))
    goes_on = typed("loop_goes_on", ir.DataType.BOOL, ir.Shape([]))
    kinds = [kind for _, kind in states]
    given = [typed(f"loop_state_{place}", kind) for place, kind in enumerate(kinds)]
    nodes = _private.recorder().nodes
    before = len(nodes)
    still, results = step(number, *given)
    # A state must not leave the loop as it came in.
    results = _nodes_of("Identity", [still, *results])
    body = nodes[before:]
    del nodes[before:]
    made = itertools.chain.from_iterable(node.outputs for node in body)
    for place, value in enumerate(made):
        value.name = f"loop_{place}"
    for value, kind in zip(results, [ir.DataType.BOOL, *kinds], strict=True):
        value.type = ir.TensorType(kind)
    results[0].shape = ir.Shape([])
    graph = ir.Graph([number, goes_on, *given], results, nodes=body, name="loop")
    starts = [start for start, _ in states]
    return _nodes.append("", "Loop", [count, None, *starts], {"body": graph}, len(states))


def _nodes_of(op_type: str, values: Sequence[Value]) -> list[Value]:
    return [_nodes.append("", op_type, [value], {}, 1)[0] for value in values]
