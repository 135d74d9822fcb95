"""Open sizes that an exported model does not hold for: they are told, whoever decides by them."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from torch.export import Dim  # noqa: E402

import opgraft.torch  # noqa: E402

X = torch.arange(1.0, 49.0).reshape(8, 6)
OPEN = ({0: "a", 1: "b"},)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def landscape(x):
    return x * 2 if x.shape[0] > x.shape[1] else x


def elements(x):
    return x * 2 if x.numel() > 30 else x


def remainder(x):
    return x * 2 if x.shape[1] % 4 else x


def even(x):
    return x * 2 if x.shape[0] % 2 == 0 else x


def sums(x):
    return x * 2 if x.shape[0] + x.shape[1] > 12 else x


def steps(x):
    for i in range(min(x.shape[0], 3)):
        x = x + i
    return x


def root(x):
    return x * int(x.shape[0] ** 0.5)


def one_of_many(x):
    return x * 2 if x.shape[0] in (3, 17) else x


def listed(x):
    return [x, x * 2, x * 3][min(x.shape[0] // 4, 2)]


def batch_of_one(x):
    return x * 3 if x.shape[0] == 1 else x


def is_any(x):
    return x.sum() * 3 if x.numel() else x.sum() + 1


def is_none(x):
    return x.sum() + 1 if x.shape[0] == 0 else x.sum()


def contiguous(x):
    return x * 3 if x.T.is_contiguous() else x


def pieces(x):
    return torch.stack([one.sum() for one in x.split(3)]).sum()


def halves(x):
    return [one.sum() for one in x.chunk(2)]


def attempt(x):
    try:
        return x.view(4, 2, -1)
    except RuntimeError:
        return x


#: The condition that is told, and sizes for which the model does otherwise.
DECISIONS = {
    landscape: (["a > b"], (6, 8)),
    elements: (["a*b > 30"], (3, 3)),
    remainder: (["(b % 4) != 0"], (8, 8)),
    even: (["(a % 2) == 0"], (7, 6)),
    sums: (["a + b > 12"], (2, 2)),
    steps: (["min(3, a) == 3"], (2, 6)),
    root: (["math.trunc(a ** 0.5) == 2"], (40, 6)),
    one_of_many: (["a != 3", "a != 17"], (17, 6)),
    listed: (["min(2, a // 4) == 2"], (3, 6)),
    batch_of_one: (["a != 1"], (1, 6)),
    is_any: (["(a*b) != 0"], (0, 6)),
    is_none: (["a != 0"], (0, 6)),
    contiguous: (["a != 1", "b != 1"], (1, 6)),
    pieces: (["((2 + a) // 3) == 3"], (40, 6)),
    attempt: (["((a*b) % 8) == 0"], (7, 6)),
}


@pytest.mark.parametrize("model", DECISIONS)
def test_a_decision_by_open_sizes_is_told(model: Any) -> None:
    """It is in the graph as it is with the example, which is wrong for other sizes."""
    conditions, others = DECISIONS[model]
    with pytest.warns(UserWarning, match="valid for only some of the sizes") as caught:
        program = opgraft.torch.export(model, (X,), dynamic_shapes=OPEN)
    notes = program.report.specialised
    assert [one.partition("holds where ")[2] for one in notes] == conditions
    assert all(f"{__file__}, line " in one for one in notes)
    stored = program.model.metadata_props["opgraft.holds_where"].splitlines()
    assert [one.partition("holds where ")[2] for one in stored] == conditions
    assert "/" not in stored[0].partition(", line")[0]
    told = [str(one.message) for one in caught if "only some of the sizes" in str(one.message)]
    assert all(one in told[0] for one in conditions) and "Fix: " in told[0]
    assert [one.filename for one in caught if str(one.message) in told] == [__file__]
    assert program.report.verified[0] == "the given arguments"
    # It is as the condition says.
    data = torch.ones(others)
    try:
        (got,) = program(data)
    except Exception:
        return
    wanted = model(data)
    assert got.shape != wanted.shape or not torch.equal(got, wanted)


def test_pieces_of_an_open_size_that_torch_cannot_optimise() -> None:
    """onnxscript's optimiser fails with what it is written as."""
    program = opgraft.torch.export(halves, (X,), dynamic_shapes=OPEN)
    assert any("the optimiser fails" in one for one in program.report.notes)
    for count in (8, 5, 40):
        data = torch.rand(count, 6)
        torch.testing.assert_close(list(program(data)), halves(data))
    (note,) = program.report.specialised
    assert "x.chunk(2)" in note  # one row is one piece


def test_what_the_model_asserts_of_sizes_is_told_without_a_warning() -> None:
    def model(x):
        assert x.shape[0] % 2 == 0
        if x.shape[1] > 9:
            raise ValueError
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = opgraft.torch.export(model, (X,), dynamic_shapes=OPEN)
    notes = [one.partition("holds where ")[2] for one in program.report.specialised]
    assert notes == ["(a % 2) == 0", "b <= 9"]


