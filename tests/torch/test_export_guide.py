"""The code of docs/torch.md on exports, and that of the docstrings, run as it stands."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import _ladder  # noqa: E402

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "torch.md").read_text()


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n")[1], flags=re.M)[0]


def test_the_example_and_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(
        r"```python\n(.*?)```", section("Export that no missing operator stops"), re.S
    )
    names: dict[str, object] = {}
    exec(code, names)
    (report,) = re.findall(r"```\n(.*?)\n```", section("The report"), re.S)
    assert capsys.readouterr().out.strip() == report
    session = opgraft.InferenceSession("model.onnx")
    x = names["x"]
    for got, wanted in zip(session.run(None, {"x": x.numpy()}), names["Model"]()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), wanted)


def test_every_kind_of_fallback_is_told() -> None:
    told = re.findall(
        r'^\|.*\| `"(\w+)"` \|', section("Export that no missing operator stops"), re.M
    )
    assert tuple(told) == _ladder.KINDS


@pytest.mark.parametrize("name", ["export", "Program", "Report"])
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    public = getattr(opgraft.torch, name)
    tests = doctest.DocTestParser().get_doctest(
        public.__doc__, {"opgraft": opgraft, "torch": torch}, name, None, 0
    )
    runner = doctest.DocTestRunner()
    runner.run(tests)
    assert runner.summarize(verbose=False) == doctest.TestResults(0, len(tests.examples))
    assert tests.examples
