"""What symbolic functions (register_custom_op_symbolic) can do in exports by torch.export."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from read_once import functions_read_once  # noqa: F401
from symbolic_exports import LIBRARY, X, assert_same, declare, export, node_names, torch

from opgraft.torch import _private, register_custom_op_symbolic
from opgraft.torch._legacy import _symbolic, _symbolic_call

# isort: split
import onnxscript
from torch.onnx import symbolic_helper, symbolic_opset9


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is its own."""
    monkeypatch.setattr(_symbolic, "_registered", {})


def test_attributes_inputs_and_outputs() -> None:
    """Every kind of attribute, an input that is left out, constants, several outputs."""
    two = declare(
        "two(Tensor x, Tensor? y=None, int k=3, float f=0.5, str s='a', int[2] sizes=[1, 2], "
        "bool b=True, ScalarType? dtype=None) -> (Tensor, Tensor)",
        lambda x, y=None, k=3, f=0.5, s="a", sizes=(1, 2), b=True, dtype=None: (x + k, x * f),
    )
    seen: list[Any] = []

    @symbolic_helper.parse_args("v", "v", "i", "f", "s", "is", "b", "i")
    def symbolic(g, x, y, k, f, s, sizes, b, dtype):
        seen.append((symbolic_helper._is_none(y), k, f, s, sizes, b, dtype))
        return g.op(
            "my::Two",
            x,
            y,
            torch.tensor([7.0]),
            outputs=2,
            k_i=k,
            f_f=f,
            s_s=s,
            sizes_i=sizes,
            floats_f=[0.5, 1.5],
            names_s=["p", "q"],
            tensor_t=torch.ones(2),
            absent_i=None,
        )

    register_custom_op_symbolic("symbolic_test::two", symbolic, 9)
    program = export(
        lambda x: sum(two(x, k=5, s="b", sizes=[4, 6], dtype=torch.int32)), X, optimize=False
    )
    assert seen == [(True, 5, 0.5, "b", [4, 6], True, 3)]  # 3 is what TorchScript calls int32
    (node,) = [node for node in program.model_proto.graph.node if node.domain == "my"]
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    tensor = onnx.numpy_helper.to_array(given.pop("tensor"))
    np.testing.assert_array_equal(tensor, np.ones(2, np.float32))
    assert given == {
        "k": 5,
        "f": 0.5,
        "s": b"b",
        "sizes": [4, 6],
        "floats": [0.5, 1.5],
        "names": [b"p", b"q"],
    }
    assert node.input[0] == "x" and node.input[1] == "" and node.input[2]
    assert len(node.output) == 2


def test_what_torch_helps_with() -> None:
    """Shapes and types of values, constants, torch's own symbolic functions, any type of number."""
    helped = declare("helped(Tensor x, int axis, Scalar a) -> Tensor", lambda x, axis, a: (
        torch.nn.functional.gelu(x).sum(axis, keepdim=True) * x.shape[1] + a
    ))  # fmt: skip
    seen: list[Any] = []

    def symbolic(g, x, axis, a):
        seen.append((symbolic_helper._get_tensor_sizes(x), symbolic_helper._get_tensor_rank(x)))
        assert symbolic_helper._is_value(a)
        axes = g.op("Constant", value_t=torch.tensor([symbolic_helper._maybe_get_const(axis, "i")]))
        y = g.op("ReduceSum", symbolic_opset9.gelu(g, x, "none"), axes, keepdims_i=1)
        size = symbolic_helper._get_tensor_dim_size(x, 1)
        # The constants are of other types than x, as Python's numbers are.
        y = g.op("Mul", y, g.op("Constant", value_t=torch.tensor(float(size), dtype=torch.double)))
        return symbolic_opset9.add(g, y, a).setType(x.type())

    register_custom_op_symbolic("symbolic_test::helped", symbolic, 9)

    def function(x: Any) -> Any:
        return helped(x, 1, 2)

    program = export(function, X, dynamic_shapes=({0: torch.export.Dim("n")},))
    assert seen == [([None, 3], 2)]
    assert_same(program, function, X)
    assert_same(program, function, X[:2])


