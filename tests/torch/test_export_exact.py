"""What is not tried at hard numbers, since ONNX defines it as torch does, is right at them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import onnx_ir as ir  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch._graphs._graph import Place, operator_name  # noqa: E402
from opgraft.torch._program._dispatch import STANDARD, Choice  # noqa: E402
from opgraft.torch._verify import _exact, _probe, _verify  # noqa: E402
from opgraft.torch._verify._part import Parts  # noqa: E402

BINARY = "add sub mul div eq ge gt le lt maximum minimum".split()
SCALAR = "add sub mul div eq ge gt le lt".split()
UNARY = ("abs ceil cos exp floor log neg reciprocal relu round sigmoid sin sqrt tanh").split()


def floats(x: Any, y: Any) -> list[Any]:
    """Each operator of the list, with the arguments that its translation depends on."""
    results = [getattr(torch, name)(x, y) for name in BINARY]
    results += [getattr(torch, name)(x, 0.5) for name in SCALAR]
    results += [getattr(torch, name)(x) for name in UNARY]
    results += [torch.where(x > 0, x, y)]
    for axes in (0, 1, (0, 1)):
        for keep in (True, False):
            results += [x.mean(axes, keep), x.sum(axes, keep)]
    return [*results, x.softmax(0), x.softmax(1)]


def whole(x: Any, y: Any) -> list[Any]:
    names = [name for name in BINARY if name != "div"]
    results = [getattr(torch, name)(x, y) for name in names]
    results += [getattr(torch, name)(x, 3) for name in SCALAR if name != "div"]
    results += [torch.where(x > 0, x, y), x.abs(), x.neg()]
    return [*results, x.sum(0), x.sum((0, 1)), x.sum(1, keepdim=True)]


def truths(x: Any, y: Any) -> list[Any]:
    logic = [torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_not(x)]
    return [*logic, x == y, torch.where(x, x, y), x.sum(0)]


MODELS = {
    torch.float32: floats,
    torch.float64: floats,
    torch.int64: whole,
    torch.bool: truths,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, Any], list[str]]:
    """By operator that is on the list and type that it was met in, what is wrong with it."""
    found: dict[tuple[str, Any], list[str]] = {}

    def probe(translated: Any, program: Any) -> Any:
        parts = Parts(translated)
        for choices in _probe.by_key(translated.choices.values(), ()).values():
            if _exact.is_exact(choices[0]):
                outcome = _probe.tried(choices[0], parts, program)
                node = choices[0].node
                wrong = found.setdefault((operator_name(node.target), _exact.type_of(node)), [])
                wrong += filter(None, (outcome.wrong, outcome.not_numbers))
        return _probe.Probed()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_verify, "probe", probe)
        for dtype, model in MODELS.items():
            x, y = ((torch.arange(400).reshape(20, 20) % most).to(dtype) for most in (7, 5))
            opgraft.torch.export(model, (x, y), optimize=False, progress=False)
    return found


def test_each_is_right_at_hard_numbers(outcomes: dict[tuple[str, Any], list[str]]) -> None:
    """NaN and infinities too: nothing would be told of them."""
    assert {name: wrong for name, wrong in outcomes.items() if wrong} == {}


def test_each_is_met(outcomes: dict[tuple[str, Any], list[str]]) -> None:
    """In each of its types: what is not stands in the list for nothing."""
    listed = {(name, one) for name, (_, types) in _exact.EXACT.items() for one in types}
    assert listed - outcomes.keys() == set()


def test_another_node_is_tried() -> None:
    """Two nodes, or a node of another type, are no definition."""
    _probe.forget()
    opgraft.torch.export(lambda x: x.relu().half().relu(), (torch.ones(4),), progress=False)
    assert any(torch.float16.__repr__() in str(key) for key in _probe._known)
    assert not any("aten::relu" in key and "torch.float32" in str(key) for key in _probe._known)


def test_a_node_of_other_values_is_tried() -> None:
    """The sine of |x| is a Sin, and no sine of x."""
    graph = torch.fx.Graph()
    argument = graph.placeholder("x")
    argument.meta["val"] = torch.ones(3)
    node = graph.call_function(torch.ops.aten.sin.default, (argument,))
    x = ir.Value(name="x")

    def is_exact_for(value: ir.Value) -> bool:
        choice = Choice(node, Place("", "sin", "aten::sin", 0), STANDARD, None, "aten::sin")
        choice.args, choice.outputs = (x,), ir.node("Sin", [value]).outputs[0]
        return _exact.is_exact(choice)

    assert is_exact_for(x)
    assert not is_exact_for(ir.node("Abs", [x]).outputs[0])
