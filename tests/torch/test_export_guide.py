"""The code of docs/torch.md on exports, and that of the docstrings, run as it stands."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch._rungs import _ladder  # noqa: E402

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "torch.md").read_text()


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n")[1], flags=re.M)[0]


def examples() -> list[str]:
    """The first is of an export, the second of a loop."""
    return re.findall(
        r"```python\n(.*?)```", section("Export that no missing operator stops"), re.S
    )


def test_the_loop(write_module: Callable[..., str]) -> None:
    """As many steps as there are tokens, whatever the example has."""
    module = importlib.import_module(write_module(examples()[1], "a_loop_of_the_guide"))
    model = module.Recurrent()
    program = opgraft.torch.export(model, (torch.rand(3, 1, 2),), dynamic_shapes=({0: "tokens"},))
    assert program.report.is_portable and program.report.verified, program.report
    x = torch.rand(9, 1, 2)
    torch.testing.assert_close(program(x)[0], model(x))


def test_the_example_and_its_report(tmp_path: Path) -> None:
    """In a process of its own, since packs stay that another test has loaded."""
    code, _ = examples()
    (report,) = re.findall(r"```\n(.*?)\n```", section("The report"), re.S)
    code += """
session = opgraft.InferenceSession("model.onnx")
for got, wanted in zip(session.run(None, {"x": x.numpy()}), Model()(x), strict=True):
    torch.testing.assert_close(torch.from_numpy(got), wanted)
"""
    (tmp_path / "example.py").write_text(code)  # torch.export wants to see the source
    command = [sys.executable, "example.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def without_sizes(text: str) -> str:  # and versions, which differ from machine to machine
        return re.sub(r"^(to ship: \S+) \([^)]*\)", r"\1 (...)", text, flags=re.M)

    shown = done.stdout.strip().replace(f"{tmp_path}/", "")
    assert without_sizes(shown) == without_sizes(report)


def test_the_example_of_a_model_that_is_traced() -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", section("Models that torch.export cannot capture"), re.S
    )
    names: dict[str, object] = {}
    exec(code, names)
    for expression, result in re.findall(r"^(program\S.*?) +# (.*)$", code, re.M):
        assert repr(eval(expression, names)) == result


def test_the_example_of_a_model_that_decides_by_data(tmp_path: Path) -> None:
    """What is refused with the words of the page, and what it says of `specialise`."""
    page = section("Models that decide by data")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (refusal,) = re.findall(r"```\n(opgraft.ModelError.*?)\n```", page, re.S)
    (verified,) = re.findall(r"report.verified +# (.*)", code)
    lines = [one for one in code.splitlines() if one.startswith("program = ")]
    refused = lines[0].replace(", specialise=True", "")
    number = code.splitlines().index("        if x.sum() > 0:") + 1
    code += f"""
assert str(program.report.verified) == {verified!r}
{refused}
"""
    (tmp_path / "model.py").write_text(code)
    command = [sys.executable, "-W", "ignore", "model.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    wanted = re.sub("line [0-9]+", f"line {number}", refusal)
    assert wanted in done.stderr.replace(f"{tmp_path}/", ""), done.stderr


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
