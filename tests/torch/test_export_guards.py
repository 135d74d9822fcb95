"""Models that decide by data what they compute: right, refused or specialised, never silently
wrong."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft._command import main  # noqa: E402

X = torch.tensor([1.0, 2, 3])
OTHERS = [torch.tensor(one) for one in ([2.0, 2, 2], [-3.0, -2, -1], [2.0, 0, 0])]


def branch(x):
    if x.sum() > 0:
        return x * 2
    return -x


def other_branch(x):
    if not x.sum() < 0:
        return -x
    return x * 2


def of_two(x):
    if x.sum() > 0 and x.min() > -5:
        return x * 2
    return -x


def expression(x):
    return (
        x * 2
        if x.max().item() > 0
        else x
    )  # fmt: skip


def loop(x):
    while x.abs().sum() < 100:
        x = x * 2
    return x


def steps(x):
    for _ in range(x.sum().long()):
        x = x + 1
    return x


def index_of_a_list(x):
    return x * [1.0, 2.0, 3.0, 4.0][int(x[0])]


def key_of_a_dictionary(x):
    return x * {1: 2.0, 2: 3.0}.get(int(x[0]), 1.0)


def greatest_of_a_list(x):
    return x * max(x.tolist())


def length_of_a_mask(x):
    chosen = x[x > 1.5]
    total = x.new_zeros(())
    for i in range(chosen.shape[0]):
        total = total + chosen[i]
    return total


def is_a_mask_empty(x):
    chosen = x[x > 1.5]
    if chosen.numel() == 0:
        return x.sum()
    return chosen.sum()


def contains(x):
    return x * 2 if 3.0 in x else x


def catches(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
    except ValueError:
        return -x
    return x * 2


def equal(x):
    return x if torch.equal(x, x.flip(0)) else -x


#: What each says of its line.
REFUSED = {
    branch: ("x.sum() > 0", "torch.cond"),
    other_branch: ("not (x.sum() < 0)", "torch.where"),
    of_two: ("`x.sum() > 0 and x.min() > -5` is the same as in the example", "torch.cond"),
    expression: ("x.max().item() > 0", "torch.where"),
    loop: ("`while x.abs().sum() < 100` runs as often", "torch.while_loop"),
    steps: ("`for … in range(x.sum().long())` runs as often", "torch.while_loop"),
    index_of_a_list: ("[int(x[0])]` is the same as in the example", "index a tensor"),
    key_of_a_dictionary: (
        ".get(int(x[0]), 1.0)` is the same as in the example",
        "keep it a tensor",
    ),
    greatest_of_a_list: ("max(x.tolist())` is the same as in the example", "keep it a tensor"),
    length_of_a_mask: ("`for … in range(chosen.shape[0])` runs as often", "torch.while_loop"),
    is_a_mask_empty: ("not (chosen.numel() == 0)", "torch.cond"),
    contains: ("3.0 in x", "torch.where"),
    catches: ("not (x.sum() < 0)", ""),
}


@pytest.mark.parametrize("model", REFUSED, ids=lambda one: one.__name__)
def test_a_choice_by_data_is_refused(model: Any, tmp_path: Path) -> None:
    """Exported, it would be wrong for other data without a word."""
    condition, advice = REFUSED[model]
    with pytest.raises(opgraft.ModelError) as raised:
        opgraft.torch.export(model, (X,), tmp_path / "model.onnx")
    text = str(raised.value)
    first = model.__code__.co_firstlineno
    number = int(re.search(r"test_export_guards\.py, line (\d+):", text)[1])
    assert first < number < first + 10, text
    assert f"holds where {condition}" in text or condition in text, text
    assert ("Fix: " in text or not advice) and advice in text and "specialise=True" in text
    assert not (tmp_path / "model.onnx").exists()


def test_what_torch_export_cannot_capture_at_all_is_traced() -> None:
    with pytest.warns(UserWarning, match="specialised.*equal"):
        program = opgraft.torch.export(equal, (X,), specialise=True)
    assert program.report.captured == "traced"
    assert all("equal" in one for one in program.report.verified)


def number(x):
    return x * int(x.sum().item())


def repeated(x):
    return x.abs().repeat(int(x.abs().sum()))


def numbers(x):
    return x * x.long().tolist()[0]


def mask(x):
    return x[x > 1.5] * 2


def taken_from(x):
    return x[int(x[0].abs()) :]


def by_where(x):
    return torch.where(x.sum() > 0, x * 2, -x)


def by_cond(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))


@pytest.mark.parametrize(
    "model",
    [number, repeated, numbers, mask, taken_from, by_where, by_cond],
    ids=lambda one: one.__name__,
)
def test_what_stays_in_the_graph_is_right_for_other_data(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = opgraft.torch.export(model, (X,))
    assert not program.report.specialised and program.report.verified == ["the given arguments"]
    for other in OTHERS:
        torch.testing.assert_close(program(other)[0], model(other))


class Positive(torch.nn.Module):
    def forward(self, x):
        assert (x > 0).all(), "positive"
        return x.log()


class Checked(torch.nn.Module):
    def forward(self, x):
        n = x.sum().long().item()
        torch._check(n == 6)
        return x * n


class Bounded(torch.nn.Module):
    def forward(self, x):
        n = x.sum().long().item()
        torch._check(n >= 2)
        torch._check(n < 20)
        return torch.zeros(n)


class NotNegative(torch.nn.Module):
    """Bounds at and below 0 are bounds too, where it is the model that has them."""

    def forward(self, x):
        n = x.sum().long().item()
        torch._check(n >= -3)
        m = int(x.sum())
        torch._check(m >= 0)
        return x * n * m


class BelowAConstant(torch.nn.Module):
    def forward(self, x):
        most = torch.full((), 100).item()
        n = x.sum().long().item()
        torch._check(n < most)
        return x * n


class CheckedTwice(torch.nn.Module):
    """The number of the draft's decision is asserted as well, by another line."""

    def forward(self, x):
        n = x.sum().long().item()
        torch._check(n % 3 == 0)
        torch._check(n != 5)
        return x * n