def test_lists_and_sizes_that_are_not_known() -> None:
    join = declare(
        "join(Tensor[] xs, SymInt[] shape) -> Tensor",
        lambda xs, shape: torch.cat(xs).reshape(shape),
    )

    @torch.library.register_fake("symbolic_test::join", lib=LIBRARY)
    def _(xs: Any, shape: Any) -> Any:
        return xs[0].new_empty(shape)

    def symbolic(g, xs, shape):
        parts = symbolic_helper._unpack_list(xs)
        return g.op("Reshape", g.op("Concat", *parts, axis_i=0), shape)

    register_custom_op_symbolic("symbolic_test::join", symbolic, 9)

    def function(x: Any) -> Any:
        return join([x, x + 1], [3, 2 * x.shape[0]])

    program = export(function, X, dynamic_shapes=({0: torch.export.Dim("n")},))
    assert_same(program, function, X)
    assert_same(program, function, X[:1])


def test_a_sequence_as_input() -> None:
    first = declare("first(Tensor[] xs) -> Tensor", lambda xs: xs[0].clone())
    register_custom_op_symbolic(
        "symbolic_test::first",
        lambda g, xs: g.op("SequenceAt", xs, g.op("Constant", value_t=torch.tensor(0))),
        9,
    )

    def function(x: Any) -> Any:
        return first([x, x + 1])

    assert_same(export(function, X, optimize=False), function, X)


def test_a_list_that_the_function_makes() -> None:
    """It has no type, which would crash torch."""
    tops = declare("tops(Tensor x) -> Tensor", lambda x: x.clone())

    def symbolic(g, x):
        values = g.op("prim::ListConstruct", x, x)
        return g.op("SequenceAt", values, g.op("Constant", value_t=torch.tensor(1)))

    register_custom_op_symbolic("symbolic_test::tops", symbolic, 9)
    assert_same(export(tops, X, optimize=False), tops, X)


def test_graphs_within_nodes() -> None:
    """Two calls with an If each: what is in the branches must not get into each other's way."""
    either = declare("either(Tensor x) -> Tensor", lambda x: x + 1 if x.sum() > 0 else x - 1)

    @torch.library.register_fake("symbolic_test::either", lib=LIBRARY)
    def _(x: Any) -> Any:
        return torch.empty_like(x)

    def symbolic(g, x):
        from torch.onnx._internal.torchscript_exporter import jit_utils

        condition = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), torch.tensor(0.0))
        output, branches, _ = jit_utils.add_op_with_blocks(g, "If", condition, n_blocks=2)
        for branch, operator in zip(branches, ("Add", "Sub"), strict=True):
            value = branch.op(operator, x, torch.tensor(1.0))
            branch.block.registerOutput(branch.op("Identity", value))
        return output

    register_custom_op_symbolic("symbolic_test::either", symbolic, 9)

    def function(x: Any) -> Any:
        return either(either(x) + x)

    for optimize in (False, True):
        program = export(function, X, optimize=optimize)
        for x in (X + 5, X - 5):
            assert_same(program, function, x)


def test_functions_of_onnxscript() -> None:
    from onnxscript import opset18

    domain = onnxscript.values.Opset("my.functions", 1)

    @onnxscript.script(domain)
    def Inner(x):
        return opset18.Add(x, x)

    @onnxscript.script(domain)
    def Twice(x):
        return Inner(x)

    twice = declare("twice(Tensor x) -> Tensor", lambda x: x + x)
    register_custom_op_symbolic(
        "symbolic_test::twice", lambda g, x: g.onnxscript_op(Twice, x).setType(x.type()), 9
    )
    assert_same(export(twice, X), twice, X)
    assert "my.functions::Twice" not in _private.registered_symbolics()  # torch would keep it


def test_an_input_given_back() -> None:
    """Neither the input nor another output of the model may lose its name by it."""
    same = declare("same(Tensor x) -> (Tensor, Tensor)", lambda x: (x.clone(), x.clone()))
    register_custom_op_symbolic("symbolic_test::same", lambda g, x: (x, x), 9)
    program = export(same, X, optimize=False)
    (given,) = program.model.graph.inputs
    assert (
        given.name == "args_0" and len({value.name for value in program.model.graph.outputs}) == 2
    )
    assert_same(program, same, X)


