"""Modules of TorchScript are exported, alone and as parts of others, with their loops."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([1.0, 2.0, 3.0])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


class Grow(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() < 10.0):
            x = x * 2 + 1
        return x


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Grow())

    def forward(self, x: Any) -> Any:
        return self.inner(x) + 1


@WAYS
@pytest.mark.parametrize("make", [lambda: torch.jit.script(Grow()), Outer], ids=["alone", "part"])
def test_a_scripted_loop_stays_one(make: Any, options: Any) -> None:
    model = make()
    program = opgraft.torch.export(model, (X,), **options)
    for x in (X, X * 0.1, X * 10):  # as many steps as each needs
        torch.testing.assert_close(program(x)[0], model(x))


@WAYS
def test_a_traced_module(options: Any) -> None:
    model = torch.jit.trace(torch.nn.Linear(3, 2).eval(), X)
    program = opgraft.torch.export(model, (X,), **options)
    torch.testing.assert_close(program(X * 2)[0], model(X * 2))


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * self.n


def test_state_of_a_scripted_module_is_refused() -> None:
    model = torch.jit.script(Counting())
    with pytest.raises(opgraft.ModelError, match="Counting keeps state") as caught:
        opgraft.torch.export(model, (X,))
    assert "attribute `n`" in str(caught.value)
    assert model.n == 0