class FixedMask(torch.nn.Module):
    def forward(self, x):
        return x[x > 1.5].view(2, 1)


class Raises(torch.nn.Module):
    def forward(self, x):
        if (x < 0).any() or x.max() > 100:
            raise ValueError("between 0 and 100")
        return x.sqrt()


class RaisesInTorch(torch.nn.Module):
    """gaussian_nll_loss refuses variances that are negative."""

    def forward(self, x):
        return torch.nn.functional.gaussian_nll_loss(x, x * 2, x + 1)


ASSERTED = {
    Positive: ["(x > 0).all()"],
    Checked: ["the number is 6"],
    Bounded: ["the number is at least 2 and at most 19"],
    NotNegative: ["m >= 0", "the number is at least -3"],
    BelowAConstant: ["n < most"],
    CheckedTwice: ["n % 3 == 0", "n != 5"],
    FixedMask: ["the size of the result is 2"],
    Raises: ["not ((x < 0).any() or x.max() > 100)"],
    RaisesInTorch: ["not (torch.any(var < 0))"],
}


@pytest.mark.parametrize("model", ASSERTED)
def test_what_the_model_asserts_is_told(model: Any) -> None:
    """It fails in torch on other data, and need not in ONNX, which asserts nothing."""
    conditions = ASSERTED[model]
    program = opgraft.torch.export(model(), (X,))
    assert program.report.verified == [f"the given arguments, where {' and '.join(conditions)}"]
    notes = program.report.specialised
    assert [one.partition("holds where ")[2] for one in notes] == conditions
    assert all("test_export_guards.py, line" in one for one in notes)
    stored = program.model.metadata_props["opgraft.holds_where"].splitlines()
    assert [one.partition("holds where ")[2] for one in stored] == conditions


def test_a_size_that_an_operator_wants_is_no_bound_of_the_model() -> None:
    """`zeros` takes no negative number, in ONNX as in torch."""
    program = opgraft.torch.export(lambda x: torch.zeros(x.sum().long().item()), (X,))
    assert not program.report.specialised
    with pytest.raises(Exception, match="must be >= 0"):
        program(-X)


def test_assertions_of_a_program_that_was_captured_before() -> None:
    captured = torch.export.export(NotNegative(), (X,), strict=True)
    notes = opgraft.torch.export(captured, (X,)).report.specialised
    assert any("the number is at least -3" in one for one in notes)


def test_specialise_allows_it_with_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    with pytest.warns(UserWarning, match=r"silently wrong elsewhere.*holds where x\.sum\(\) > 0"):
        program = opgraft.torch.export(branch, (X,), path, specialise=True)
    report = program.report
    assert report.captured == "draft"
    assert report.verified == ["the given arguments, where x.sum() > 0"]
    assert "verified: the given arguments, where x.sum() > 0" in str(report)
    assert any("holds where x.sum() > 0" in one for one in report.specialised)
    torch.testing.assert_close(program(X)[0], X * 2)
    captured = capfd.readouterr()
    assert captured.out == "" and "def forward" not in captured.err

    assert main(["doctor", str(path)]) == 0
    shown = capfd.readouterr().out
    assert re.search(r"  test_export_guards\.py, line \d+: .*: holds where x\.sum\(\) > 0", shown)
    assert str(Path(__file__).parent) not in shown  # which leaves this machine with the model
    main(["doctor", "--json", str(path)])
    assert len(json.loads(capfd.readouterr().out)["holds_where"]) == 1


def test_other_sizes_for_which_a_specialised_graph_does_not_hold_are_not_compared() -> None:
    """The model takes the other branch there; that is not the graph's fault."""

    def model(x):
        return x * 2 if x.sum() < 7 else -x

    with pytest.warns(UserWarning, match="silently wrong elsewhere"):
        program = opgraft.torch.export(
            model, (X,), dynamic_shapes=({0: "length"},), specialise=True
        )
    assert not any("length=7" in one for one in program.report.verified)
    assert program.report.verified[0] == "the given arguments, where x.sum() < 7"
    assert any("were not compared" in note for note in program.report.notes)


def test_a_draft_that_is_given_is_refused_too() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x):
            return branch(x)

    with contextlib.redirect_stderr(io.StringIO()):
        draft = torch.export.draft_export(Branch(), (X,))
    with pytest.raises(opgraft.ModelError, match=r"holds where x\.sum\(\) > 0"):
        opgraft.torch.export(draft)
    with pytest.warns(UserWarning, match="silently wrong elsewhere"):
        program = opgraft.torch.export(draft, specialise=True)
    assert program.report.captured == "given"
    assert program.report.verified == ["the given arguments, where x.sum() > 0"]
