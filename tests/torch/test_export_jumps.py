"""Examples that lie on a jump of the model, round numbers under `floor`: nothing that is wrong is
called verified there, and what rounding decides is told."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import onnxscript  # noqa: E402

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft._command import main  # noqa: E402
from opgraft.torch._capture._examples import Example  # noqa: E402
from opgraft.torch._verify import _nearby, _rounding, _verify  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

op = onnxscript.values.Opset("", 18)
ROUND = torch.tensor([1.0, 2.0, 3.0])
FLOOR = torch.ops.aten.floor.default


def wrong_floor(x: Any) -> Any:
    return op.Add(op.Floor(x), op.CastLike(op.Constant(value_float=0.5), x))


def rounding_floor(x: Any) -> Any:
    """Off by a rounding, as a kernel may be that divides where another multiplies."""
    many = op.Mul(x, op.CastLike(op.Constant(value_float=3.0), x))
    return op.Floor(op.Div(many, op.CastLike(op.Constant(value_float=3.000001), x)))


class Words(torch.nn.Module):
    """Nobody says how long the text of a number is; torch.export takes another one's."""

    def forward(self, x: Any) -> Any:
        return x * len(str(x[0].item()))


class Table(torch.nn.Module):
    """At all numbers nearby it does what torch.export captured."""

    def forward(self, x: Any) -> Any:
        return x * {"1.0": 2.0, "4.0": 3.0}.get(str(x[0].item()), 7.0)


@pytest.mark.parametrize("model", [Words(), Table()])
def test_a_capture_that_differs_in_all_elements_is_an_error(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(opgraft.Error, match=r"(?s)decides by data.*Fix: keep it a tensor"):
        opgraft.torch.export(model, (ROUND,), progress=False)
    # Where no guard sees it, the comparison does.
    monkeypatch.setattr("opgraft.torch._capture._capture.texts", lambda: nullcontext([]))
    with pytest.raises(
        opgraft.Error, match="captured differs from the model.*3 of 3 elements differ"
    ):
        opgraft.torch.export(model, (ROUND,), progress=False)


def test_another_way_is_taken_where_the_capture_is_wrong() -> None:
    class Exporting(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.floor(x) * (1 if torch.compiler.is_exporting() else 2)

    program = opgraft.torch.export(Exporting(), (ROUND,), progress=False)
    assert program.report.captured == "traced"
    torch.testing.assert_close(program(ROUND)[0], 2 * ROUND)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.floor(x),
        # The operator alone has round numbers whatever the arguments are.
        lambda x: torch.floor(torch.round(x)),
        lambda x: torch.floor(torch.dropout(x, 0.5, True).round()),
    ],
    ids=["floor", "floor of whole numbers", "among random ones"],
)
def test_a_wrong_translation_is_found(model: Any) -> None:
    with pytest.raises(opgraft.Error, match="aten::floor .*its result is wrong: output 0"):
        opgraft.torch.export(
            model, (ROUND,), custom_translation_table={FLOOR: wrong_floor}, progress=False
        )


def beside_a_million(x: Any) -> Any:
    """As class numbers beside coordinates: what is much for them is little of the largest."""
    return torch.cat([torch.floor(x), x.new_full((1,), 1e6)])


def test_a_wrong_translation_is_found_beside_large_numbers() -> None:
    with pytest.raises(opgraft.Error, match="aten::floor .*its result is wrong: output 0"):
        opgraft.torch.export(
            beside_a_million,
            (torch.tensor([2.0, 3.0, 5.0]),),
            custom_translation_table={FLOOR: lambda x: op.Sub(op.Floor(x), op.CastLike(1.0, x))},
            progress=False,
        )


def test_a_wrong_operator_of_yours_is_found_each_time_it_is_called() -> None:
    @opgraft.op("jumps_test::WrongBessel", torch="aten::special_i0e", shape=lambda x: x)
    def wrong_bessel(x: Any) -> Any:
        return x

    def model(x):
        return torch.floor(torch.special.i0e(x) * 0 + x) + torch.special.i0e(x)

    program = opgraft.torch.export(model, (ROUND,), progress=False)
    torch.testing.assert_close(program(ROUND)[0], model(ROUND))
    assert program.report.verified == ["the given arguments"]


