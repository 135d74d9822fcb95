"""Operators that reduce or choose are tried with rows of extreme numbers, with NaN, and on fewer
elements where the example has very many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft._command import main  # noqa: E402
from opgraft.torch._rungs import _functions  # noqa: E402
from opgraft.torch._verify import _probe, _triable  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

AUTO = torch.export.Dim.AUTO
X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def report_of(function: Any, *args: Any) -> Any:
    return opgraft.torch.export(function, args, progress=False).report


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x.std(0), torch.float32),
        (lambda x: x.std(), torch.float32),
        (lambda x: x.std((0, 1), correction=0.5), torch.float32),
        (lambda x: x.std(-1, keepdim=True, correction=0), torch.float32),
        (lambda x: x.std(1, correction=9), torch.float32),
        (lambda x: x.std(unbiased=False), torch.float64),
        (lambda x: x.std(1), torch.float16),
        (lambda x: x[0, 0].std(), torch.float32),
    ],
)
@pytest.mark.parametrize("sizes", [None, ({0: AUTO, 1: AUTO},)], ids=["fixed", "open"])
@pytest.mark.filterwarnings("ignore:std")
def test_a_standard_deviation_neither_overflows_nor_vanishes(
    function: Any, dtype: Any, sizes: Any
) -> None:
    """In plain ONNX Runtime. Torch's exporter takes the root of the variance."""
    program = opgraft.torch.export(
        lambda x: function(x), (X.to(dtype),), dynamic_shapes=sizes, progress=False
    )
    assert "function" in {row.kind for row in program.report.rows}
    assert program.report.is_portable and not program.report.differs
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    for scale in (1.0, 1e4) if dtype == torch.float16 else (1.0, 1e30, 1e-30):
        x = (X.double() * scale).to(dtype)
        x = x if sizes is None else x.repeat(2, 2)
        (got,) = session.run(None, {name: x.numpy()})
        relative = 3e-3 if dtype == torch.float16 else 1e-5
        torch.testing.assert_close(
            torch.as_tensor(got), function(x), rtol=relative, atol=0, equal_nan=True
        )


def test_a_translation_of_yours_goes_before_it() -> None:
    from onnxscript import opset18 as op

    def mine(x: Any, dim: Any, **_: Any) -> Any:
        return op.Sqrt(op.ReduceMean(op.Mul(x, x), op.Constant(value_ints=[0]), keepdims=0))

    x = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
    program = opgraft.torch.export(
        lambda x: x.std(0, correction=0),
        (x,),
        custom_translation_table={torch.ops.aten.std.correction: mine},
        progress=False,
    )
    assert [row.kind for row in program.report.rows] == ["user"]


def test_what_extreme_numbers_become_is_told_and_no_more(tmp_path: Path, capfd: Any) -> None:
    """Torch takes std_mean apart; no ATen node is made of it."""
    program = opgraft.torch.export(lambda x: torch.std_mean(x, 1), (X,), progress=False)
    assert {row.kind for row in program.report.rows} == {"standard"}
    (told,) = program.report.differs
    assert told.startswith("aten::std_mean.dim differs from torch for numbers above about 1e")
    assert "the worst is inf instead of" in told and f"differs: {told}" in str(program.report)
    assert program.report.verified == ["the given arguments"]
    path = tmp_path / "deviation.onnx"
    program.save(path)
    assert program.model.metadata_props["opgraft.differs"] == told
    assert main(["doctor", str(path)]) == 0
    assert f"  {told}" in capfd.readouterr().out
    main(["doctor", "--json", str(path)])
    assert json.loads(capfd.readouterr().out)["differs"] == [told]
    # The second time it is known already.
    assert report_of(lambda x: torch.std_mean(x, 1), X).differs == [told]


def test_a_result_of_torchs_that_is_no_number_is_told_too() -> None:
    """Whose fault it is, is no matter: it differs."""
    report = report_of(torch.nn.LayerNorm(3), X)
    assert {row.kind for row in report.rows} == {"standard"} and report.verified
    (told,) = report.differs
    assert "aten::layer_norm differs from torch for numbers above about 1e" in told
    assert told.endswith("instead of nan")


def test_translations_are_tried_at_extreme_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the function it is torch's own, which is told of."""
    names = ("aten::std", "aten::std.dim", "aten::std.correction")
    for name in names:
        monkeypatch.delitem(_functions._kept, name, raising=False)
        monkeypatch.delitem(_functions._known(), name)
    _probe.forget()
    report = report_of(lambda x: x.std(0), X)
    assert {row.kind for row in report.rows} == {"standard"}
    assert "aten::std.dim differs from torch for numbers above about 1e" in report.differs[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(1),
        lambda x: x.logsumexp(1),
        lambda x: x.norm(dim=1),
        lambda x: x.mean(1),
        lambda x: x.amax(1),
        lambda x: torch.nn.functional.rms_norm(x, (3,)),
        lambda x: x.var(1),
    ],
)
def test_what_is_right_there_stays_what_it_is(function: Any) -> None:
    report = report_of(lambda x: function(x), X)
    assert {row.kind for row in report.rows} == {"standard"} and not report.differs
    assert not report.notes


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("argmax", lambda x: x.argmax(0)),
        ("argmin", lambda x: x.argmin(1)),
        ("sort", lambda x: x.sort(0)),
        ("topk", lambda x: x.topk(2, 0)),
        ("max.dim", lambda x: x.max(0)),
    ],
)
def test_what_becomes_of_nan_where_elements_are_chosen_is_told(name: str, function: Any) -> None:
    report = report_of(lambda x: function(x), X)
    assert {row.kind for row in report.rows} == {"standard"} and report.verified
    assert [one.partition(": ")[0] for one in report.not_numbers] == [f"aten::{name}"]


def test_whole_numbers_and_what_is_not_sorted_are_not_tried_so() -> None:
    assert not report_of(lambda x: x.argmax(0), (X * 100).int()).not_numbers
    assert not report_of(lambda x: x.topk(2, 0, sorted=False)[0].sum(0), X).not_numbers


@pytest.mark.parametrize("weights", [1, 3])
def test_prelu_is_tried(weights: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _probe.forget()
    tried = []
    original = _probe.tried

    def spy(choice: Any, *rest: Any) -> Any:
        tried.append(str(choice.node.target))
        return original(choice, *rest)

    monkeypatch.setattr(_probe, "tried", spy)
    report = report_of(torch.nn.PReLU(weights), X)
    assert any("prelu" in one for one in tried), tried
    assert {row.kind for row in report.rows} == {"standard"}


def test_very_many_elements_are_tried_on_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """erfcx alone is wrong at 10. Where fewer are something else, the report says so."""
    monkeypatch.setattr(_triable, "MOST_ELEMENTS", 1000)
    x = torch.rand(40, 30)
    _probe.forget()
    assert [one.kind for one in report_of(torch.special.erfcx, x).rows] == ["aten"]
    report = report_of(lambda x: torch.std_mean(x, 1), x)
    assert report.differs and not report.notes
    assert report_of(lambda x: x.argmax(1), x).not_numbers
    normal = torch.nn.LayerNorm(30)
    (note,) = report_of(normal, x).notes
    assert note.startswith(
        "aten::layer_norm was not tried with numbers that are not in the example: it"
    )
    assert "elements, and its translation is not valid for fewer" in note
    monkeypatch.setattr(_triable, "MOST_ELEMENTS", 1 << 20)
    assert not report_of(normal, x).notes
