"""For which operators and opsets a symbolic function holds, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from read_once import functions_read_once  # noqa: F401
from symbolic_exports import X, assert_same, declare, export, node_names, torch

import opgraft.torch
from opgraft.torch import _private, register_custom_op_symbolic, unregister_custom_op_symbolic
from opgraft.torch._legacy import _symbolic

# isort: split
from torch.onnx import symbolic_opset9, symbolic_opset11


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is its own."""
    monkeypatch.setattr(_symbolic, "_registered", {})


def test_one_operator_by_all_its_names() -> None:
    register_custom_op_symbolic("::inverse", lambda g, x: g.op("com.microsoft::Inverse", x), 1)

    def function(x: Any) -> Any:
        return torch.inverse(x) + torch.linalg.inv(x + 1)

    x = torch.eye(3) * 2
    program = export(function, x)
    assert sorted(node_names(program)) == ["::Add", "::Add", *["com.microsoft::Inverse"] * 2]
    assert_same(program, function, x)


def test_a_name_of_its_own_goes_before_the_other_one() -> None:
    register_custom_op_symbolic("::linalg_inv", lambda g, x: g.op("my::Other", x), 1)
    register_custom_op_symbolic("::inverse", lambda g, x: g.op("my::Inverse", x), 1)
    found = _symbolic.registered(20)
    assert set(found) == {"aten::inverse", "aten::linalg_inv"}
    assert found["aten::inverse"] is not found["aten::linalg_inv"]


def test_the_highest_opset_that_is_not_above() -> None:
    for opset in (1, 19, 21):
        register_custom_op_symbolic(
            "::gelu", lambda g, x, _, n=f"V{opset}": g.op(f"my::{n}", x), opset
        )

    def gelu(x: Any) -> Any:
        return torch.nn.functional.gelu(x)

    names = {opset: node_names(export(gelu, X, opset=opset)) for opset in (18, 20)}
    assert names == {18: ["my::V1"], 20: ["my::V19"]}
    register_custom_op_symbolic("::erf", symbolic_opset9.erf, 21)
    assert "aten::erf" not in _symbolic.registered(20)
    assert "aten::erf" in _symbolic.registered(21)


def test_opsets_that_symbolic_functions_do_not_know() -> None:
    """They end with 20, exports do not."""
    register_custom_op_symbolic("::hardtanh", symbolic_opset11.hardtanh, 11)

    def function(x: Any) -> Any:
        return torch.nn.functional.hardtanh(x, -0.5, 1)

    program = export(function, X, opset=23)
    assert program.model.opset_imports[""] == 23
    assert_same(program, function, X)


def test_taking_back() -> None:
    register_custom_op_symbolic("::gelu", lambda g, x: g.op("my::Gelu", x), 1)
    unregister_custom_op_symbolic("aten::gelu", 1)
    assert _symbolic.translations() == {}
    with pytest.warns(UserWarning, match="no symbolic function is registered for 'aten::gelu'"):
        unregister_custom_op_symbolic("::gelu", 1)


def test_what_is_registered_with_torch_counts() -> None:
    thrice = declare("thrice(Tensor x) -> Tensor", lambda x: 3 * x)
    name = "symbolic_test::thrice"
    torch.onnx.register_custom_op_symbolic(name, lambda g, x: g.op("Sum", x, x, x), 9)
    try:
        assert_same(export(thrice, X), thrice, X)
        register_custom_op_symbolic(name, lambda g, x: g.op("my::Thrice", x), 9)
        assert node_names(export(thrice, X)) == ["my::Thrice"]
    finally:
        torch.onnx.unregister_custom_op_symbolic(name, 9)
    assert torch.ops.symbolic_test.thrice.default in _symbolic.translations()  # by Opgraft's own


def test_exports_by_opgraft_find_them() -> None:
    pytest.importorskip("opgraft.torch._export._export")
    register_custom_op_symbolic("::inverse", lambda g, x: g.op("com.microsoft::Inverse", x), 1)
    x = torch.eye(3) * 2
    for function in (torch.inverse, torch.linalg.inv):
        program = opgraft.torch.export(lambda x, call=function: call(x) + 1, (x,))
        names = [f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node]
        assert names == ["com.microsoft::Inverse", "::Add"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inverse", print, 1), "'inverse' is not the name of a torch operator. Fix: write"),
        (("::a b", print, 1), "'::a b' is not the name of a torch operator"),
        (("onnx::Add", print, 1), "'onnx::Add' is ONNX's own"),
        (
            ("::inverse", None, 1),
            "expected a function of g and the operator's arguments, not None",
        ),
        (("::inverse", print, 0), "0 is not an opset"),
        (("::inverse", print, "1"), "'1' is not an opset"),
    ],
)
def test_what_makes_no_sense(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(opgraft.Error) as failure:
        register_custom_op_symbolic(*arguments)
    assert message in str(failure.value)
    assert _symbolic._registered == {}


def test_operators_that_are_not_there_are_told_of() -> None:
    register_custom_op_symbolic("symbolic_test::absent", lambda g, x: x, 1)
    with pytest.warns(UserWarning, match="torch has no operator symbolic_test::absent"):
        assert _symbolic.translations() == {}


def test_names_of_one_operator_have_the_same_arguments() -> None:
    for name, others in _symbolic.ALIASES.items():
        assert arguments_of(name), name
        for other in others:
            assert arguments_of(name) <= arguments_of(other) or (
                arguments_of(other) <= arguments_of(name)
            ), f"{name} and {other}"


def arguments_of(name: str) -> set[tuple[str, ...]]:
    """The types of the arguments of each form of an operator."""
    return {
        tuple(kind for _, kind, _ in _private.parameters_of(overload))
        for overload in _private.functional_overloads(name)
    }


def test_names_of_one_operator_give_the_same() -> None:
    x = torch.eye(3) * 0.5 + 0.1
    given = [[x], [x, x], [[x, x]], [x, 2], [x, 0, 1], [1, x], [x[0], x[1]], [x, [0]], [x, x[0]]]
    compared = 0
    for name, others in _symbolic.ALIASES.items():
        operator = getattr(torch.ops.aten, name.partition("::")[2])
        for other in others:
            second = getattr(torch.ops.aten, other.partition("::")[2])
            for args in given:
                try:
                    expected = operator(*args)
                except (RuntimeError, TypeError, IndexError):
                    continue
                torch.testing.assert_close(second(*args), expected, equal_nan=True)
                compared += 1
                break
    assert compared == sum(map(len, _symbolic.ALIASES.values()))
