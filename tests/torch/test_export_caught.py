"""Lines that raise on other data: told where the model fails itself, refused where it may go on."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft.torch._capture import _lines  # noqa: E402

X = torch.tensor([1.0, 2, 3])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


def strict(x: Any) -> Any:
    if (x < 0).any():
        raise ValueError("negative")
    return x * 2


def of_a_try(x: Any) -> Any:
    try:
        return strict(x)
    except ValueError:
        return x * 0


def of_a_context(x: Any) -> Any:
    y = x
    with contextlib.suppress(ValueError):
        if (x < 0).any():
            raise ValueError("negative")
        y = x * 2
    return y


def of_a_callers_context(x: Any) -> Any:
    with contextlib.suppress(ValueError):
        return strict(x)
    return x * 0


def of_a_context_of_the_users(x: Any) -> Any:
    with Forgiving():
        return strict(x)
    return x * 0


class Forgiving:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> bool:
        return True


def of_a_finally(x: Any) -> Any:
    y = x
    try:
        y = strict(x)
    finally:
        return y  # noqa: B012


def of_an_iteration(x: Any) -> Any:
    def one(i: int) -> int:
        if (x[i] < 0).any():
            raise StopIteration
        return i + 1

    return x * sum(list(map(one, range(3))))


def of_torchs_layer(x: Any) -> Any:
    try:
        return torch.nn.functional.gaussian_nll_loss(x, x * 2, x + 1)
    except ValueError:
        return x.sum()


@pytest.mark.parametrize(
    "model",
    [
        of_a_try,
        of_a_context,
        of_a_callers_context,
        of_a_context_of_the_users,
        of_a_finally,
        of_an_iteration,
        of_torchs_layer,
    ],
    ids=lambda one: one.__name__,
)
def test_what_may_be_caught_is_a_decision(model: Any) -> None:
    """By no way, captured or traced."""
    with pytest.raises(opgraft.ModelError, match="decides by data") as raised:
        opgraft.torch.export(model, (X,))
    told = str(raised.value)
    assert "test_export_caught.py, line" in told and "Fix: " in told
    if model is not of_an_iteration:
        assert "may be caught in line" in told


def in_torchs_context(x: Any) -> Any:
    with torch.no_grad(), contextlib.nullcontext():
        return strict(x)


def in_a_try_that_raises(x: Any) -> Any:
    try:
        return strict(x)
    except ValueError as error:
        raise RuntimeError("no such data") from error


def in_an_else(x: Any) -> Any:
    if (x >= 0).all():
        y = x * 2
    else:
        raise ValueError("negative")
    return y


@WAYS
@pytest.mark.parametrize(
    "model", [in_torchs_context, in_a_try_that_raises, in_an_else], ids=lambda one: one.__name__
)
def test_what_cannot_be_caught_is_told(model: Any, options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = opgraft.torch.export(model, (X,), **options)
    (note,) = program.report.specialised
    condition = "(x >= 0).all()" if model is in_an_else else "not ((x < 0).any())"
    assert note.endswith(f"holds where {condition}")
    assert condition in program.model.metadata_props["opgraft.holds_where"]


@WAYS
def test_what_a_layer_of_torch_asserts_is_told(options: Any) -> None:
    def model(x: Any) -> Any:
        return torch.nn.functional.gaussian_nll_loss(x, x * 2, x + 1)

    program = opgraft.torch.export(model, (X,), **options)
    (note,) = program.report.specialised
    assert note.endswith("holds where not (torch.any(var < 0))")


class NamedAsTorchs(torch.nn.Module):
    """Its method is no assertion of torch's, whatever it is called."""

    def _check_scale(self, is_positive: bool) -> float:
        return 2.0 if is_positive else -1.0

    def forward(self, x: Any) -> Any:
        return x * self._check_scale(bool(x.sum() > 0))


