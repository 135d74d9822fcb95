"""Packed sequences: what order their lengths have, and what is packed and not padded again."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(0))
SORTED, UNSORTED = torch.tensor([5, 4, 2]), torch.tensor([2, 5, 4])
SIZES = ({0: "batch", 1: "time"}, {0: "batch"})
HOLDS = "holds where the lengths are sorted, the longest first"


class Packed(torch.nn.Module):
    def __init__(self, *, is_sorted: bool = True) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(3, 4, batch_first=True)
        self.is_sorted = is_sorted

    def pack(self, x: Any, lengths: Any) -> Any:
        return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=self.is_sorted)

    def forward(self, x: Any, lengths: Any) -> Any:
        output, hidden = self.gru(self.pack(x, lengths))
        return pad_packed_sequence(output, batch_first=True)[0], hidden


class NotPadded(Packed):
    def forward(self, x: Any, lengths: Any) -> Any:
        packed, hidden = self.gru(self.pack(x, lengths))
        return packed.data, hidden


def check(program: Any, model: Any, *args: Any) -> None:
    with torch.no_grad():
        wanted = model(*args)
    for one, other in zip(program(*args), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_lengths_that_must_be_sorted_are_told() -> None:
    """torch raises where they are not, and ONNX does not."""
    program = opgraft.torch.export(Packed().eval(), (X, SORTED), dynamic_shapes=SIZES, dynamo=False)
    (told,) = program.report.specialised
    assert HOLDS in told and "test_export_packed.py, line " in told
    stored = {one.key: one.value for one in program.model_proto.metadata_props}
    assert HOLDS in stored["opgraft.holds_where"]
    assert all("where the lengths are sorted" in one for one in program.report.verified)


@pytest.mark.parametrize("lengths", [SORTED, UNSORTED])
def test_lengths_in_any_order(lengths: Any) -> None:
    model = Packed(is_sorted=False).eval()
    program = opgraft.torch.export(model, (X, lengths), dynamic_shapes=SIZES, dynamo=False)
    assert not program.report.specialised and program.report.is_portable
    check(program, model, X, UNSORTED)
    check(program, model, torch.rand(4, 6, 3), torch.tensor([1, 6, 2, 2]))


@pytest.mark.parametrize("options", [{}, {"dynamo": False}])
def test_an_example_that_the_model_does_not_take(options: Any) -> None:
    text = r"(?s)^Packed itself fails with the given arguments.*sorted.*Fix: .*enforce_sorted=False"
    with pytest.raises(opgraft.ModelError, match=text) as caught:
        opgraft.torch.export(Packed().eval(), (X, UNSORTED), **options)
    assert "tried too" not in str(caught.value)


def test_what_is_packed_and_not_padded_again() -> None:
    """ONNX has no such thing; libtorch has."""
    model = NotPadded().eval()
    program = opgraft.torch.export(model, (X, SORTED), dynamic_shapes=SIZES, dynamo=False)
    kinds = {row.operator.partition(".")[0]: row.kind for row in program.report.rows}
    assert kinds["aten::_pack_padded_sequence"] == "aten"
    check(program, model, torch.rand(4, 6, 3), torch.tensor([6, 3, 3, 1]))
    with pytest.raises(opgraft.UnavailableError, match="must occur in pairs"):
        opgraft.torch.export(model, (X, SORTED), dynamo=False, fallback="none")
