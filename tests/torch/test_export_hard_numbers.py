"""Translations that hold near the example alone are found, at numbers that it has not."""

from __future__ import annotations

import functools
import math
from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import onnxscript  # noqa: E402

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft.torch._rungs import _functions  # noqa: E402
from opgraft.torch._verify import _probe  # noqa: E402
from opgraft.torch._verify._hard_numbers import Numbers  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

op = onnxscript.values.Opset("", 18)
X = torch.tensor([0.5, 0.25, 0.75])  # near which textbook formulas hold


def test_a_translation_that_fails_falls_to_the_next_rung() -> None:
    """exp(x * x) * erfc(x) is inf * 0 at 10. Of log_ndtr it is a part."""

    def model(x):
        return torch.special.erfcx(x) + torch.special.erfcx(x * 2), torch.special.log_ndtr(x)

    program = opgraft.torch.export(model, (X,))
    rows = [one for one in program.report.rows if "erfcx" in one.operator]
    assert [(one.kind, one.count) for one in rows] in ([("aten", 3)], [("aten", 2), ("aten", 1)])
    assert "torch: its result is wrong for numbers that are not in the example" in rows[0].because
    for x in (torch.tensor([10.0, -2, 0]), torch.tensor([-100.0, 5, 0])):
        for got, wanted in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_what_torch_takes_apart_wrongly_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is right, and all of it is not."""
    operator = torch.ops.aten.special_log_ndtr.default
    table = torch._decomp.decomposition_table
    monkeypatch.setitem(table, operator, lambda x: torch.log(torch.erfc(x * -math.sqrt(0.5)) / 2))
    program = opgraft.torch.export(torch.special.log_ndtr, (X,))
    assert [(one.operator, one.kind) for one in program.report.rows] == [
        ("aten::special_log_ndtr", "aten")
    ]
    assert any("aten::special_log_ndtr was kept whole" in note for note in program.report.notes)
    with pytest.raises(opgraft.Error, match="special_log_ndtr: decomposed by torch, its result"):
        opgraft.torch.export(torch.special.log_ndtr, (X,), fallback="none")
    opgraft.torch.export(torch.special.log_ndtr, (X,), fallback="none", verify=False)


AXES = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e30, -1e-30, math.inf, -math.inf, math.nan])
A, B = (one.flatten() for one in torch.meshgrid(AXES, AXES, indexing="ij"))
FLOOR = functools.partial(torch.div, rounding_mode="floor")
LONG = torch.tensor([[-100.0, 0, -3, 200, -1e30], [-math.inf, -math.inf, 1, math.inf, 2]])


@pytest.mark.parametrize(
    ("function", "given", "arguments", "dtype"),
    [
        (torch.atan2, (X, X.flip(0)), (A, B), torch.float32),
        (torch.atan2, (X, X.flip(0)), (A, B), torch.float16),
        (torch.signbit, (X,), (AXES[:-1],), torch.float32),
        (torch.remainder, (X, X.flip(0)), (A[:-1], B[:-1]), torch.float64),
        (lambda x: x % 0.3, (X,), (A[A.abs() < 2],), torch.float64),
        (FLOOR, (X, X.flip(0)), (A, B), torch.float32),
        (FLOOR, (X, X.flip(0)), (A, B), torch.float64),
        (FLOOR, (X, X.flip(0)), (A, B), torch.float16),
        (lambda x: x.div(0.1, rounding_mode="floor"), (X,), (AXES,), torch.float64),
        (lambda x: x // 0.1, (X,), (AXES,), torch.float32),
        (lambda x: x.logcumsumexp(1), (X.reshape(1, 3),), (LONG,), torch.float32),
        (lambda x: x.logcumsumexp(0), (X.reshape(1, 3),), (LONG,), torch.float64),
    ],
    ids=[
        "atan2",
        "atan2 of halves",
        "signbit",
        "remainder",
        "remainder of doubles",
        "floor division",
        "floor division of doubles",
        "floor division of halves",
        "floor division by a number",
        "floor division by an operator",
        "logcumsumexp",
        "logcumsumexp of columns",
    ],
)
def test_functions_of_ours_are_right_at_them(
    function: Any, given: Any, arguments: Any, dtype: Any
) -> None:
    """In plain ONNX Runtime, NaN and infinities too."""
    given, arguments = ([one.to(dtype) for one in all] for all in (given, arguments))
    sizes = tuple(dict.fromkeys(range(one.ndim), torch.export.Dim.AUTO) for one in arguments)
    like = tuple(one.repeat([2] * one.ndim) for one in given)
    program = opgraft.torch.export(
        (lambda x, y: function(x, y)) if len(given) == 2 else (lambda x: function(x)),
        like,
        dynamic_shapes=sizes,
    )
    assert "function" in {one.kind for one in program.report.rows}
    assert program.report.is_portable and not program.report.not_numbers
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [one.name for one in session.get_inputs()]
    (got,) = session.run(None, {n: a.numpy() for n, a in zip(names, arguments, strict=True)})
    wanted = function(*arguments)
    torch.testing.assert_close(torch.from_numpy(got), wanted, equal_nan=True)
    if wanted.is_floating_point():
        is_zero = wanted == 0
        assert bool((torch.from_numpy(got).signbit() == wanted.signbit())[is_zero].all())


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.sum(0) + x.amax(0) + x.mean(0),
        lambda x: torch.nn.functional.gelu(x).softmax(0),
        lambda x: torch.tanh(x) * torch.sigmoid(x) / (x.abs() + 1),
        lambda x: torch.where(x > 0, x.exp(), x).clamp(-5, 5),
    ],
)
def test_what_is_right_stays_what_it_is(model: Any) -> None:
    report = opgraft.torch.export(model, (X,)).report
    assert {one.kind for one in report.rows} == {"standard"} and report.verified


def test_what_becomes_of_what_is_no_number_is_told_and_no_more() -> None:
    """xlogy(0, NaN) is NaN in torch, and 0 as torch's exporter writes it."""
    program = opgraft.torch.export(torch.xlogy, (X, X.flip(0)))
    assert [one.kind for one in program.report.rows] == ["standard"]
    assert program.report.verified == ["the given arguments"]
    (told,) = program.report.not_numbers
    assert told.startswith("aten::xlogy.Tensor: ") and told.endswith(" instead of nan")
    assert f"NaN and infinities differ: {told}" in str(program.report)


