"""A decision by memory that the model writes to is one by data, however the write is hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

X = torch.tensor([[1.0, -2.0, 3.0, 4.0]])


def refuses(model: Any, *args: Any) -> None:
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(model, args)


def _with_gradients(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    view = memory.view(4)
    with torch.enable_grad():
        memory.copy_(x)
    return -x if (view > 40).any().item() else x * 2


def _without_autocast(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    view = memory.view(4)
    with torch.autocast("cpu", enabled=False):
        memory.copy_(x)
    return -x if (view > 40).any().item() else x * 2


@pytest.mark.parametrize("model", [_with_gradients, _without_autocast])
def test_a_context_that_is_an_operator_writes(model: Any) -> None:
    refuses(model, X)


def test_a_context_that_writes_nothing_fixes_nothing() -> None:
    def model(x: Any) -> Any:
        with torch.enable_grad():
            y = x + 1
        return y * 2 if (torch.ones(4) > 0).any().item() else -y

    program = opgraft.torch.export(model, (X,))
    torch.testing.assert_close(program(X * 50)[0], model(X * 50))


class Layers(torch.nn.Module):
    """It writes into what its layers give, and to nothing that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True))
        self.register_buffer("mask", torch.ones(4))

    def forward(self, x: Any) -> Any:
        is_masked = (self.mask < 1).any().item()
        y = self.layers(x)
        return -y if is_masked else y * 2


def test_layers_that_write_in_place_change_nothing_that_is_kept() -> None:
    model = Layers().eval()
    program = opgraft.torch.export(model, (X,))
    assert program.report.captured != "traced"
    torch.testing.assert_close(program(X * 50)[0], model(X * 50))


def _select(x: Any, m: Any) -> None:
    row = m[0]
    row.zero_()
    row.add_(x[0])


def _rows(x: Any, m: Any) -> None:
    for row in m:
        row += x[0]


