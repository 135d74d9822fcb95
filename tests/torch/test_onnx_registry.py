"""OnnxRegistry and dynamo_export with it: torch's tutorial of them is run in tests/seeds."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from read_once import functions_read_once  # noqa: F401

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
onnxscript = pytest.importorskip("onnxscript", reason="onnxscript is not installed")

from onnxscript import FLOAT, opset18  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch import (  # noqa: E402
    ExportOptions,
    OnnxRegistry,
    _private,
    dynamo_export,
)

X = torch.linspace(-2, 2, 12).reshape(4, 3)
MY = onnxscript.values.Opset("my.domain", 1)


@onnxscript.script(MY)
def my_gelu(x, approximate: str = "none"):
    return MY.Gelu(x, approximate=approximate)


@onnxscript.script(MY)
def annotated_gelu(x: FLOAT[...], approximate: str = "none") -> FLOAT[...]:
    return opset18.Neg(x)


@onnxscript.script(MY)
def my_frexp(x):
    return opset18.Mul(x, x), opset18.Neg(x)


@onnxscript.script(MY)
def inner(x):
    return opset18.Add(x, x)


@onnxscript.script(MY)
def outer(x):
    return inner(inner(x))


def plain(x: Any, approximate: str = "none") -> Any:
    """Not of onnxscript, but calls what is."""
    return opset18.Add(opset18.Neg(x), x)


def options(registry: OnnxRegistry, **more: Any) -> ExportOptions:
    return ExportOptions(onnx_registry=registry, **more)


def nodes(program: Any) -> list[str]:
    return [f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node]


class Gelu(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)


def test_what_is_registered() -> None:
    registry = OnnxRegistry()
    assert registry.opset_version == 18
    assert registry.is_registered_op(namespace="aten", op_name="gelu", overload="default")
    assert registry.is_registered_op("aten", "gelu")
    assert registry.is_registered_op("aten", "add", "Tensor")
    assert registry.is_registered_op("_operator", "add")
    assert not registry.is_registered_op("aten", "gelu", "out")
    assert not registry.is_registered_op("my_library", "my_operator")
    assert registry.get_op_functions("my_library", "my_operator") is None
    names = registry._all_registered_ops()
    assert {"aten::gelu.default", "aten::add.Tensor"} < names
    assert "my_library::my_operator.default" not in names


def test_registering() -> None:
    registry = OnnxRegistry()
    before = registry.get_op_functions("aten", "gelu")
    assert before
    registry.register_op(my_gelu, "aten", "gelu")
    registry.register_op(namespace="my_library", op_name="my_operator", function=plain)
    registry.register_op(my_gelu, "aten", "gelu", "default", is_complex=True)
    functions = registry.get_op_functions("aten", "gelu", overload="default")
    assert functions and functions[: len(before)] == before
    own, for_complex = functions[len(before) :]
    assert (own.onnx_function, own.op_full_name) == (my_gelu, "aten::gelu.default")
    assert (own.is_custom, own.is_complex) == (True, False)
    assert (for_complex.is_custom, for_complex.is_complex) == (True, True)
    assert not any(function.is_custom for function in before)
    assert registry.is_registered_op("my_library", "my_operator", "default")
    assert "my_library::my_operator.default" in registry._all_registered_ops()
    assert not OnnxRegistry().is_registered_op("my_library", "my_operator"), "each has its own"


def test_the_signatures_are_those_that_torch_had() -> None:
    parameters = {
        name: list(inspect.signature(getattr(OnnxRegistry, name)).parameters)[1:]
        for name in ("register_op", "get_op_functions", "is_registered_op")
    }
    operator = ["namespace", "op_name", "overload"]
    assert parameters == {
        "register_op": ["function", *operator, "is_complex"],
        "get_op_functions": operator,
        "is_registered_op": operator,
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((None, "aten", "gelu"), TypeError),
        ((my_gelu, "aten::gelu", "gelu"), ValueError),
        ((my_gelu, "", "gelu"), ValueError),
    ],
)
def test_what_makes_no_sense(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    registry = OnnxRegistry()
    with pytest.raises(error):
        registry.register_op(*arguments)
    assert registry.translations() == {}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (my_gelu, ["my.domain::Gelu"]),  # whose result has no annotation
        (annotated_gelu, ["::Neg"]),
        (plain, ["::Neg", "::Add"]),
    ],
)
def test_functions_of_all_kinds(function: Any, expected: list[str]) -> None:
    registry = OnnxRegistry()
    registry.register_op(plain, "aten", "gelu")
    registry.register_op(function, "aten", "gelu")  # the last counts
    program = dynamo_export(Gelu(), X, export_options=options(registry))
    assert nodes(program) == expected


def test_a_function_keeps_its_attributes() -> None:
    registry = OnnxRegistry()
    registry.register_op(my_gelu, "aten", "gelu")
    program = dynamo_export(
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        X,
        export_options=options(registry),
    )
    (node,) = program.model_proto.graph.node
    assert [attribute.s for attribute in node.attribute] == [b"tanh"]


def test_several_outputs_and_functions_that_call_functions() -> None:
    registry = OnnxRegistry()
    registry.register_op(my_frexp, "aten", "frexp", "Tensor")
    registry.register_op(outer, "aten", "erfinv")
    program = dynamo_export(
        lambda x: (*torch.frexp(x), torch.erfinv(x)), X, export_options=options(registry)
    )
    assert nodes(program) == ["::Mul", "::Neg", "::Add", "::Add"]
    for given, right in zip(program(X), (X * X, -X, 4 * X), strict=True):
        torch.testing.assert_close(given, right)


def test_functions_for_complex_inputs() -> None:
    """A complex tensor comes as pairs: the function gets them so."""
    before = vars(_private.private("torch.onnx._internal.exporter._registration").ONNXRegistry)
    original = before["from_torchlib"]
    registry = OnnxRegistry()
    registry.register_op(lambda x: opset18.Neg(x), "aten", "sgn", is_complex=True)
    registry.register_op(lambda x: opset18.Abs(x), "aten", "sgn")

    def function(x: Any, y: Any) -> Any:
        return torch.sgn(x), torch.sgn(y)

    z = torch.complex(X, X + 1)
    program = dynamo_export(function, z, X, export_options=options(registry))
    assert nodes(program) == ["::Neg", "::Abs"]
    given = program(z, X)
    np.testing.assert_allclose(given[0], -torch.view_as_real(z))
    np.testing.assert_allclose(given[1], X.abs())
    assert before["from_torchlib"] is original, "torch is as it was"


def test_operators_that_are_not_there_are_told_of() -> None:
    registry = OnnxRegistry()
    registry.register_op(my_gelu, "my_library", "absent")
    with pytest.warns(UserWarning, match="torch has no operator my_library::absent.default"):
        assert registry.translations() == {}


def test_symbolic_functions_count_too_and_the_registry_first(monkeypatch: Any) -> None:
    from opgraft.torch._legacy import _symbolic

    monkeypatch.setattr(_symbolic, "_registered", {})
    opgraft.torch.register_custom_op_symbolic("::gelu", lambda g, x, *_: g.op("my::Symbolic", x), 1)
    assert nodes(dynamo_export(Gelu(), X)) == ["my::Symbolic"]
    registry = OnnxRegistry()
    registry.register_op(my_gelu, "aten", "gelu")
    program = dynamo_export(Gelu(), X, export_options=options(registry))
    assert nodes(program) == ["my.domain::Gelu"]