def test_conditions_that_do_not_matter_are_not_told() -> None:
    """Those of operators, and what is the same both ways."""

    def padded(x):
        missing = -x.shape[1] % 8
        return torch.nn.functional.pad(x, (0, missing)) if missing else x

    layer = torch.nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval()
    cases = (
        (padded, (X,), OPEN),
        (torch.mm, (X, X.T), ({0: "a", 1: "b"}, {0: "b", 1: "c"})),
        (torch.add, (X, X), ({0: "a", 1: "b"}, {0: "a", 1: "b"})),
        (lambda x: x[:, 2:5] + x[:, -3:], (X,), OPEN),
        (lambda x: x.view(x.shape[0], 2, -1), (X,), OPEN),
        (layer, (torch.rand(2, 5, 6),), ({0: "batch", 1: "time"},)),
    )
    for model, args, shapes in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            program = opgraft.torch.export(model, args, dynamic_shapes=shapes)
        assert not program.report.specialised, model
        assert "opgraft.holds_where" not in program.model.metadata_props
    asked = opgraft.torch.export(padded, (X,), dynamic_shapes=OPEN).report.notes
    assert any("asks for sizes" in one and "b=8" in one for one in asked)


def test_sizes_of_one_and_larger_ones_are_tried() -> None:
    program = opgraft.torch.export(torch.relu, (X,), dynamic_shapes=OPEN)
    tried = ["other sizes (a=17, b=13)", "other sizes (a=1, b=1)"]
    assert program.report.verified[1:] == tried
    bounded = ({0: Dim("a", min=2, max=9)},)
    program = opgraft.torch.export(torch.relu, (X,), dynamic_shapes=bounded)
    assert program.report.verified[1:] == ["other sizes (a=9)"]


def test_sizes_of_one_that_torch_says_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody notes, a run shows."""
    nothing = contextlib.contextmanager(lambda: iter([[]]))
    monkeypatch.setattr(opgraft.torch._private, "noted_conditions", nothing)
    with pytest.warns(UserWarning, match="a is at least 2"):
        program = opgraft.torch.export(batch_of_one, (X,), dynamic_shapes=OPEN)
    assert program.report.specialised == ["holds where a is at least 2"]


def test_bounds_are_those_that_matter() -> None:
    """The kernel is larger than fewer columns, which torch refuses; the branch is not."""

    def model(x):
        y = torch.nn.functional.max_pool2d(x[None], 3)
        return y * 2 if x.shape[0] <= 9 else y

    with pytest.warns(UserWarning, match="a <= 9"):
        program = opgraft.torch.export(model, (X,), dynamic_shapes=OPEN)
    (note,) = program.report.specialised
    assert note.endswith("holds where a <= 9")


def test_without_verification_all_that_may_matter_is_told() -> None:
    with pytest.warns(UserWarning, match="a > b"):
        program = opgraft.torch.export(landscape, (X,), dynamic_shapes=OPEN, verify=False)
    (note,) = program.report.specialised
    assert note.endswith("holds where a > b")


def test_a_program_that_was_captured_before() -> None:
    model = opgraft.torch._capture._capture.Called(even, 1)
    captured = torch.export.export(model, (X,), dynamic_shapes=({0: Dim.DYNAMIC},))
    with pytest.warns(UserWarning, match="valid for only some of the sizes"):
        program = opgraft.torch.export(captured)
    assert program.report.specialised == ["holds where (x.shape[0] % 2) == 0"]


def test_a_graph_that_fails_at_other_sizes_is_no_foreign_exception() -> None:
    class Pairs(torch.nn.Module):
        def forward(self, x):
            if x.shape[0] % 2:
                x = torch.cat([x, x[-1:]])
            return x.view(-1, 2)

    with pytest.warns(UserWarning, match=r"\(n % 2\) != 0"):
        opgraft.torch.export(Pairs(), (torch.rand(5, 1),), dynamic_shapes=({0: "n"},))


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.RNN(3, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


KEPT = {
    "max_pool1d": (torch.nn.MaxPool1d(2), torch.rand(1, 2, 16), {2: "time"}, (1, 2, 24)),
    "rnn": (Recurrent().eval(), torch.rand(2, 5, 3), {0: "batch", 1: "time"}, (3, 9, 3)),
    "kron": (lambda x: torch.kron(x, torch.ones(2, 2)), X, {0: "n"}, (3, 6)),
}


@pytest.mark.parametrize("name", KEPT)
def test_sizes_that_only_a_trace_keeps_open(name: str) -> None:
    model, example, shapes, others = KEPT[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "dynamic_shapes leaves", UserWarning)
        program = opgraft.torch.export(model, (example,), dynamic_shapes=(shapes,))
    assert program.report.captured == "traced" and not program.report.specialised
    data = torch.rand(others)
    torch.testing.assert_close(program(data)[0], model(data))


@pytest.mark.parametrize("way", [{}, {"dynamo": False}], ids=str)
def test_a_trace_that_is_wrong_for_one(way: dict[str, Any]) -> None:
    def model(x):
        return x * torch.hann_window(x.shape[0])[:, None]

    with pytest.warns(UserWarning, match="n is at least 2"):
        program = opgraft.torch.export(model, (X,), dynamic_shapes=({0: "n"},), **way)
    assert program.report.captured == "traced"
    assert program.report.specialised == ["holds where n is at least 2"]
    assert "n is at least 2" in program.model.metadata_props["opgraft.holds_where"]
    data = torch.rand(20, 6)
    torch.testing.assert_close(program(data)[0], model(data))
