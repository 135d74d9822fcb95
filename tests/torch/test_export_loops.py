"""Loops of Python's that torch.export unrolls: they are named, and an export may have a limit."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch._capture import _progress, _watch  # noqa: E402

STEPS = 12
X = torch.randn(1, STEPS, 2, generator=torch.Generator().manual_seed(0))


class Recurrent(torch.nn.Module):
    """A loop over tokens, as Mamba has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, states = torch.zeros(x.shape[0], 2), []
        for token in range(x.shape[1]):
            state = self.step(state, x[:, token])  # the line that is named
            states.append(state)
        return torch.stack(states, 1)

    def step(self, state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(state + x)


class Layers(torch.nn.Module):
    """One function after the other: no step of it is taken for a step of a loop."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(self.layer(self.layer(x)))
        return self.layer(self.layer(self.layer(x)))

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + 1) * 2


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_loop_of_many_steps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "MOST_STEPS", 5)
    line = line_of("# the line that is named")
    with pytest.warns(UserWarning, match=rf"unrolled: .*, line {line}, in forward, {STEPS} steps"):
        program = opgraft.torch.export(Recurrent(), (X,))
    assert program.report.verified
    [note] = [one for one in program.report.notes if "unrolled" in one]
    assert "torch.while_loop" in note and "scan" in note
    report = opgraft.torch.export(Layers(), (X,)).report
    assert not [one for one in report.notes if "unrolled" in one]


class Clock:
    """So many seconds pass from one look to the next."""

    def __init__(self, seconds: float) -> None:
        self._now, self._seconds = 0.0, seconds

    def monotonic(self) -> float:
        self._now += self._seconds
        return self._now


def test_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which loop it was at, and what to write. All is as before then."""
    before = torch.fx.Graph.create_node
    with monkeypatch.context() as patch:
        patch.setattr(_progress, "time", Clock(1.0))
        with pytest.raises(opgraft.Error, match=r"limit of 60 s in the step 'capture'") as error:
            opgraft.torch.export(Recurrent(), (X,), time_limit=60)
    said = str(error.value)
    assert f"line {line_of('# the line that is named')}, in forward" in said
    assert "torch.while_loop" in said and "time_limit=" in said
    assert torch.fx.Graph.create_node is before
    assert opgraft.torch.export(Recurrent(), (X,), time_limit=600).report.verified
    with pytest.raises(opgraft.Error, match="more than 0 seconds, not -1"):
        opgraft.torch.export(Recurrent(), (X,), time_limit=-1)
    with pytest.raises(TypeError, match="expected a number of seconds"):
        opgraft.torch.export(Recurrent(), (X,), time_limit="1")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_does_not_work_without_a_word(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setenv("COLUMNS", "300")
        patch.setenv("NO_COLOR", "1")
        patch.setattr(_progress, "time", Clock(10.0))
        opgraft.torch.export(Recurrent(), (X,), verify=False)
    said = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "\n", stream.getvalue()).splitlines()
    captured = [line for line in said if "capture" in line and "operators" in line]
    if is_terminal:  # a busy machine may draw a line twice
        captured = list(dict.fromkeys(captured))
    assert len(captured) > 2 and len(set(captured)) == len(captured)
    assert any(f"step {STEPS - 2} of {__file__}" in line for line in captured) or not is_terminal
    if is_terminal:
        shares = [int(share) for line in captured for share in re.findall(r"(\d+)%", line)]
        assert len(shares) == len(captured) and shares == sorted(shares)


def test_nothing_is_said_where_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream := io.StringIO())
        patch.setattr(_progress, "time", SimpleNamespace(monotonic=Clock(10.0).monotonic))
        opgraft.torch.export(Recurrent(), (X,), verify=False, progress=False)
    assert stream.getvalue() == ""


def test_an_export_inside_another_leaves_its_limit_to_that_one() -> None:
    outer, inner = (_watch.Watch(_progress.Progress("", is_shown=False)) for _ in range(2))
    with (
        pytest.raises(opgraft.Error, match="limit of 1 s"),
        outer.watching(1),
        inner.watching(None),
    ):
        raise _progress.Late