def test_an_output_that_is_left_out() -> None:
    pair = declare("pair(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x + 2))
    register_custom_op_symbolic(
        "symbolic_test::pair", lambda g, x: (g.op("Add", x, torch.tensor(1.0)), None), 9
    )

    def function(x: Any) -> Any:
        return pair(x)[0]

    assert_same(export(function, X), function, X)


def test_how_many_values_a_function_gives() -> None:
    """One in a tuple is one, several for an operator that gives a list are its elements."""
    one = declare("one(Tensor x) -> Tensor", lambda x: -x)
    some = declare("some(Tensor x) -> Tensor[]", lambda x: [x + 1, -x])
    register_custom_op_symbolic("symbolic_test::one", lambda g, x: (g.op("Neg", x),), 9)
    register_custom_op_symbolic(
        "symbolic_test::some", lambda g, x: [g.op("Add", x, torch.tensor(1.0)), g.op("Neg", x)], 9
    )

    def function(x: Any) -> Any:
        first, second = some(one(x))
        return first * second

    assert_same(export(function, X), function, X)
    register_custom_op_symbolic("symbolic_test::one", lambda g, x: (x, x), 9)
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        export(one, X)
    assert "returned 2 values, but the operator returns 1; return None" in causes(failure.value)


def test_arguments_that_torch_has_added_since() -> None:
    """Document 003 is of a time when gelu had one argument."""
    register_custom_op_symbolic("::gelu", lambda g, x: g.op("com.microsoft::Gelu", x), 1)
    gelu = torch.nn.functional.gelu
    program = export(lambda x: gelu(x) + gelu(x + 1, approximate="none"), X)
    assert node_names(program).count("com.microsoft::Gelu") == 2
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        export(lambda x: gelu(x, approximate="tanh"), X)
    text = causes(failure.value)
    assert (
        "registered for aten.gelu.default, takes 1 arguments besides g, but this call has 2" in text
    )
    assert "gelu(Tensor self, *, str approximate=" in text


def causes(error: BaseException | None) -> str:
    said = []
    while error is not None:
        said.append(str(error))
        error = error.__cause__
    return "\n".join(said)


def test_what_a_function_must_give() -> None:
    register_custom_op_symbolic("::gelu", lambda g, *args: "Gelu", 1)
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        export(lambda x: torch.nn.functional.gelu(x), X)
    assert "returned 'Gelu', not a result of g.op" in causes(failure.value)


def test_what_a_function_raises_comes_through() -> None:
    def symbolic(g, *args):
        raise KeyError("mine")

    register_custom_op_symbolic("::gelu", symbolic, 1)
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        export(lambda x: torch.nn.functional.gelu(x), X)
    assert "mine" in causes(failure.value)


def test_types_of_values() -> None:
    """As torch has them the other way round, and as TorchScript takes them."""
    to_onnx = _private.private("torch.onnx._internal.exporter._core", "torch_dtype_to_onnx_dtype")
    for number, dtype in _symbolic_call.DTYPES.items():
        assert to_onnx(dtype) == number
        graph = _private.ScriptGraph(20)
        assert _private.dtype_of_value(graph.input(dtype, [2])) is dtype
        assert _private.dtype_of_value(graph.input(None, None)) is None


def test_torch_knows_types_best() -> None:
    """What the function says of its output does not count."""
    wide = declare("wide(Tensor x) -> Tensor", lambda x: x.clone())
    register_custom_op_symbolic(
        "symbolic_test::wide",
        lambda g, x: g.op("my::Wide", x).setType(x.type().with_dtype(torch.float64)),
        9,
    )
    (value,) = export(wide, X).model_proto.graph.output
    assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_types_that_symbolic_functions_do_not_know() -> None:
    flag = declare("flag(Tensor x, ScalarType? dtype) -> Tensor", lambda x, dtype: x.clone())
    register_custom_op_symbolic("symbolic_test::flag", lambda g, x, _: g.op("my::Flag", x), 9)
    program = export(lambda x: flag(x.to(torch.uint16), None), X)
    assert node_names(program) == ["::Cast", "my::Flag"]
    with pytest.raises(torch.onnx.OnnxExporterError) as failure:
        export(lambda x: flag(x, torch.uint16), X)
    assert "symbolic functions do not support the type UINT16" in causes(failure.value)
