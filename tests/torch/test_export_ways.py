"""Models whose export Opgraft's own way gets wrong: torch's other ways are tried before they are
refused."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from onnxscript import opset18  # noqa: E402

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402
from opgraft.torch._capture._progress import Progress  # noqa: E402
from opgraft.torch._capture._request import Request  # noqa: E402
from opgraft.torch._export import _export  # noqa: E402
from opgraft.torch._export._plain_export import PlainExport  # noqa: E402

X = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))


class Shifted(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sin(x) + x


class Compiled(torch.nn.Module):
    """torch.export captures something else than the model does; a trace does not."""

    def forward(self, x: Any) -> Any:
        return x if torch.compiler.is_compiling() else x + 1


class Captured(torch.nn.Module):
    """Any capture is something else than the model does."""

    def forward(self, x: Any) -> Any:
        return x if torch.compiler.is_compiling() or torch.jit.is_tracing() else x + 1


@pytest.fixture
def wrong_capture(monkeypatch: Any) -> None:
    """Opgraft's own capture is that of another model."""
    original = _export.capture

    def capture(model: Any, *args: Any, **options: Any) -> Any:
        return original(torch.nn.Sigmoid(), *args, **options)

    monkeypatch.setattr(_export, "capture", capture)


@pytest.mark.usefixtures("wrong_capture")
def test_torch_alone_is_tried_where_verification_fails() -> None:
    sizes = ({0: "batch"},)
    program = opgraft.torch.export(Shifted(), (X,), dynamic_shapes=sizes, output_names=["y"])
    report = program.report
    assert report.captured == "torch.onnx.export" and report.is_portable
    assert [(row.operator, row.became) for row in report.rows] == [
        ("aten::add.Tensor", "Add"),
        ("aten::sin", "Sin"),
    ]
    assert any(
        "by torch.onnx.export alone, since torch.export's way failed: the graph that "
        "torch.export captured differs from the model" in note
        for note in report.notes
    )
    assert len(report.verified) == 3 and program.model.graph.outputs[0].name == "y"
    more = torch.rand(7, 4)
    torch.testing.assert_close(program(more)[0], Shifted()(more))


@pytest.mark.usefixtures("wrong_capture")
def test_torch_alone_is_held_to_the_same() -> None:
    """A program of torch.onnx.export that is wrong is none."""
    program = opgraft.torch.export(Compiled(), (X,))
    assert program.report.captured == "traced"
    with pytest.raises(opgraft.Error) as caught:
        opgraft.torch.export(Captured(), (X,))
    text = "torch.onnx.export was tried too: the program made by torch.onnx.export is wrong"
    assert text in str(caught.value)

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else -x

    with pytest.raises(opgraft.Error, match="decides by data"):
        opgraft.torch.export(Branch(), (X,))


def test_torch_reads_its_translations_once(monkeypatch: Any) -> None:
    """For all exports by torch alone, none of which changes what the next one gets."""
    registration = _private.private("torch.onnx._internal.exporter._registration")
    original = vars(registration.ONNXRegistry)["from_torchlib"]
    _private.torch_registry(_private.default_opset())
    read = []
    ops = registration.onnxscript_apis.get_torchlib_ops
    monkeypatch.setattr(
        registration.onnxscript_apis, "get_torchlib_ops", lambda: read.append(1) or ops()
    )

    def plain(table: Any) -> list[str]:
        opset, kinds = _private.default_opset(), set[str]()
        names = (None, None)
        request = Request(
            torch.nn.ReLU(), (X,), {}, None, opset, names, table, False, kinds, specialise=False
        )
        program = PlainExport(request, table).run(Progress("relu", is_shown=False), verify=False)
        return [node.op_type for node in program.model.graph]

    assert plain({torch.ops.aten.relu.default: lambda x: opset18.Neg(x)}) == ["Neg"]
    assert plain({}) == ["Relu"]
    assert not read and vars(registration.ONNXRegistry)["from_torchlib"] is original


def test_a_trace_is_tried_where_verification_fails() -> None:
    program = opgraft.torch.export(Compiled(), (X,))
    assert program.report.captured == "traced"
    assert any("traced, since torch.export's way failed" in one for one in program.report.notes)
    torch.testing.assert_close(program(X + 1)[0], X + 2)


def test_where_capture_fails_torch_alone_comes_last(monkeypatch: Any) -> None:
    def capture(*_: Any, **__: Any) -> Any:
        raise opgraft.ModelError("cannot capture")

    monkeypatch.setattr(_export, "capture", capture)
    assert opgraft.torch.export(Shifted(), (X,)).report.captured == "traced"

    def trace(*_: Any, **__: Any) -> Any:
        raise opgraft.UnavailableError("cannot trace")

    monkeypatch.setattr(_export._Export, "_traced", trace)
    program = opgraft.torch.export(Shifted(), (X,))
    assert program.report.captured == "torch.onnx.export"
    torch.testing.assert_close(program(X + 1)[0], Shifted()(X + 1))


def test_an_operator_that_is_wrong_at_other_numbers_is_not_let_through() -> None:
    """torch writes it so in all of its ways; no run with the example would show it."""

    class Logarithm(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.logcumsumexp(x, 0)

    with pytest.raises(opgraft.Error, match="numbers that are not in the example") as caught:
        opgraft.torch.export(Logarithm(), (X,), fallback="none")
    assert "tried too" not in str(caught.value)


def test_a_bug_of_the_model_is_told_as_one() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return self.lacking(x)

    with pytest.raises(opgraft.ModelError, match=r"itself fails.*lacking.*\n.*fix the model"):
        opgraft.torch.export(Broken(), (X,))