class UsedAsValue(torch.nn.Module):
    def _assert_scale(self, is_positive: bool) -> float:
        self.scale = 2.0 if is_positive else -1.0
        return self.scale

    def forward(self, x: Any) -> Any:
        self._assert_scale(bool(x.sum() > 0))
        return x * self.scale


class OneLine(torch.nn.Module):
    def pick(self, x: Any, is_positive: bool) -> Any:
        return x * 2 if is_positive else -x

    def forward(self, x: Any) -> Any:
        assert x.dim() == 1; return self.pick(x, bool(x.sum() > 0))  # fmt: skip # noqa: E702


class InTheTest(torch.nn.Module):
    def pick(self, is_positive: bool) -> bool:
        self.scale = 2.0 if is_positive else -1.0
        return True

    def forward(self, x: Any) -> Any:
        assert self.pick(bool(x.sum() > 0))
        return x * self.scale


class Walrus(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        assert (is_positive := bool(x.sum() > 0)) in (True, False)  # noqa: RUF018
        return x * 2 if is_positive else -x


@pytest.mark.parametrize("model", [NamedAsTorchs, UsedAsValue, OneLine, InTheTest, Walrus])
def test_what_only_looks_like_an_assertion_is_refused(model: Any) -> None:
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(model(), (X,))


def test_two_assertions_in_a_line_are_both_told() -> None:
    def model(x: Any) -> Any:
        assert x.sum() > 0; assert x.max() < 9  # fmt: skip # noqa: E702
        return x * 2

    program = opgraft.torch.export(model, (X,), dynamo=False)
    (note,) = program.report.specialised
    assert note.endswith("holds where x.sum() > 0 and x.max() < 9")


def _inverse(x: Any) -> Any:
    try:
        return torch.linalg.inv(x)
    except RuntimeError:
        return torch.linalg.pinv(x)


def _factor(x: Any) -> Any:
    with contextlib.suppress(Exception):
        return torch.linalg.cholesky(x)
    return x


def _first_row(x: Any) -> Any:
    return x[x[0].long() - 2]


def _rows(x: Any) -> Any:
    try:
        return _first_row(x)
    except (IndexError, TypeError):
        return x * 0


@WAYS
@pytest.mark.parametrize("model", [_inverse, _factor, _rows])
def test_what_an_operator_raises_may_be_caught(model: Any, options: Any) -> None:
    matrix = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    with pytest.raises(opgraft.ModelError, match="decides by data") as caught:
        opgraft.torch.export(model, (matrix,), **options)
    told = str(caught.value)
    assert "so that" in told and "may be caught in line" in told and "Fix: " in told


@WAYS
def test_what_an_operator_raises_and_onnx_does_not_is_told(options: Any) -> None:
    def model(x: Any) -> Any:
        try:
            return torch.linalg.inv(x)
        except KeyError:  # which it does not raise
            return x

    program = opgraft.torch.export(model, (2 * torch.eye(2),), **options)
    (note,) = program.report.specialised
    assert note.endswith("holds where the matrix is not singular")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="except* is new in Python 3.11")
def test_groups_of_exceptions_are_caught_too(tmp_path: Any) -> None:
    path = tmp_path / "model.py"
    path.write_text("try:\n    check(x)\nexcept* ValueError:\n    pass\ncheck(x)\n")
    assert _lines.caught_at(_lines.line_at(str(path), 2)) == _lines.line_at(str(path), 1)
    assert _lines.caught_at(_lines.line_at(str(path), 5)) is None


def test_names_are_those_of_the_imports(tmp_path: Any) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        "import torch as th\n"
        "from torch import _check as sure\n"
        "def _check(x): return x\n"
        "th._check(bool(x))\n"
        "sure(bool(x))\n"
        "_check(bool(x))\n"
        "y = th._check(bool(x))\n"
    )
    lines = [_lines.line_at(str(path), number) for number in (4, 5, 6, 7)]
    assert [_lines.is_assertion(one) for one in lines] == [True, True, False, False]
