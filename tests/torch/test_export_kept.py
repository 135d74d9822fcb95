"""Whatever a model keeps from call to call is seen, in whichever way Python lets it be kept."""

from __future__ import annotations

import itertools
import random
import threading
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([1.0, 2.0, 3.0])
WAYS = pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])


class Model(torch.nn.Module):
    """It has one thing more than its function, which the function writes to."""

    def __init__(self, call: Any, kept: Any) -> None:
        super().__init__()
        self.call = call
        self.kept = kept

    def forward(self, x: Any) -> Any:
        return self.call(self, x)


class Slots:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


class First:
    pass


class Second:
    pass


def _set(self: Any, x: Any) -> Any:
    self.kept.add(len(self.kept))
    return x * len(self.kept)


def _numpy(self: Any, x: Any) -> Any:
    self.kept += 1
    return x * (1.0 if self.kept[0] < 60 else 2.0)


def _new_numpy(self: Any, x: Any) -> Any:
    self.kept = self.kept + 1
    return x * float(self.kept[0])


def _numpy_number(self: Any, x: Any) -> Any:
    self.kept = self.kept + np.int64(1)
    return x * int(self.kept)


def _slots(self: Any, x: Any) -> Any:
    self.kept.n += 1
    return x * self.kept.n


def _new_slots(self: Any, x: Any) -> Any:
    self.kept = Slots(self.kept.n + 1)
    return x * self.kept.n


def _builtin(self: Any, x: Any) -> Any:
    y = self.kept(x)
    self.kept = torch.cos
    return y


def _class(self: Any, x: Any) -> Any:
    y = x * 2 if isinstance(self.kept, First) else x * 3
    self.kept = Second()
    return y


def _dtype(self: Any, x: Any) -> Any:
    y = (x + 0.5).to(self.kept).float()
    self.kept = torch.int32
    return y


def _bytes(self: Any, x: Any) -> Any:
    self.kept[0] += 1
    return x * (1.0 if self.kept[0] < 60 else 2.0)


def _count(self: Any, x: Any) -> Any:
    return x * (1.0 if next(self.kept) < 60 else 2.0)


def _iterator(self: Any, x: Any) -> Any:
    return x * next(self.kept)


def _generator(self: Any, x: Any) -> Any:
    return x * self.kept.random()


def _local(self: Any, x: Any) -> Any:
    self.kept.n = getattr(self.kept, "n", 0) + 1
    return x * self.kept.n


def _float8(self: Any, x: Any) -> Any:
    y = x * self.kept.float()
    self.kept = (self.kept.float() * 2).to(self.kept.dtype)
    return y


def _sparse(self: Any, x: Any) -> Any:
    y = torch.mv(self.kept.to_dense(), x)
    self.kept = self.kept * 2
    return y


def _tiny(self: Any, x: Any) -> Any:
    self.kept += 1
    return x * 1e-12 * self.kept


def _every_fifth(self: Any, x: Any) -> Any:
    self.kept += 1
    return x * 2 if self.kept % 5 == 0 else x


def _maximum(self: Any, x: Any) -> Any:
    self.kept = torch.maximum(self.kept, x.max())
    return x / self.kept


def _maximum_in_place(self: Any, x: Any) -> Any:
    self.kept.copy_(torch.maximum(self.kept, x.max()))
    return x / self.kept


def _once(self: Any, x: Any) -> Any:
    if self.kept:
        raise RuntimeError("used twice")
    self.kept = True
    return x * 2


def _swap(self: Any, x: Any) -> Any:
    y = self.kept[0](x - 2)
    self.kept.reverse()
    return y


KEPT: dict[str, tuple[Any, Any]] = {
    "a set": (_set, set),
    "an array": (_numpy, lambda: np.zeros(1)),
    "another array": (_new_numpy, lambda: np.zeros(1)),
    "a number of NumPy": (_numpy_number, lambda: np.int64(0)),
    "slots": (_slots, lambda: Slots(0)),
    "another object with slots": (_new_slots, lambda: Slots(0)),
    "a builtin function": (_builtin, lambda: torch.sin),
    "an object of another class": (_class, First),
    "a dtype": (_dtype, lambda: torch.float32),
    "bytes": (_bytes, lambda: bytearray(1)),
    "a count": (_count, itertools.count),
    "an iterator": (_iterator, lambda: iter([1.0] * 40 + [2.0] * 400)),
    "a generator of Python": (_generator, lambda: random.Random(3)),
    "a generator of NumPy": (_generator, lambda: np.random.default_rng(3)),
    "what a thread has": (_local, threading.local),
    "float8": (_float8, lambda: torch.ones(1).to(torch.float8_e4m3fn)),
    "a sparse tensor": (_sparse, lambda: torch.eye(3).to_sparse()),
    "tiny results": (_tiny, lambda: torch.zeros(1)),
    "every fifth call": (_every_fifth, lambda: 0),
    "a running maximum": (_maximum, lambda: torch.tensor(10.0)),
    "a running maximum in place": (_maximum_in_place, lambda: torch.tensor(10.0)),
    "one call": (_once, lambda: False),
    "other modules": (_swap, lambda: [torch.nn.ReLU(), torch.nn.Tanh()]),
}