def _two_views(x: Any, m: Any) -> None:
    m.flatten()[:4].view(1, 4).copy_(x)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "select": _select,
    "iteration": _rows,
    "two views": _two_views,
    "chunk": lambda x, m: m.chunk(2)[0].copy_(x),
    "unbind": lambda x, m: m.unbind(0)[1].copy_(x[0]),
    "transposed": lambda x, m: m.T[:, 0].copy_(x[0]),
    "unflatten": lambda x, m: m.unflatten(1, (4, 1)).copy_(x[:, :, None]),
    "data": lambda x, m: m.data.copy_(x),
    "out": lambda x, m: torch.add(x[0], 1, out=m[0]),
    "out of one argument": lambda x, m: torch.max(x, out=m[0, 0]),
    "chance": lambda x, m: m[0].uniform_(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_trace_sees_writes_through_views(write: Any) -> None:
    def model(x: Any) -> Any:
        memory = torch.zeros(2, 4)
        write(x, memory)
        return -x if memory.sum().item() > 50 else x * 2

    refuses(model, X)


def test_a_trace_sees_writes_to_memory_of_an_open_size() -> None:
    def model(x: Any) -> Any:
        memory = torch.zeros(x.shape[0], 4)
        memory.chunk(1)[0].copy_(x)
        return -x if memory.sum().item() > 50 else x * 2

    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(model, (X.repeat(3, 1),), dynamic_shapes=({0: "n"},), dynamo=False)


def test_a_write_elsewhere_is_none() -> None:
    """Neither a size nor other memory depends on it."""

    def model(x: Any) -> Any:
        memory = torch.zeros(2, 4)
        memory[0].copy_(x[0])
        y = x * 2 if torch.ones(3).sum().item() > 2 and x.shape[0] > 0 else -x
        return y + memory.sum()

    program = opgraft.torch.export(model, (X,), dynamo=False)
    torch.testing.assert_close(program(X * 50)[0], model(X * 50))


def test_a_trace_knows_where_the_data_attribute_comes_from() -> None:
    with pytest.raises(opgraft.ModelError, match="decides by data"):
        opgraft.torch.export(lambda x: -x if x.data.sum() > 50 else x * 2, (X,), dynamo=False)


class Kept(torch.nn.Module):
    """What it does depends on the calls before."""

    def __init__(self, decide: Any) -> None:
        super().__init__()
        self.decide = decide
        self.register_buffer("kept", torch.zeros(1, 4))
        self.plain = torch.zeros(1)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        return -x if self.decide(self, x) else x * 2


def _count(model: Any, x: Any) -> Any:
    model.plain.add_(1)
    return model.plain.sum().item() > 3


def _remember(model: Any, x: Any) -> Any:
    is_large = (model.kept > 3).any().item()
    model.kept.copy_(x)
    return is_large


def _normalise(model: Any, x: Any) -> Any:
    model.norm(x.repeat(2, 1))
    return (model.norm.running_mean > 1).any().item()


@pytest.mark.parametrize("decide", [_count, _remember, _normalise])
@pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])
def test_what_the_model_keeps_and_writes_decides_by_data(decide: Any, options: Any) -> None:
    """That it keeps state comes first; where that is allowed, the decision is told as well."""
    with pytest.raises(opgraft.ModelError, match="keeps state from call to call"):
        opgraft.torch.export(Kept(decide), (X,), **options)
    with pytest.warns(UserWarning, match="specialised"):
        program = opgraft.torch.export(Kept(decide), (X,), specialise=True, **options)
    assert any("is what it was at the export" not in one for one in program.report.specialised)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: len(torch.where(x > 40)[0]) > 0,
        lambda x: torch.cat([torch.zeros(0), x[0][torch.where(x[0] > 40)[0]]]).numel() > 0,
        lambda x: torch.empty(1).uniform_().item() > 0.5,
        lambda x: torch.empty(1).exponential_().item() > 0.7,
        lambda x: torch.poisson(torch.ones(1)).item() > 0.5,
    ],
    ids=["where", "sum of sizes", "uniform", "exponential", "poisson"],
)
def test_sizes_by_data_and_chance(ask: Any) -> None:
    refuses(lambda x: -x if ask(x) else x * 2, X)


def test_sizes_that_a_trace_was_not_tried_at_are_told() -> None:
    def model(x: Any) -> Any:
        return -x if x.shape[0] > 100 else x * 2

    program = opgraft.torch.export(model, (X,), dynamic_shapes=({0: "n"},), dynamo=False)
    assert not program.report.specialised
    (told,) = [one for one in program.report.notes if "ask for sizes" in one]
    assert told.endswith("return -x if x.shape[0] > 100 else x * 2")
    assert any("were not tried alone" in one for one in program.report.notes)
    stored = {one.key: one.value for one in program.model_proto.metadata_props}
    assert "> 100 else x * 2: asks for sizes" in stored["opgraft.holds_where"]
    fixed = opgraft.torch.export(model, (X,), dynamo=False)
    assert not [one for one in fixed.report.notes if "ask for sizes" in one]


def _data_of_another(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    memory.data = x
    return memory


def _by_dlpack(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    torch.utils.dlpack.from_dlpack(memory).copy_(x)
    return memory


def _by_storage(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    memory.untyped_storage().copy_(x.untyped_storage())
    return memory


def _by_a_function(x: Any) -> Any:
    memory = torch.zeros(1, 4)
    memory.map_(x, lambda old, new: new)
    return memory


@pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])
@pytest.mark.parametrize("write", [_data_of_another, _by_dlpack, _by_storage, _by_a_function])
def test_memory_that_is_written_past_operators(write: Any, options: Any) -> None:
    def model(x: Any) -> Any:
        return -x if (write(x.clone()) > 40).any() else x * 2

    with pytest.raises(opgraft.Error):
        opgraft.torch.export(model, (X,), **options)
