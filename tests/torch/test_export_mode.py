"""In which mode a model is captured and compared, and what an export leaves behind in torch."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402

X = torch.rand(2, 3)


class DiffersWithGradients(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        return y * 2 if y.requires_grad or torch.is_grad_enabled() else y + 1


class DiffersInExports(torch.nn.Module):
    """As torch-geometric does, which computes the maximum of neighbours otherwise there, and not
    right: torch.export is no export of its, but an eager run during one is."""

    def forward(self, x):
        exporting = torch.onnx.is_in_onnx_export() and not torch.compiler.is_compiling()
        return x.amax(0).clamp(min=2) if exporting else x.amax(0)


@pytest.mark.parametrize("model", [DiffersWithGradients, DiffersInExports])
def test_the_model_is_compared_as_it_will_be_used(model: type[torch.nn.Module]) -> None:
    module = model().eval()
    program = opgraft.torch.export(module, (X,))
    assert program.report.verified == ["the given arguments"]
    with torch.no_grad():
        torch.testing.assert_close(program(X)[0], module(X))


def test_layers_of_transformers_are_not_captured_as_one_kernel() -> None:
    """Which torch.nn has where there are no gradients."""
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    before = torch.backends.mha.get_fastpath_enabled()
    report = opgraft.torch.export(layer, (torch.rand(1, 3, 4),)).report
    assert report.is_portable and report.verified
    assert torch.is_grad_enabled() and torch.backends.mha.get_fastpath_enabled() == before


def test_kernels_for_whole_layers_are_off_while_a_model_is_captured() -> None:
    """A kernel of that kind is no help to an export; in use they are as the user has them."""
    seen: list[bool] = []

    def model(x):
        seen.append(torch.backends.mha.get_fastpath_enabled())
        return x + 1

    opgraft.torch.export(model, (X,), verify=False)
    assert False in seen and torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM])
def test_a_second_export_is_as_the_first(kind: type[torch.nn.Module]) -> None:
    """Operators remember the kernels that another capture has put in their place."""
    module = kind(12, 5, batch_first=True).eval()
    x = torch.rand(4, 9, 12)
    for is_last in (False, True):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="dynamic_shapes leaves sizes open")
            program = opgraft.torch.export(
                module, (x,), dynamic_shapes=({0: "batch", 1: "time"},), verify=is_last
            )
        assert [str(one) for one in program.model.graph.inputs[0].shape] == ["batch", "time", "12"]
        assert not program.report.specialised
    assert len(program.report.verified) == 3


def test_nothing_of_an_export_is_left_in_the_operators_of_torch() -> None:
    """What they were dispatched to in it would be called by whatever comes after."""
    opgraft.torch.export(torch.nn.GRU(3, 3), (X,), verify=False)
    assert not torch.ops.aten.gru.input._dispatch_cache
    cache = torch.ops.aten.relu.default._dispatch_cache
    cache["before"] = None
    with _private.fresh_dispatch():
        assert not cache
        cache["meanwhile"] = None
    assert not cache


def test_composite_operators_are_listed_once_for_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are added between two exports are found by the second."""
    listed = []
    known = torch._export.utils._materialize_cpp_cia_ops
    monkeypatch.setattr(
        torch._export.utils, "_materialize_cpp_cia_ops", lambda: (listed.append(1), known())
    )
    ours = torch._export.utils._materialize_cpp_cia_ops
    opgraft.torch.export(torch.nn.ReLU(), (torch.rand(3),))
    opgraft.torch.export(torch.nn.ReLU(), (torch.rand(3),))
    assert len(listed) == 2
    assert torch._export.utils._materialize_cpp_cia_ops is ours


def test_a_gpu_that_is_not_in_use_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting CUDA takes memory, and a process that is forked later cannot use it."""
    started: list[object] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", started.append)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda *_: None)
    opgraft.torch.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),), progress=False)
    assert not started
