"""A decision that no argument has a say in is none by data, and needs no `specialise`."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft.torch._capture import _fixed  # noqa: E402

X = torch.tensor([1.0, -2.0, 3.0, 4.0])


def by_ones(x: Any) -> Any:
    """As Longformer asks whether any token has global attention."""
    return x * 2 if (torch.ones(x.shape[0]) < 0).any().item() else -x


def by_its_size(x: Any) -> Any:
    return x * 2 if (torch.zeros_like(x) + 1 > 0).any() else -x


def by_what_is_written(x: Any) -> Any:
    mask = torch.ones(4)
    mask[mask > 0] = -1.0
    return x * 2 if (mask > 0).any().item() else -x


def by_what_arguments_write(x: Any) -> Any:
    """Into the memory of another tensor, by a view."""
    mask = torch.ones(4)
    mask.view(2, 2).mul_(x.view(2, 2))
    return x * 2 if (mask > 0).all().item() else -x


@pytest.mark.parametrize("model", [by_ones, by_its_size, by_what_is_written])
def test_constants_and_sizes_decide(model: Any) -> None:
    program = opgraft.torch.export(model, (X,))
    assert program.report.verified == ["the given arguments"]
    for x in (X, -X, X * 0):
        torch.testing.assert_close(program(x)[0], model(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if (torch.ones_like(x) * x > 0).any().item() else -x,
        lambda x: x * 2 if torch.rand(3).sum().item() > 0.5 else -x,
        lambda x: x * 2 if (torch.ones(3) * x[0] > 0).any().item() else -x,
        by_what_arguments_write,
    ],
    ids=["an argument", "chance", "an element", "a view"],
)
def test_data_and_chance_do(model: Any) -> None:
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(model, (X,))


def test_an_open_size_decides_too() -> None:
    """The graph would be that of the example's size."""
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(
            lambda x: x * 2 if torch.ones_like(x).sum().item() > 3 else -x,
            (X,),
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        )


@pytest.mark.parametrize("training", [True, False])
def test_norms_write_to_what_they_keep_in_training(training: bool) -> None:
    """Their schemas do not say so."""

    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x: Any) -> Any:
            y = torch.nn.functional.batch_norm(x, self.mean, self.var, training=training)
            return y * self.mean.sum().item()

    program = torch.export.export(Norm(), (torch.rand(4, 3),), strict=False)
    assert bool(_fixed.fixed_symbols(program)) is not training
