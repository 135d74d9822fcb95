"""What the optimiser may do to an exported program: nothing that changes a result."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import torch
from onnxscript.rewriter import _matcher

import opgraft.torch
from opgraft.torch import _private
from opgraft.torch._export import _export
from opgraft.torch._graphs import _optimiser as optimiser

EXAMPLE = torch.tensor([0.5, 1.5, 2.5])


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def exported(function: Any, example: torch.Tensor = EXAMPLE, **options: Any) -> Any:
    return opgraft.torch.export(Function(function).eval(), (example,), progress=False, **options)


def kinds(program: Any) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


SMALL = {
    "log": (lambda x: torch.log(x + 1e-10), 0.0),
    "norm": (lambda x: x / (x.norm() + 1e-9), 0.0),
    "rsqrt": (lambda x: torch.rsqrt(x * x + 1e-8), 0.0),
    "sub": (lambda x: (x - 1e-9) * 1e9, 0.0),
    "reversed sub": (lambda x: torch.log(1e-10 - x), 0.0),
    "entropy": (lambda x: -(x * torch.log(x + 1e-12)).sum(), 0.0),
    "rms_norm": (lambda x: torch.nn.functional.rms_norm(x, (3,), eps=1e-8), 1e-6),
    "std": (lambda x: (x - x.mean()) / (x.std() + 1e-9), 1.0),
}


@pytest.mark.filterwarnings("ignore:nothing is verified")
@pytest.mark.parametrize("dynamo", [True, False], ids=["captured", "traced"])
@pytest.mark.parametrize("name", SMALL)
def test_small_constants_stay(name: str, dynamo: bool) -> None:
    function, hard = SMALL[name]
    program = exported(function, dynamo=dynamo)
    x = torch.full((3,), hard)
    torch.testing.assert_close(program(x)[0], function(x), rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1e-12) * 1e12,
        lambda x: (x * (1 + 1e-9) - x) * 1e9,
        lambda x: (x / (1 + 1e-9) - x) * 1e9,
        lambda x: torch.nn.functional.rms_norm(x, (3,)),
    ],
    ids=["add", "mul", "div", "rms_norm"],
)
def test_doubles_are_as_exact_as_doubles(function: Any) -> None:
    program = exported(function, EXAMPLE.double())
    x = EXAMPLE.double() * 1e-10
    torch.testing.assert_close(program(x)[0], function(x), rtol=1e-5, atol=0)


def test_plain_exports_keep_small_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise opgraft.Error("not this way")

    monkeypatch.setattr(_export._Export, "_verified", refuse)
    program = exported(lambda x: torch.log(x + 1e-10))
    assert program.report.captured == "torch.onnx.export"
    assert program(torch.zeros(3))[0][0] == pytest.approx(-23.02585)


def test_dynamo_export_keeps_small_constants() -> None:
    with pytest.warns(Warning):
        program = opgraft.torch.dynamo_export(Function(lambda x: torch.log(x + 1e-10)), EXAMPLE)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Add", "Log"]


def test_what_does_nothing_still_goes() -> None:
    program = exported(lambda x: torch.log(((x + 0.0) * 1.0 - 0.0) / 1.0))
    assert kinds(program) == {"Log": 1}


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x.clamp(0, 1).clamp(2, 3), 2.0),
        (lambda x: x.clamp(max=1).clamp(min=2), 2.0),
        (lambda x: x.clamp(-3, -1).relu(), 0.0),
        (lambda x: x.relu().clamp(-3, -1), -1.0),
    ],
)
def test_bounds_that_cross_are_not_joined(function: Any, wanted: float) -> None:
    program = exported(function, verify=False)
    assert program(EXAMPLE)[0].tolist() == [wanted] * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.bernoulli(torch.full((64,), 0.5)) + x.sum(),
        lambda x: torch.nn.functional.dropout(torch.ones(64), 0.5, True) + x.sum(),
        lambda x: torch.poisson(torch.full((64,), 5.0)) + x.sum(),
    ],
    ids=["bernoulli", "dropout", "poisson"],
)
def test_random_numbers_are_drawn_in_each_run(function: Any) -> None:
    program = exported(function)
    assert not torch.equal(program(EXAMPLE)[0], program(EXAMPLE)[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.bernoulli(x) - torch.bernoulli(x),
        lambda x: torch.poisson(x * 10) - torch.poisson(x * 10),
        lambda x: torch.rand_like(x) - torch.rand_like(x),
        lambda x: torch.nn.functional.dropout(x, 0.5) - torch.nn.functional.dropout(x, 0.5),
    ],
    ids=["bernoulli", "poisson", "rand_like", "dropout"],
)
def test_two_draws_stay_two(function: Any) -> None:
    program = exported(function, torch.full((64,), 0.5))
    assert program(torch.full((64,), 0.5))[0].any()


def test_the_optimiser_can_be_held_to_exactness() -> None:
    """Fails where a new version of onnxscript has moved what `optimiser` takes hold of."""
    assert optimiser.is_exact()


@pytest.mark.parametrize("left", range(3))
def test_without_exactness_nothing_is_optimised(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [one for index, one in enumerate(optimiser._HELD) if index != left]
    monkeypatch.setattr(optimiser, "_HELD", held)
    monkeypatch.setattr(optimiser, "is_exact", optimiser.is_exact.__wrapped__)
    program = exported(lambda x: torch.log(x + 1e-10))
    assert any(note.startswith("not optimised: onnxscript") for note in program.report.notes)
    assert program(torch.zeros(3))[0][0] == pytest.approx(-23.02585)


def test_an_optimiser_that_fails_leaves_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert optimiser.is_exact()

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr("onnxscript.optimizer.optimize_ir", fail)
    program = exported(lambda x: torch.log(x + 1.0))
    assert "not optimised: the optimiser fails: ValueError: no such thing" in program.report.notes
    assert program(torch.zeros(3))[0][0] == 0


def test_the_optimiser_is_as_before_afterwards() -> None:
    before = _matcher.SimplePatternMatcher._match_constant
    program = exported(lambda x: torch.log(x + 1e-10))
    assert _matcher.SimplePatternMatcher._match_constant is before
    program.optimize()  # the user's own
    assert kinds(program) == {"Add": 1, "Log": 1}
    assert _matcher.SimplePatternMatcher._match_constant is before


def test_other_threads_match_as_ever() -> None:
    """Who optimises beside an export does it as onnxscript does."""
    found: list[Any] = []

    def other() -> None:
        plain = torch.onnx.ONNXProgram(optimiser.trial(), None)
        plain.optimize()
        found.append(Counter(node.op_type for node in plain.model.graph))

    with _private.exporting(), optimiser.exactly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "Sub" not in found[0]
