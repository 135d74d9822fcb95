"""An export ends in a program or in an error of Opgraft's, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import logging
import threading
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([1.0, 2.0, 3.0])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


class Replacing(torch.nn.Module):
    """torch's own exporter ends the process with such a model."""

    def __init__(self, factor: float, *, is_used: bool) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))
        self.factor = factor
        self.is_used = is_used

    def forward(self, x: Any) -> Any:
        self.w.data = self.w.data * self.factor
        return x * self.w if self.is_used else x * 2


@WAYS
def test_a_parameter_whose_data_is_replaced(options: Any) -> None:
    model = Replacing(0.5, is_used=True)
    before = model.w.data_ptr()
    with pytest.raises(opgraft.ModelError, match="keeps state") as caught:
        opgraft.torch.export(model, (X,), **options)
    assert "self.w.data = self.w.data * self.factor: parameter `w`" in str(caught.value)
    assert torch.equal(model.w, torch.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = opgraft.torch.export(Replacing(1.0, is_used=False), (X,), **options)
        torch.testing.assert_close(program(X)[0], X * 2)
        try:
            program = opgraft.torch.export(model, (X,), specialise=True, **options)
        except opgraft.Error as error:  # no way of torch's takes it; but the process goes on
            assert "Fix" in str(error)
        else:
            torch.testing.assert_close(program(X)[0], X * 0.5)
    assert torch.equal(model.w, torch.ones(3))
    assert model.w.data_ptr() == before


@WAYS
@pytest.mark.parametrize(
    "call",
    [
        lambda x: (x > 0).argmax(0),
        lambda x: torch.special.erfcx(x.half()),
    ],
)
def test_a_model_that_itself_fails(call: Any, options: Any) -> None:
    with pytest.raises(opgraft.ModelError, match="itself fails with the given arguments") as caught:
        opgraft.torch.export(call, (X,), **options)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "Fix: give arguments that the model accepts" in str(caught.value)


def test_sizes_are_not_blamed_where_none_are_given() -> None:
    def model(x: Any, i: Any) -> Any:
        return x[i] + x[int(i)]

    with pytest.raises(opgraft.ModelError, match="decides by data") as caught:
        opgraft.torch.export(model, (X, torch.tensor(1)))
    assert "dynamic_shapes" not in str(caught.value)
    assert "Fix: " in str(caught.value)


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


@dataclasses.dataclass
class Registered:
    a: Any
    b: Any


@WAYS
def test_a_dataclass_as_an_argument(options: Any) -> None:
    def model(pair: Any) -> Any:
        return pair.a + pair.b

    with pytest.raises(TypeError) as caught:
        opgraft.torch.export(model, (Pair(X, X),), **options)
    assert "argument 'pair' is a Pair" in str(caught.value)
    assert "Fix: call torch.export.register_dataclass(Pair)" in str(caught.value)


def test_a_dataclass_that_is_registered() -> None:
    torch.export.register_dataclass(Registered)
    program = opgraft.torch.export(lambda pair: pair.a + pair.b, (Registered(X, X),))
    torch.testing.assert_close(program(Registered(X, X * 2))[0], X * 3)


class Made(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Any) -> Any:
        return self.linear(x) * self.scale


@WAYS
def test_a_model_made_under_inference_mode(options: Any) -> None:
    with torch.inference_mode():
        model = Made().eval()
    program = opgraft.torch.export(model, (X,), **options)
    with torch.no_grad():
        torch.testing.assert_close(program(X)[0], model(X))


@WAYS
def test_an_export_under_the_meta_device(options: Any) -> None:
    model = Made().eval()
    with torch.device("meta"):
        program = opgraft.torch.export(model, (X,), **options)
    torch.testing.assert_close(program(X)[0], model(X))


@WAYS
def test_a_result_without_data_is_refused(options: Any) -> None:
    with pytest.raises(opgraft.Error, match="meta") as caught:
        opgraft.torch.export(lambda x: x.to("meta"), (X,), **options)
    assert "Fix: " in str(caught.value)


def test_two_exports_at_a_time_leave_the_loggers_as_they_were() -> None:
    names = ("torch.export", "torch._guards", "torch.onnx")
    before = [logging.getLogger(name).level for name in names]
    threads = [
        threading.Thread(target=opgraft.torch.export, args=(torch.nn.ReLU(), (X,)))
        for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [logging.getLogger(name).level for name in names] == before


def test_what_torch_is_told_of_deterministic_algorithms_stays() -> None:
    import torch._inductor.config as config

    before = config.deterministic
    config.deterministic = True
    try:
        opgraft.torch.export(torch.nn.ReLU(), (X,))
        opgraft.torch.export(lambda x: torch.empty(3).copy_(x), (X,))
        with pytest.raises(opgraft.ModelError, match="decides by data"):  # it is captured strictly
            opgraft.torch.export(lambda x: x if x.sum() > 0 else -x, (X,))
        assert config.deterministic
    finally:
        config.deterministic = before


class DynamicCache:
    """As transformers has one, which torch cannot take apart."""


@WAYS
@pytest.mark.parametrize(
    ("call", "args", "told"),
    [
        (lambda x: (x, DynamicCache()), (X,), "Fix: pass use_cache=False"),
        (
            lambda x: x * torch.rand(3, generator=torch.Generator().manual_seed(3)),
            (X,),
            "without `generator=`",
        ),
        (lambda x: None, (X,), "Fix: return tensors"),
        (
            lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
            (X,),
            "Fix: ",
        ),
        (
            lambda x: torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0],
            (X,),
            "with torch.enable_grad()",
        ),
    ],
    ids=["cache", "generator", "nothing", "quantised", "gradient"],
)
def test_what_to_do_is_said(call: Any, args: Any, told: str, options: Any) -> None:
    with pytest.raises(opgraft.Error) as caught:
        opgraft.torch.export(call, args, **options)
    assert told in str(caught.value)


def test_an_example_of_one_row() -> None:
    with pytest.raises(opgraft.Error, match="each open size is 2 or more"):
        opgraft.torch.export(lambda x: x.squeeze(0), (X[None],), dynamic_shapes=({0: "n"},))


@WAYS
def test_a_model_that_holds_itself(options: Any) -> None:
    model = torch.nn.ReLU()
    model.inner = model
    with pytest.raises(opgraft.Error, match="RecursionError"):
        opgraft.torch.export(model, (X,), **options)


def test_a_fault_of_torchs_is_an_error_of_opgrafts(monkeypatch: pytest.MonkeyPatch) -> None:
    from opgraft.torch._export import _export

    def fails(*args: Any, **options: Any) -> Any:
        raise KeyError("something inside of torch")

    monkeypatch.setattr(_export, "capture", fails)
    with pytest.raises(opgraft.Error, match="KeyError: 'something inside of torch'") as caught:
        opgraft.torch.export(torch.nn.ReLU(), (X,))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "Fix: " in str(caught.value)
