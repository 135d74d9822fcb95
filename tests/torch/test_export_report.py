"""The report of an export, as a table and for programs, and the progress bar."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyte
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from eager_operators import pack_operators  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch._capture import _progress  # noqa: E402
from opgraft.torch._rungs import _nodes  # noqa: E402

X = torch.rand(3, 3, generator=torch.Generator().manual_seed(0)) + torch.eye(3)


@pytest.fixture(scope="module")
def report() -> Any:
    torch.set_num_threads(1)

    def model(x):
        return torch.relu(torch.relu(x)) + torch.linalg.svdvals(torch.lgamma(x))

    return opgraft.torch.export(model, (X,)).report


def test_the_table(report: Any) -> None:
    lines = str(report).splitlines()
    assert lines[0].split() == ["torch", "operator", "count", "became", "portable", "with"]
    by_name = {line.split()[0]: line for line in lines[2:6]}
    assert by_name["aten::relu"].split()[1:] == ["2", "ONNX:", "Relu"]
    assert "ONNX (Opgraft): Cast" in by_name["aten::lgamma"]
    assert "ATen node" in by_name["aten::linalg_svdvals"]
    assert by_name["aten::linalg_svdvals"].endswith(
        "a translation, an operator of yours or of a pack"
    )
    assert "a translation" not in by_name["aten::lgamma"]
    assert "captured: non-strict" in lines and "verified: the given arguments" in lines
    assert lines[-1] == "to run it: opgraft.InferenceSession(model)"


def test_what_to_ship(report: Any, tmp_path: Path) -> None:
    """One list with the doctor's: libtorch with its size and version, the model once saved."""
    lines = [line for line in str(report).splitlines() if line.startswith("to ship: ")]
    (libtorch,) = [line for line in lines if "libtorch_cpu.so" in line]
    assert torch.__version__ in libtorch and " MB)" in libtorch
    assert any("libopgraft.so (0." in line for line in lines)
    assert {"licence", "program"} <= {one.kind for one in report.ship()}
    program = opgraft.torch.export(torch.relu, (X,))
    (model,) = [one for one in program.report.ship() if one.kind == "model"]
    assert model.size is None
    program.save(tmp_path / "relu.onnx")
    (model,) = [one for one in program.report.ship() if one.kind == "model"]
    assert model.size == (tmp_path / "relu.onnx").stat().st_size
    lines = [line for line in str(program.report).splitlines() if line.startswith("to ship: ")]
    assert len(lines) == 2 and "model/relu.onnx" in lines[0] and "ONNX Runtime" in lines[1]
    assert "To ship" in program.report.to_html()


def test_for_programs(report: Any) -> None:
    given = json.loads(report.to_json())
    assert given["captured"] == "non-strict" and given["is_portable"] is False
    rows = {row["operator"]: row for row in given["rows"]}
    assert rows["aten::relu"] == {
        "operator": "aten::relu",
        "count": 2,
        "kind": "standard",
        "became": "Relu",
        "part_of": "",
        "advice": "",
        "because": "",
        "foreign": [],
    }
    assert [row.kind for row in report.rows] == ["standard", "standard", "function", "aten"]


def test_a_portable_model_says_so() -> None:
    report = opgraft.torch.export(torch.nn.ReLU(), (X,)).report
    assert report.is_portable and "to run it: any ONNX Runtime" in str(report)
    assert "portable with" not in str(report)


def test_a_part_is_shown_with_the_whole() -> None:
    def model(x):
        return torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)

    report = opgraft.torch.export(model, (X,)).report
    assert "_native_batch_norm_legit_functional (of aten::batch_norm)" in str(report)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def left_on_screen(text: str) -> str:
    screen = pyte.Screen(80, 10)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return "\n".join(screen.display).strip()


def test_the_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, is_drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        opgraft.torch.export(torch.nn.ReLU(), (X,))
        text = stream.getvalue()
        assert ("ReLU" in text) is is_drawn
        for step in ("capture", "translate", "optimise", "verify"):
            assert (step in text) is is_drawn
        if is_drawn:
            assert left_on_screen(text) == ""
    monkeypatch.setattr(sys, "stderr", quiet := Terminal())
    opgraft.torch.export(torch.nn.ReLU(), (X,), progress=False)
    assert quiet.getvalue() == ""


def test_the_bar_goes_away_where_an_export_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with pytest.raises(opgraft.UnavailableError):
        opgraft.torch.export(torch.median, (X,), fallback="none")
    assert "capture" in stream.getvalue() and left_on_screen(stream.getvalue()) == ""


def test_the_bar_grows() -> None:
    shares = []
    bar = _progress.Progress("model", is_shown=False)
    for step in _progress.STEPS:
        bar.step(step)
        shares += [bar.done(0.0), bar.done(0.5), bar.done(1.0)]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


def test_nothing_is_printed() -> None:
    """In a process of its own, as torch logs once only."""
    code = "import torch, opgraft.torch; opgraft.torch.export(torch.median, (torch.ones(3),))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr == ""


def test_operators_of_yours_are_not_portable() -> None:
    """What plain ONNX Runtime has not is named, with who has it; it stands last."""
    pack = opgraft.torch.export(lambda x: torch.relu(pack_operators.Copy(x)), (X,)).report
    assert [row.foreign for row in pack.rows] == [(), ("eager.pack::Copy",)]
    assert not pack.is_portable and len(pack.packs) == 1 and not pack.libraries
    assert f"opgraft.load({pack.packs[0]!r})" in str(pack) and "any ONNX" not in str(pack)

    def strange(x: Any) -> Any:
        return _nodes.append("some.domain", "Strange", [x], {}, 1, version=1)[0]

    table = {torch.ops.aten.relu.default: strange}
    report = opgraft.torch.export(
        torch.relu, (X,), custom_translation_table=table, verify=False
    ).report
    assert not report.is_portable and report.libraries == ["some.domain::Strange"]
    assert "register the library that has some.domain::Strange" in str(report)
