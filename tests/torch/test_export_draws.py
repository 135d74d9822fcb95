"""Random numbers of Python and NumPy never become constants of a graph silently."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([1.0, 2.0, 3.0])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


def _states() -> Any:
    return random.getstate(), str(np.random.get_state(legacy=False))


def _python(x: Any) -> Any:
    return x * 2 if random.random() < 0.5 else x


def _rarely(x: Any) -> Any:
    return x * 2 if random.random() < 0.001 else x


def _numpy(x: Any) -> Any:
    order = np.random.permutation(3)
    return x[torch.from_numpy(order)]


@WAYS
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (_python, "return x * 2 if random.random() < 0.5 else x: holds where the numbers drawn "
         "from Python's `random` are those drawn at the export"),
        (_rarely, "Python's `random`"),
        (_numpy, "order = np.random.permutation(3): holds where the numbers drawn from NumPy's "
         "`numpy.random`"),
    ],
)  # fmt: skip
def test_numbers_drawn_outside_of_torch_are_refused(call: Any, told: str, options: Any) -> None:
    before = _states()
    with pytest.raises(opgraft.ModelError, match="draws random numbers") as caught:
        opgraft.torch.export(call, (X,), **options)
    assert told in str(caught.value)
    assert "Fix: draw them with torch" in str(caught.value)
    assert "specialise=True" in str(caught.value)
    assert _states() == before


@WAYS
def test_specialise_exports_what_was_drawn(options: Any) -> None:
    before = _states()
    with pytest.warns(UserWarning, match="specialised"):
        program = opgraft.torch.export(_python, (X,), specialise=True, **options)
    (told,) = program.report.specialised
    assert "the numbers drawn from Python's `random` are those drawn at the export" in told
    assert all(", where " in one for one in program.report.verified)
    assert _states() == before
    torch.testing.assert_close(program(X)[0], _python(X))  # with the number drawn at the export


def test_numbers_that_make_no_difference_are_told() -> None:
    class Dropping(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            chance = np.random.uniform()
            return x if self.training and chance < 0.1 else x * 2

    program = opgraft.torch.export(Dropping().eval(), (X,))
    (note,) = program.report.notes
    assert "draws from NumPy's `numpy.random`" in note
    assert "its results did not depend on the numbers" in note
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(opgraft.ModelError, match="draws random numbers"):
            opgraft.torch.export(Dropping().train(), (X,))


@WAYS
def test_results_that_change_for_another_reason_are_named(options: Any) -> None:
    count = [0]

    def model(x: Any) -> Any:
        count[0] += 1
        return x * count[0]

    with pytest.raises(opgraft.ModelError, match="gives different results when it is called again"):
        opgraft.torch.export(model, (X,), **options)


def test_the_sequences_go_on_after_a_failure() -> None:
    def model(x: Any) -> Any:
        random.random()
        np.random.rand()
        raise RuntimeError("it fails")

    before = _states()
    with pytest.raises(opgraft.ModelError, match="itself fails"):
        opgraft.torch.export(model, (X,))
    assert _states() == before
