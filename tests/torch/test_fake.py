"""The fake functions of operators of ours: compile, export, opcheck, and sizes that are symbols."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from eager_operators import pack_operators, python_operators

import opgraft
import opgraft.torch
from opgraft.torch._eager import _sizes

torch = pytest.importorskip("torch", reason="torch is not installed")

X = torch.rand(3, 4)


@pytest.mark.parametrize(
    ("operator", "args", "kwargs"),
    [
        (python_operators.Cube, (X,), {}),
        (python_operators.Cube, (X.clone().requires_grad_(),), {}),
        (python_operators.Cube, (X.T,), {}),
        (python_operators.Affine, (X, None, X), {"factor": 2.0, "signs": [1]}),
        (python_operators.Affine, (X.clone().requires_grad_(),), {}),  # without a backward
        (python_operators.Join, ([X, X.clone().requires_grad_()],), {"axis": 1}),
        (python_operators.Extremes, (X,), {}),
        (python_operators.Rows, (X[:2],), {"outputs": 2}),
        (python_operators.Distinct, (X,), {}),
        (python_operators.AddOut, (X, X[:1]), {}),
        (python_operators.Count, (X,), {}),
        (pack_operators.Copy, (X,), {}),
        (pack_operators.Copy, (X.T,), {}),
        (pack_operators.Add, (X, X[0]), {}),
        (pack_operators.Affine, (X, X), {"mode": "negate", "labels": ["x"]}),
        (pack_operators.Sum, ([X, X, X],), {}),
        (pack_operators.Halves, (X,), {}),
        (pack_operators.Repeat, (X,), {"outputs": 3}),
        (pack_operators.Windows, (X[0].clone(),), {"width": 3}),
        (pack_operators.Distinct, (X,), {}),
    ],
)
def test_opcheck(operator: Any, args: Any, kwargs: Any) -> None:
    tests = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if operator is not python_operators.Affine or not args[0].requires_grad:
        tests.append("test_aot_dispatch_dynamic")  # it asks for the gradient
    if operator is python_operators.Count:
        tests.remove("test_schema")  # it counts its calls
        tests.remove("test_aot_dispatch_dynamic")
    results = torch.library.opcheck(operator.default, args, kwargs, test_utils=tests)
    assert set(results.values()) == {"SUCCESS"}


def model(x: Any) -> Any:
    low, high, _ = python_operators.Extremes(python_operators.Cube(x) * 2)
    joined = python_operators.Join([low, pack_operators.Copy(high)])
    return pack_operators.Windows(joined, width=2).sin()


def is_like_eager(function: Callable[..., Any], backend: str, *args: Any) -> bool:
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=True)
    return all(torch.allclose(compiled(one), function(one)) for one in args)


def test_compile() -> None:
    assert is_like_eager(model, "aot_eager", torch.rand(3, 4), torch.rand(6, 5), torch.rand(2, 2))


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
def test_compile_by_inductor() -> None:
    assert is_like_eager(model, "inductor", torch.rand(3, 4), torch.rand(6, 5).T)


def test_compile_refuses_at_once_what_eager_refuses() -> None:
    compiled = torch.compile(lambda x: python_operators.Affine(x), backend="eager", fullgraph=True)
    with pytest.raises(
        Exception, match="Affine: input 0, 'x', is float16, expected one of float32"
    ):
        compiled(X.half())


def test_compile_what_depends_on_values() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for operators in (python_operators, pack_operators):
            function = lambda x: operators.Distinct(x) + 1  # noqa: B023, E731
            assert is_like_eager(function, "aot_eager", torch.tensor([1.0, 2, 1, 3]))


class Module(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported_shape(function: Callable[..., Any], *inputs: Any, dims: Any) -> str:
    """The shape of the result, in terms of the names in `dims`, as torch.export sees it."""
    program = torch.export.export(Module(function), inputs, dynamic_shapes=(tuple(dims),))
    symbols: dict[str, str] = {}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, named in zip(placeholders, dims, strict=True):
        for axis, dim in named.items():
            if not isinstance(dim, type(torch.export.Dim.AUTO)):
                symbols[str(node.meta["val"].shape[axis])] = dim.__name__
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    text = ", ".join(str(size) for size in output.args[0][0].meta["val"].shape)
    for symbol, name in symbols.items():
        text = text.replace(symbol, name)
    return text


N, M = torch.export.Dim("n", min=4, max=100), torch.export.Dim("m", min=4, max=100)


def test_export_with_symbols() -> None:
    x = torch.rand(6, 5)
    both = {0: N, 1: M}
    assert exported_shape(python_operators.Cube, x, dims=[both]) == "n, m"
    assert exported_shape(pack_operators.Copy, x, dims=[both]) == "n, m"
    joined = exported_shape(lambda a: python_operators.Join([a, a, a], axis=1), x, dims=[both])
    assert joined == "n, 3*m"
    row = torch.rand(1, 5)
    for add in (python_operators.AddOut, pack_operators.Add):
        assert exported_shape(add, x, row, dims=[both, {1: M}]) == "n, m"
        # Which of two sizes is the result's cannot be told, unless they are the same.
        auto = torch.export.Dim.AUTO
        assert exported_shape(add, x, x + 1, dims=[both, {0: auto, 1: auto}]) == "n, m"
    assert exported_shape(pack_operators.Windows, torch.rand(9), dims=[{0: N}]) == "n - 1, 2"
    for distinct in (python_operators.Distinct, pack_operators.Distinct):
        assert exported_shape(distinct, x, dims=[both]) == "u0"


def test_export_in_strict_mode() -> None:
    program = torch.export.export(Module(model), (torch.rand(3, 4),), strict=True)
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"eager_py.Cube.default", "eager_pack.Windows.default"} <= names
    x = torch.rand(3, 4)
    assert torch.allclose(program.module()(x), model(x))


def test_meta_tensors() -> None:
    x = torch.rand(3, 4, device="meta")
    for operator in (python_operators.Cube, pack_operators.Copy):
        y = operator(x)
        assert y.device.type == "meta" and y.shape == (3, 4) and y.dtype == torch.float32
    low, _, place = python_operators.Extremes(x)
    assert low.shape == (3,) and place.dtype == torch.int64


def test_a_shape_that_nobody_tells() -> None:
    for operator, fix in (
        (python_operators.NoRule, "@opgraft.op.*shape=lambda x: .*None"),
        (pack_operators.Unknown, r"\.Shape\(.*opgraft::Dim\(\)"),
    ):
        with pytest.raises(opgraft.Error, match="output 0 is not known before it runs.*" + fix):
            torch.export.export(Module(operator), (X,))


def test_a_rule_that_refuses() -> None:
    with pytest.raises(opgraft.ModelError, match="Windows: expected a vector"):
        torch.export.export(Module(pack_operators.Windows), (X,))

    @opgraft.op("fake.test::Bad", shape=lambda x: (x[0] + 0.5,))
    def bad(x: np.ndarray) -> np.ndarray:
        return x

    with pytest.raises(opgraft.Error, match="the shape rule of fake.test::Bad must return a shape"):
        torch.ops.fake_test.Bad(X.to("meta"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("a", 5),
        ("(a+b)", 8),
        ("((a*b)-1)", 14),
        ("(a/b)", 1),
        ("((a+(b*2))/(b-1))", 5),
        ("-b + 2*a", 7),
        ("a+b", 8),
        ("(a%b)", 2),
        ("(a)//(b)", 1),
    ],
)
def test_expressions(text: str, value: int) -> None:
    assert _sizes.evaluate(text, {"a": 5, "b": 3}) == value


@pytest.mark.parametrize("text", ["", "c", "(a+b", "a+", "(a b)", ")", "(a+b)c", "a.b"])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(opgraft.Error, match="no expression of sizes"):
        _sizes.evaluate(text, {"a": 5, "b": 3})
