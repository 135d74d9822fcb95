"""State that a model writes in a call is never lost silently, and an export leaves none behind."""

from __future__ import annotations

import json
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft import _command  # noqa: E402

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


class Model(torch.nn.Module):
    """It has whatever state the tests write."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call
        self.count = 0
        self.history: list[Any] = []
        self.memory = {"last": None, "steps": 0}
        self.recent: deque[Any] = deque(maxlen=3)
        self.register_buffer("counter", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(3))
        self.plain = torch.zeros(3)
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        return self.call(self, x)


def _unused_counter(self: Any, x: Any) -> Any:
    self.counter += 1
    return x * 2


def _unused_number(self: Any, x: Any) -> Any:
    self.count += 1
    return x * 2


def _unused_history(self: Any, x: Any) -> Any:
    self.history.append(x.detach())
    return x * 2


def _unused_statistics(self: Any, x: Any) -> Any:
    self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
    return x * 2


def _unused_activation(self: Any, x: Any) -> Any:
    self.plain = x * 3
    return self.plain - 1


UNUSED = {
    "buffer `counter`": _unused_counter,
    "attribute `count`": _unused_number,
    "attribute `history`": _unused_history,
    "buffer `mean`": _unused_statistics,
    "attribute `plain`": _unused_activation,
}


@WAYS
@pytest.mark.parametrize("what", UNUSED)
def test_what_is_written_and_not_kept_is_said(what: str, options: Any) -> None:
    model = Model(UNUSED[what]).eval()
    with pytest.warns(UserWarning, match=f"writes {what} in forward"):
        program = opgraft.torch.export(model, (X,), **options)
    (told,) = program.report.state
    assert f"the model writes {what} in forward" in told
    assert "does not keep it. Fix: return it as an output" in told
    assert f"state: {told}" in str(program.report)
    stored = {one.key: one.value for one in program.model_proto.metadata_props}
    assert f"state: the model writes {what}" in stored["opgraft.holds_where"]
    for _ in range(2):
        torch.testing.assert_close(program(X)[0], model(X))


def _counter(self: Any, x: Any) -> Any:
    self.counter += 1
    return x * self.counter


def _number(self: Any, x: Any) -> Any:
    self.count += 1
    return x * self.count


def _late_number(self: Any, x: Any) -> Any:
    self.count += 1
    return x * 10 if self.count > 300 else x


def _tensor(self: Any, x: Any) -> Any:
    self.plain = self.plain * 0.5 + x.mean(0)
    return x + self.plain


def _cache(self: Any, x: Any) -> Any:
    self.mean[:1] = x[0, :1]
    return self.mean.sum() + x


def _steps(self: Any, x: Any) -> Any:
    self.memory["steps"] += 1
    return x + self.memory["steps"]


def _queue(self: Any, x: Any) -> Any:
    self.recent.append(x)
    return torch.stack(list(self.recent)).sum(0)


def _only_sometimes(self: Any, x: Any) -> Any:
    self.mean.add_(torch.where(x.sum() > 100, x.sum(), -x.sum().clamp(max=0)))
    return x + self.mean


USED = {
    "buffer `counter`": _counter,
    "attribute `count`": _number,
    "attribute `count`, late": _late_number,
    "attribute `plain`": _tensor,
    "buffer `mean`": _cache,
    "attribute `memory`": _steps,
    "attribute `recent`": _queue,
    "buffer `mean`, at times": _only_sometimes,
}


@WAYS
@pytest.mark.parametrize("what", USED)
def test_results_that_depend_on_earlier_calls_are_refused(what: str, options: Any) -> None:
    model = Model(USED[what]).eval()
    with pytest.raises(opgraft.ModelError, match="Model keeps state from call to call") as caught:
        opgraft.torch.export(model, (X,), **options)
    assert what.partition(",")[0] in str(caught.value)
    assert "Fix: take `" in str(caught.value)
    assert "specialise=True" in str(caught.value)


@WAYS
@pytest.mark.parametrize("call", [_counter, _number, _tensor, _cache])
def test_specialise_exports_the_first_call(call: Any, options: Any) -> None:
    model = Model(call).eval()
    with pytest.warns(UserWarning, match="specialised"):
        program = opgraft.torch.export(model, (X,), specialise=True, **options)
    (told,) = program.report.specialised
    assert "is what it was at the export" in told
    assert all(", where " in one for one in program.report.verified)
    torch.testing.assert_close(program(X)[0], model(X))


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: Any) -> Any:
        self.n += 1
        return x * self.n


def test_the_line_that_writes_is_named() -> None:
    with pytest.raises(opgraft.ModelError) as caught:
        opgraft.torch.export(torch.nn.Sequential(Counter()), (X,))
    assert "test_export_state.py, line" in str(caught.value)
    assert "self.n += 1: attribute `0.n`" in str(caught.value)


def test_a_model_that_writes_once_what_it_could_compute_again() -> None:
    class Table(torch.nn.Module):
        table = None

        def forward(self, x: Any) -> Any:
            if self.table is None:
                self.table = torch.arange(3.0).cos()
            return x * self.table

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = opgraft.torch.export(Table(), (X,), dynamo=False)
    assert not program.report.state


def test_an_argument_that_is_written_to() -> None:
    def model(x: Any, cache: Any) -> Any:
        cache.add_(x)
        return cache * 2

    with pytest.warns(UserWarning, match="writes to its argument `cache`"):
        program = opgraft.torch.export(model, (X, torch.zeros(2, 3)))
    (told,) = program.report.state
    assert "Fix: return it as an output" in told

    def giving(x: Any, cache: Any) -> Any:
        cache.add_(x)
        return x * 2, cache

    assert not opgraft.torch.export(giving, (X, torch.zeros(2, 3))).report.state


def test_a_program_of_torch_export() -> None:
    captured = torch.export.export(Model(_counter).eval(), (X,))
    with pytest.raises(opgraft.ModelError, match="`counter`"):
        opgraft.torch.export(captured)
    captured = torch.export.export(Model(_unused_counter).eval(), (X,))
    with pytest.warns(UserWarning, match="writes buffer `counter`"):
        opgraft.torch.export(captured)


def test_running_statistics_of_a_norm_in_training() -> None:
    with pytest.warns(UserWarning, match="writes buffer `running_mean`"):
        program = opgraft.torch.export(torch.nn.BatchNorm1d(3).train(), (X,))
    assert len(program.report.state) == 3
    assert "batchnorm.py" not in str(program.report.state)  # a line of torch's that nobody changes


def test_a_model_without_state_says_nothing() -> None:
    program = opgraft.torch.export(torch.nn.Linear(3, 2).eval(), (X,))
    assert not program.report.state
    assert not [one.key for one in program.model_proto.metadata_props if "holds" in one.key]


def test_the_doctor_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="writes buffer"):
        opgraft.torch.export(Model(_unused_counter).eval(), (X,), "model.onnx")
    capfd.readouterr()
    _command.main(["doctor", "model.onnx"])
    told = capfd.readouterr().out
    assert "state that the original model changes, but this model does not keep" in told
    assert "buffer `counter`" in told
    assert "correct for such" not in told
    _command.main(["doctor", "model.onnx", "--json"])
    report = json.loads(capfd.readouterr().out)
    assert not report["holds_where"]
    assert "buffer `counter`" in report["state"][0]


def _picture(model: Any) -> Any:
    return {
        name: [(key, id(one)) for key, one in vars(module).items()]
        + [[*map(id, vars(module)[kind].values())] for kind in ("_parameters", "_buffers")]
        for name, module in model.named_modules()
    }


def _everything(self: Any, x: Any) -> Any:
    self.count += 1
    self.history.append(x)
    self.memory["last"] = x
    self.memory["steps"] += 1
    self.recent.append(x)
    self.counter += 1
    self.plain = x.mean(0)
    self.mean = self.mean * 2
    self.added = x
    self.weight.data.mul_(2)
    self.norm.eps = 1.0
    return x * 2


def _failing(self: Any, x: Any) -> Any:
    _everything(self, x)
    raise RuntimeError("it fails")


@WAYS
@pytest.mark.parametrize("call", [_everything, _failing])
def test_an_export_leaves_the_model_as_it_was(call: Any, options: Any) -> None:
    model = Model(call).eval()
    before = _picture(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            opgraft.torch.export(model, (X,), specialise=True, **options)
        except opgraft.Error:
            assert call is _failing
    assert _picture(model) == before
    assert (model.count, model.history, list(model.recent)) == (0, [], [])
    assert model.memory == {"last": None, "steps": 0}
    assert not hasattr(model, "added")
    assert not model.counter.any() and not model.mean.any() and not model.plain.any()
    assert torch.equal(model.weight, torch.ones(3))
    assert type(model.plain) is torch.Tensor


def test_a_result_that_is_what_the_model_keeps() -> None:
    def call(self: Any, x: Any) -> Any:
        self.mean.copy_(x[0])
        return self.mean

    with pytest.warns(UserWarning, match="`mean`"):
        program = opgraft.torch.export(Model(call).eval(), (X,))
    torch.testing.assert_close(program(X * 2)[0], X[0] * 2)