def test_translations_of_yours_are_not_tried() -> None:
    """They may be meant so; the example is what you are held to."""
    x = torch.tensor([0.0])
    wanted = math.log(0.5)
    table = {torch.ops.aten.special_log_ndtr.default: lambda x: op.Add(x, op.CastLike(wanted, x))}
    program = opgraft.torch.export(torch.special.log_ndtr, (x,), custom_translation_table=table)
    assert program.report.rows[0].kind == "user" and program.report.verified


def test_operators_newer_than_the_opset_are_tried_too() -> None:
    """Torch's translation for opset 18 has Gelu of opset 20, and the whole is converted later."""
    told = opgraft.torch.export(torch.nn.functional.gelu, (X,)).report.not_numbers
    assert [one.partition(": ")[0] for one in told] == ["aten::gelu"]


@pytest.mark.parametrize(
    ("function", "x"),
    [(torch.relu, torch.tensor([-2, 3])), (torch.nn.functional.softplus, X.double())],
)
def test_what_the_runtime_lacks_in_the_programs_opset_alone_falls_back(
    function: Any, x: Any
) -> None:
    """Relu of integers and Softplus of doubles run in opset 18, and in 20 they do not."""
    program = opgraft.torch.export(function, (x,), opset_version=20)
    torch.testing.assert_close(program(x)[0], function(x))