@pytest.mark.parametrize(
    "function", [torch.floor, torch.round, torch.trunc, lambda x: x.sort()[1], lambda x: x // 0.1]
)
def test_round_numbers_alone_need_no_words(function: Any) -> None:
    """The results are the same; rounding has no say in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        report = opgraft.torch.export(lambda x: function(x), (ROUND,), progress=False).report
    assert report.verified == ["the given arguments"] and not report.notes


def export_rounding(x: Any, model: Any = torch.floor) -> Any:
    table = {FLOOR: rounding_floor}
    return opgraft.torch.export(
        lambda x: model(x), (x,), custom_translation_table=table, progress=False
    )


def test_what_rounding_decides_is_told_everywhere(tmp_path: Path, capfd: Any) -> None:
    with pytest.warns(UserWarning, match="verified, but with the given .*3 of 4 elements differ"):
        program = export_rounding(torch.tensor([1.0, 2.0, 3.0, 2.5]))
    (told,) = program.report.verified
    assert told.startswith("the given arguments, except: 3 of 4 elements differ (the worst is ")
    assert told.endswith("the model jumps there; at nearby numbers all agree")
    assert told in str(program.report)
    path = tmp_path / "floor.onnx"
    program.save(path)
    assert "3 of 4 elements differ" in program.model.metadata_props["opgraft.differs"]
    main(["doctor", str(path)])
    assert "with the given arguments, 3 of 4 elements differ" in capfd.readouterr().out
    main(["doctor", str(path), "--json"])
    assert len(json.loads(capfd.readouterr().out)["differs"]) == 1


def test_what_rounding_decides_beside_large_numbers_is_told() -> None:
    with pytest.warns(UserWarning, match="3 of 5 elements differ.*at nearby numbers all agree"):
        export_rounding(torch.tensor([1.0, 2.0, 3.0, 2.5]), beside_a_million)


@torch.library.custom_op("jumps_test::whole_floor", mutates_args=())
def whole_floor(x: torch.Tensor) -> torch.Tensor:
    """Takes whole numbers alone, but for rounding, so that there are none nearby."""
    if not bool(((x - x.round()).abs() < 1e-3).all()):
        raise ValueError("not whole")
    return torch.floor(x)


whole_floor.register_fake(torch.empty_like)


def test_more_than_half_that_says_nothing_is_not_verified() -> None:
    table = {torch.ops.jumps_test.whole_floor.default: rounding_floor}

    def export(x: Any) -> Any:
        return opgraft.torch.export(
            whole_floor, (x,), custom_translation_table=table, progress=False
        )

    with pytest.warns(UserWarning, match="2 of 4 elements differ"):
        (told,) = export(torch.tensor([1.0, 2.0, 0.0, 0.0])).report.verified
    assert "2 of 4 elements differ" in told and "nearby" not in told
    with pytest.raises(
        opgraft.Error, match="3 of 3 elements differ.*more than 50% of its elements"
    ):
        export(ROUND)


def test_rounding_that_decides_all_is_no_fault_where_each_operator_is_right() -> None:
    """As where large numbers cancel out: no numbers nearby are any better."""

    def model(x):
        torch._check(bool(((x - x.round()).abs() < 1e-3).all()))
        return torch.floor(x)

    with pytest.warns(UserWarning, match="operator by operator all agree"):
        (told,) = export_rounding(ROUND, model).report.verified
    assert "3 of 3 elements differ" in told and told.endswith("all agree")


def test_a_difference_for_which_no_operator_is_to_blame_goes_the_other_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch.onnx.export takes log_ndtr apart wrongly; a trace does not."""
    monkeypatch.setattr(_verify, "find_guilty", lambda *args, **_: None)
    x = torch.linspace(-20, 5, 6)
    program = opgraft.torch.export(torch.special.log_ndtr, (x,), progress=False)
    assert program.report.captured == "traced"
    assert any("each operator alone is right" in note for note in program.report.notes)
    torch.testing.assert_close(program(x)[0], torch.special.log_ndtr(x))


def test_elements_that_say_nothing_are_counted() -> None:
    wanted, got = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.0, 1.0, 3.0, 4.0])
    jumping = _rounding.compare([wanted], [got], lambda: [wanted - 1])
    assert not jumping.problem and (jumping.excused, jumping.total) == (2, 4)
    assert jumping.is_decided and jumping.worst == "0 instead of 1"
    most = _rounding.compare([wanted], [got - 1], lambda: [wanted - 1])
    assert most.excused == 4 and not most.is_decided
    # Each output counts for itself.
    two = _rounding.compare([wanted, wanted], [got - 1, wanted], lambda: [wanted - 1, wanted])
    assert two.excused == 4 and two.total == 8 and not two.is_decided


