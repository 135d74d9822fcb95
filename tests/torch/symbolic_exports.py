"""What the tests of symbolic functions share: operators to register them for, and exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
from opgraft.torch._legacy import _symbolic  # noqa: E402

X = torch.linspace(-2, 2, 12).reshape(4, 3)
LIBRARY = torch.library.Library("symbolic_test", "FRAGMENT")


def declare(schema: str, function: Callable[..., Any]) -> Any:
    """An operator of torch, symbolic_test::…, that has a translation only where one is given."""
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    return getattr(torch.ops.symbolic_test, name)


def module(function: Callable[..., Any]) -> Any:
    made = torch.nn.Module().eval()
    made.forward = function
    return made


def export(
    function: Callable[..., Any], *args: Any, opset: int | None = None, **options: Any
) -> Any:
    program = torch.onnx.export(
        module(function),
        args,
        verbose=False,
        opset_version=opset,
        custom_translation_table=_symbolic.translations(opset),
        **options,
    )
    onnx.checker.check_model(without_custom_nodes(program.model_proto))
    return program


def without_custom_nodes(model: Any) -> Any:
    """For the checker, which knows no others."""
    domains = {entry.domain for entry in model.opset_import} - {""}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.domain in domains:
            for name in node.output:
                model.graph.node.append(onnx.helper.make_node("Identity", node.input[:1], [name]))
        else:
            model.graph.node.append(node)
    return model


def node_names(program: Any) -> list[str]:
    return [f"{node.domain}::{node.op_type}" for node in program.model.graph]


def assert_same(program: Any, function: Callable[..., Any], *args: Any) -> None:
    session = opgraft.InferenceSession(program.model_proto)
    inputs = {
        value.name: arg.numpy() for value, arg in zip(session.get_inputs(), args, strict=True)
    }
    expected = function(*args)
    for given, right in zip(
        session.run(None, inputs),
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_allclose(given, right.numpy(), rtol=1e-4, atol=1e-6)