@pytest.fixture
def wrong_division(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own translation of a division that rounds down: -0 instead of -1 for -1e-30 / 1e30.
    Nothing is known so far."""
    monkeypatch.setitem(_functions._known(), "aten::div.Tensor_mode", (FLOOR, lambda call: False))
    monkeypatch.delitem(_functions._better, "aten::div.Tensor_mode")
    _probe.forget()


def kinds_of_division(*shapes: tuple[int, ...]) -> list[str]:
    x, y = (torch.rand(one) + 1 for one in shapes)
    report = opgraft.torch.export(lambda x, y: FLOOR(x, y), (x, y), progress=False).report
    return [one.kind for one in report.rows]


@pytest.mark.parametrize(
    "shapes",
    [
        ((400,), ()),
        ((400,), (1,)),
        ((20, 20), (20,)),
        ((), (400,)),
        ((2,), (2,)),
        ((1,), (1,)),
        ((), ()),
    ],
)
def test_all_pairs_are_tried_whatever_the_sizes(wrong_division: None, shapes: Any) -> None:
    assert kinds_of_division(*shapes) == ["aten"]


@pytest.mark.parametrize("resize", [True, False])
@pytest.mark.parametrize(
    ("shapes", "is_complete"),
    [
        (((400,), ()), True),
        (((20,), (1,)), True),
        (((3, 1), (1, 7)), False),
        (((20, 20), (20,)), True),
        (((2,), (2,)), False),
        (((), ()), False),
    ],
)
def test_whether_all_pairs_were_there_is_known(
    shapes: Any, is_complete: bool, resize: bool
) -> None:
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in "xy"]
    for one, sizes in zip(nodes, shapes, strict=True):
        one.meta["val"] = torch.zeros(sizes)
    numbers = Numbers(graph.call_function(torch.ops.aten.add.Tensor, tuple(nodes)), resize=resize)
    pairs = set()
    for fills in numbers.finite():
        both = torch.broadcast_tensors(*fills.values())
        assert resize or [one.shape for one in fills.values()] == [torch.Size(s) for s in shapes]
        first, second = (one.flatten().tolist() for one in both)
        pairs |= set(zip(map(repr, first), map(repr, second), strict=True))
    assert numbers.is_complete == (is_complete or resize)
    assert (len(pairs) == 18**2) == numbers.is_complete


def test_what_a_small_example_did_not_cover_is_tried_again(
    wrong_division: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a translation holds for the sizes of the example alone."""
    monkeypatch.setattr(_probe._Comparison, "is_right_for_ones", lambda self: False)
    assert kinds_of_division((2,), (2,)) == ["standard"]
    assert kinds_of_division((400,), (400,)) == ["aten"]
    assert kinds_of_division((2,), (2,)) == ["aten"]


def test_integers_are_tried_where_floats_lack_digits(wrong_division: None) -> None:
    """Torch writes it as a division of floats; and neither divides by 0."""
    report = opgraft.torch.export(FLOOR, (torch.tensor([7, -8]), torch.tensor([2, 3]))).report
    (row,) = report.rows
    assert row.kind == "aten" and "its result is wrong for numbers that" in row.because


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_the_least_integer_is_not_divided(dtype: Any) -> None:
    """By -1, which ends the process."""
    ends = torch.iinfo(dtype)
    for target, divides in ((torch.ops.aten.add.Tensor, False), (torch.ops.aten.fmod.Tensor, True)):
        graph = torch.fx.Graph()
        nodes = [graph.placeholder(name) for name in "xy"]
        for one in nodes:
            one.meta["val"] = torch.ones(3, dtype=dtype)
        numbers = Numbers(graph.call_function(target, tuple(nodes)), resize=True)
        found = {int(one) for fills in numbers.finite() for one in fills[nodes[0]].flatten()}
        assert ends.max in found and (ends.min in found) == (not divides or ends.min == 0)


def test_complex_numbers_are_tried_in_all_quadrants_and_on_the_axes() -> None:
    """torch's translation of `angle` is right for none that lies on the left axis."""
    program = opgraft.torch.export(lambda x: torch.fft.rfft(x).angle(), (torch.arange(1.0, 5),))
    rows = {one.operator: one for one in program.report.rows}
    assert rows["aten::angle"].kind != "standard"
    x = torch.tensor([-1.0, -2.0, -0.5, -3.0])
    torch.testing.assert_close(program(x)[0][0], torch.tensor(math.pi))
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = torch.ones(3, dtype=torch.complex64)
    numbers = Numbers(graph.call_function(torch.ops.aten.angle.default, (node,)), resize=True)
    tried = {repr(one) for fills in numbers.finite() for one in fills[node].flatten().tolist()}
    assert tried >= {
        repr(complex(a, b)) for a in (-0.0, 0.0, -1.0, 10.0) for b in (-0.0, 0.0, -1.0)
    }


def test_what_could_not_be_tried_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError("no memory for a session")

    _probe.forget()
    with monkeypatch.context() as patch:
        patch.setattr(_probe, "_open", fail)
        report = opgraft.torch.export(torch.xlogy, (X, X.flip(0)), progress=False).report
    (note,) = report.notes
    assert note.startswith(
        "aten::xlogy.Tensor was not tried with numbers that are not in the example: "
    )
    assert note.endswith("no memory for a session") and not report.not_numbers
    report = opgraft.torch.export(torch.xlogy, (X, X.flip(0)), progress=False).report
    assert not report.notes and report.not_numbers