def moving(wanted: Any, moves: Any) -> Any:
    """Results that disturbed inputs move by so much for each rounding."""
    return lambda: [wanted + moves * (_rounding.disturb(torch.ones(())).double() - 1) * 1e6]


def test_what_moves_with_the_rounding_is_no_jump() -> None:
    """It is compared all the same, as where large numbers cancel out; what jumps is not, however
    large the others are."""
    wanted = torch.tensor([1.0, 2.0, 3.0, 4.0])
    near = _rounding.compare([wanted], [wanted + 0.01], moving(wanted, 0.0005))
    assert not near.problem and not near.excused
    beside = torch.tensor([0.0, 2.0, 1e6])
    got = beside + torch.tensor([0.5, 0.5, 0])
    cancelled = _rounding.compare([beside], [got], moving(beside, torch.tensor([0.1, 0.1, 0])))
    assert not cancelled.problem and not cancelled.excused
    jump = _rounding.compare([beside], [got], lambda: [beside + torch.tensor([0.1, 0.1, 0])])
    assert not jump.problem and jump.excused == 2
    # A whole number that is another one has jumped.
    whole = beside.long()
    assert _rounding.compare([whole], [whole + 1], lambda: [whole + 1]).excused == 3


def test_much_is_what_is_much_for_a_column() -> None:
    """Of a table, such as coordinates and scores."""
    wanted = torch.cat([torch.full((9, 1), 1e4), torch.full((9, 1), 0.5)], 1)
    moves = torch.tensor([0.0, 0.01])
    found = _rounding.compare([wanted], [wanted + moves], moving(wanted, moves))
    assert not found.problem and found.excused == 9


def test_inputs_are_disturbed_both_ways() -> None:
    """So that whoever is on a jump is seen to be, for any number of elements."""
    x = torch.arange(1.0, 501.0)
    found = _rounding.compare([x], [x - 1], lambda: [torch.floor(_rounding.disturb(x))])
    assert found.excused == 500


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("each", [True, False])
def test_numbers_nearby(dtype: Any, each: bool) -> None:
    """Of the same type and shape, not round, always the same; none larger than it was."""
    x = torch.tensor([[1.0, -2.0, 3.0], [0.0, 1.0, 100.0]]).to(dtype)
    near = _nearby.shifted(x, each=each)
    assert near.dtype == dtype and near.shape == x.shape
    assert torch.equal(near, _nearby.shifted(x, each=each))
    assert bool(((near.abs() < x.abs()) | (x == 0)).all()) and bool((near * x >= 0).all())
    assert bool(((near / x)[x != 0] > 0.95).all())
    assert (near[0, 0] == near[1, 1]) != each
    whole = torch.tensor([1, 2])
    assert _nearby.shifted(whole) is whole and _nearby.shifted(3.0) == 3.0


def test_numbers_nearby_may_keep_their_ratios() -> None:
    """Where the model takes no others, those all less by the same share decide."""

    def results(leaves: Any, _: Any) -> Any:
        (x,) = leaves
        if x.unique().numel() > 1:
            raise ValueError("they must be equal")
        return [x.floor()]

    twos = torch.full((3,), 2.0)
    (other,) = _nearby.nearby(Example("twos", [twos], None, [twos]), results)
    assert other.leaves[0].unique().numel() == 1 and other.wanted[0].tolist() == [1.0] * 3
