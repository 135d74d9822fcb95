"""Recurrent layers and transformer encoders with sizes that are open."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

SIZES = ({0: "b", 1: "s"},)


class Recurrent(torch.nn.Module):
    def __init__(self, layer: Any, after: Any, **options: Any) -> None:
        super().__init__()
        self.layer = layer(3, 4, batch_first=True, **options)
        self.after = after

    def forward(self, x: Any) -> Any:
        return self.after(self.layer(x)[0])


def export_quietly(model: Any, args: Any, sizes: Any = SIZES) -> Any:
    """Fails where there is a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        return opgraft.torch.export(model, args, dynamic_shapes=sizes)


@pytest.mark.parametrize("layer", [torch.nn.GRU, torch.nn.LSTM])
@pytest.mark.parametrize(
    ("after", "shape"),
    [
        (lambda h: h * 2, "[b,s,4]"),
        (torch.special.i0e, "[b,s,4]"),  # an ATen node
        (lambda h: h.reshape(-1, 4), "[s*b,4]"),
        (lambda h: h + torch.arange(h.shape[1])[None, :, None], "[b,s,4]"),
    ],
    ids=["elementwise", "ATen", "reshaped", "positions"],
)
def test_outputs_have_the_open_names(layer: Any, after: Any, shape: str) -> None:
    model = Recurrent(layer, after).eval()
    program = export_quietly(model, (torch.randn(3, 7, 3),))
    assert str(program.model.graph.outputs[0].shape) == shape
    for sizes in ((2, 9), (1, 1), (5, 3)):
        x = torch.randn(*sizes, 3)
        torch.testing.assert_close(program(x)[0], model(x))


def test_layers_directions_and_projections() -> None:
    options = {"num_layers": 2, "bidirectional": True, "proj_size": 2}
    model = Recurrent(torch.nn.LSTM, lambda h: h * 2, **options).eval()
    program = opgraft.torch.export(model, (torch.randn(3, 7, 3),), dynamic_shapes=SIZES)
    assert str(program.model.graph.outputs[0].shape) == "[b,s,4]"
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(program(x)[0], model(x))


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.encoder(x, src_key_padding_mask=mask)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_with_a_padding_mask() -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[1, 4:] = True
    sizes = ({0: "b", 1: "s"}, {0: "b", 1: "s"})
    args = torch.randn(3, 6, 8), mask
    with pytest.raises(opgraft.Error, match="Fix: .*enable_nested_tensor=False") as caught:
        opgraft.torch.export(model, args, dynamic_shapes=sizes)
    assert "'encoder'" in str(caught.value)
    assert torch.backends.mha.get_fastpath_enabled()
    model.encoder.use_nested_tensor = False
    program = opgraft.torch.export(model, args, dynamic_shapes=sizes)
    x, other = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    other[0, 3:] = True
    with torch.no_grad():
        wanted = model(x, other)
    torch.testing.assert_close(program(x, other)[0], wanted, rtol=1e-4, atol=1e-5)