@pytest.mark.parametrize("what", KEPT)
def test_results_that_depend_on_what_is_kept_are_refused(what: str) -> None:
    call, kept = KEPT[what]
    model = Model(call, kept())
    with pytest.raises(opgraft.ModelError, match="keeps state from call to call") as caught:
        opgraft.torch.export(model, (X,))
    assert "attribute `kept`" in str(caught.value)
    if what == "one call":
        assert "its second call raises RuntimeError: used twice" in str(caught.value)
    torch.testing.assert_close(model(X), Model(call, kept())(X))  # it is as it was


@WAYS
@pytest.mark.parametrize("what", ["a set", "slots", "a count"])
def test_specialise_exports_the_first_call(what: str, options: Any) -> None:
    """However often the model is captured and compared."""
    call, kept = KEPT[what]
    model = Model(call, kept())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = opgraft.torch.export(model, (X,), specialise=True, **options)
    assert any("attribute `kept` is what it was" in one for one in program.report.specialised)
    torch.testing.assert_close(program(X)[0], model(X))


class Named(torch.nn.Module):
    """Its name begins as torch's own do."""

    def __init__(self) -> None:
        super().__init__()
        self._forward_count = 0

    def forward(self, x: Any) -> Any:
        self._forward_count += 1
        return x * self._forward_count


class OfTheClass(torch.nn.Module):
    n = 0

    def forward(self, x: Any) -> Any:
        type(self).n += 1
        return x * (1.0 if type(self).n < 60 else 2.0)


class Maximum(torch.nn.Module):
    """Only torch.export says that a call at the example writes to it: nobody counts writes to
    `.data`."""

    def __init__(self, *, is_used: bool) -> None:
        super().__init__()
        self.register_buffer("m", torch.tensor(10.0))
        self.is_used = is_used

    def forward(self, x: Any) -> Any:
        self.m.data.clamp_(min=x.max())
        return x / self.m if self.is_used else x * 2


class Hook:
    def __init__(self) -> None:
        self.n = 0

    def __call__(self, module: Any, given: Any, result: Any) -> Any:
        self.n += 1
        return result * (1.0 if self.n < 60 else 2.0)


def _hooked() -> Any:
    model = torch.nn.ReLU()
    model.register_forward_hook(Hook())
    return model


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Named, "`_forward_count`"),
        (OfTheClass, "class attribute `OfTheClass.n`"),
        (lambda: Maximum(is_used=True), "buffer `m`"),
        (_hooked, "`_forward_hooks["),
    ],
    ids=["name", "class", "maximum", "hook"],
)
def test_state_elsewhere_is_refused(make: Any, told: str) -> None:
    with pytest.raises(opgraft.ModelError, match="keeps state") as caught:
        opgraft.torch.export(make(), (X,))
    assert told in str(caught.value)
    assert OfTheClass.n == 0


def test_a_buffer_that_is_written_but_stays_as_it_was_is_told() -> None:
    with pytest.warns(UserWarning, match="writes buffer `m` in forward"):
        program = opgraft.torch.export(Maximum(is_used=False), (X,))
    assert "buffer `m`" in program.report.state[0]


class Many(torch.nn.Module):
    """More than is looked at, and then something that is written."""

    def __init__(self, kept: Any) -> None:
        super().__init__()
        self.kept = kept

    def forward(self, x: Any) -> Any:
        return x * 2


def test_what_is_not_watched_is_told() -> None:
    program = opgraft.torch.export(Many([[one] for one in range(50_001)]), (X,))
    assert any("too many objects in its attributes" in note for note in program.report.notes)
    program = opgraft.torch.export(Many(one for one in "abc"), (X,))
    assert any("attribute `kept` is a generator" in one for one in program.report.notes)
    assert not opgraft.torch.export(Many([[1], [2]]), (X,)).report.notes


class Odd(torch.nn.Module):
    """It has tensors that torch does not compare."""

    def __init__(self) -> None:
        super().__init__()
        self.sparse = torch.eye(3).to_sparse()
        self.quantised = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        self.meta = torch.zeros(1, device="meta")
        self.small = torch.ones(2).to(torch.float8_e5m2)

    def forward(self, x: Any) -> Any:
        return x + 1


@WAYS
def test_tensors_that_torch_does_not_compare(options: Any) -> None:
    program = opgraft.torch.export(Odd(), (X,), **options)
    assert not program.report.state
    torch.testing.assert_close(program(X)[0], X + 1)


class Clumsy(list):  # type: ignore[type-arg]
    def clear(self) -> None:
        raise RuntimeError("not to be cleared")


class Writing(torch.nn.Module):
    """It writes to many things, and to a list that does not let itself be cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.list = Clumsy()
        self.set = {1}
        self.array = np.zeros(2)
        self.bytes = bytearray(2)
        self.slots = Slots(1)
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        self.list.append(1)
        self.set.add(2)
        self.set.discard(1)
        self.array += 1
        self.bytes[0] += 1
        self.slots.n += 1
        self.inner.register_forward_hook(lambda module, given, result: None)
        self.inner.weight.requires_grad_(False)
        return self.inner(x)


@WAYS
def test_an_export_leaves_all_of_it_as_it_was(options: Any) -> None:
    model = Writing().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opgraft.torch.export(model, (X,), **options)
    assert (model.list, model.set, model.slots.n) == ([], {1}, 1)
    assert not model.array.any() and model.bytes == bytearray(2)
    assert not model.inner._forward_hooks
    assert model.inner.weight.requires_grad
