"""A decision by memory that the model writes to is one by data, however the write is hidden."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([[1.0, -2.0, 3.0, 4.0]])


def refuses(model: Any, *args: Any) -> None:
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(model, args)


def _with_gradients(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    view = memory.view(4)
    with torch.enable_grad():
        memory.copy_(x)
    return -x if (view > 40).any().item() else x * 2


def _without_autocast(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    view = memory.view(4)
    with torch.autocast("cpu", enabled=False):
        memory.copy_(x)
    return -x if (view > 40).any().item() else x * 2


@pytest.mark.parametrize("model", [_with_gradients, _without_autocast])
def test_a_context_that_is_an_operator_writes(model: Any) -> None:
    refuses(model, X)


def test_a_context_that_writes_nothing_fixes_nothing() -> None:
    def model(x: Any) -> Any:
        with torch.enable_grad():
            y = x + 1
        return y * 2 if (torch.ones(4) > 0).any().item() else -y

    program = opgraft.torch.export(model, (X,))
    torch.testing.assert_close(program(X * 50)[0], model(X * 50))


class Layers(torch.nn.Module):
    """It writes into what its layers give, and to nothing that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True))
        self.register_buffer("mask", torch.ones(4))

    def forward(self, x: Any) -> Any:
        is_masked = (self.mask < 1).any().item()
        y = self.layers(x)
        return -y if is_masked else y * 2


def test_layers_that_write_in_place_change_nothing_that_is_kept() -> None:
    model = Layers().eval()
    program = opgraft.torch.export(model, (X,))
    assert program.report.captured != "traced"
    torch.testing.assert_close(program(X * 50)[0], model(X * 50))
