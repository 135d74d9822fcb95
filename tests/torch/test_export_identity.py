"""Models that compare a number of a tensor by identity: refused, since a capture has a symbol."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

NEGATIVE, POSITIVE = torch.tensor([-1.0, -2, -3]), torch.tensor([1.0, 2, 3])


def by_identity(x):
    return x * 2 if (x > 0).all().item() is True else x * 3


def by_case(x):
    match (x > 0).all().item():
        case True:
            return x * 2
    return x * 3


def of_a_list(x):
    return x * 2 if any(one is True for one in (x > 0).tolist()) else x * 3


def is_positive(x):
    return (x > 0).all().item()


def in_the_caller(x):
    found = is_positive(x)
    return x * 3 if found is not True else x * 2


@pytest.mark.parametrize("model", [by_identity, by_case, of_a_list, in_the_caller])
def test_a_comparison_by_identity_is_refused(model: Any) -> None:
    # For the example a symbol and the number give the same branch.
    with pytest.raises(opgraft.ModelError, match="decides by data") as caught:
        opgraft.torch.export(model, (NEGATIVE,))
    told = str(caught.value)
    assert "test_export_identity.py, line " in told and "Fix: " in told
    assert not torch.equal(model(POSITIVE), POSITIVE * 3)


@pytest.mark.parametrize("given", [NEGATIVE, POSITIVE])
def test_specialised_it_does_what_the_example_does(given: torch.Tensor) -> None:
    with pytest.warns(UserWarning, match="specialised"):
        program = opgraft.torch.export(by_identity, (given,), specialise=True)
    assert torch.equal(program(given)[0], by_identity(given))
    assert program.report.specialised


class Configured(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.is_doubled = True

    def forward(self, x, scaled=True):
        n = (x > 0).sum().item()
        y = x * 2 if self.is_doubled is True else x
        return y * n if scaled is True else y


def test_what_no_tensor_gave_may_be_compared() -> None:
    program = opgraft.torch.export(Configured(), (NEGATIVE,))
    assert program.report.captured == "non-strict" and not program.report.specialised
    assert torch.equal(program(POSITIVE)[0], Configured()(POSITIVE))
