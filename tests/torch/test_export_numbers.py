"""Numbers of Python's that are elements of tensors, item(), in exported models."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402


def blurred(x: torch.Tensor) -> torch.Tensor:
    """Blurs by a random width, as torchvision.transforms.v2.GaussianBlur does."""
    width = torch.empty(1).uniform_(0.5, 2.0).item()
    places = torch.linspace(-1 / width, 1 / width, 3)
    kernel = torch.softmax(-(places**2), dim=0)
    return torch.nn.functional.conv1d(x, kernel.reshape(1, 1, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_number_that_is_random(dtype: torch.dtype) -> None:
    """Such a model is compared operator by operator; it was refused for the type of the number."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return blurred(x.float()), x / x.sum().item()

    x = torch.rand(1, 1, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = opgraft.torch.export(model, (x,))
    assert program.report.is_portable and program.report.is_random
    assert program.report.verified, program.report
    found, shares = program(x)
    # Wherever the width falls, between the narrowest kernel and the widest.
    assert found.shape == (1, 1, 6) and x.min() <= found.min() and found.max() <= x.max()
    torch.testing.assert_close(shares, x / x.sum(), rtol=1e-6, atol=0)
