"""opgraft.torch.compat: what it changes in torch, and what it leaves alone."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from read_once import functions_read_once  # noqa: F401

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402
from opgraft.torch._legacy import _symbolic  # noqa: E402

X = torch.linspace(-2, 2, 9).reshape(3, 3) + 3 * torch.eye(3)


@pytest.fixture(scope="module")
def compat() -> Iterator[Any]:
    """The module; what it has changed in torch is as it was when the tests are over."""
    before = dict(vars(torch.onnx))
    yield importlib.import_module("opgraft.torch.compat")
    for name in set(vars(torch.onnx)) - set(before):
        delattr(torch.onnx, name)
    for name, value in before.items():
        setattr(torch.onnx, name, value)
    del sys.modules["opgraft.torch.compat"], opgraft.torch.compat


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_symbolic, "_registered", {})


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.inverse(torch.nn.functional.gelu(x))


def export(exporter: str, **options: Any) -> Any:
    file = io.BytesIO()
    torch.onnx.export(Model().eval(), (X,), file, dynamo=exporter == "new", **options)
    return onnx.load_from_string(file.getvalue())


def nodes(model: Any) -> list[str]:
    return [f"{node.domain}::{node.op_type}" for node in model.graph.node]


def inverse(g: Any, x: Any) -> Any:
    return g.op("com.microsoft::Inverse", x).setType(x.type())


def gelu(g: Any, x: Any, approximate: Any) -> Any:
    return g.op("com.microsoft::Gelu", x).setType(x.type())


both_exporters = pytest.mark.parametrize("exporter", ["new", "old"])


def test_torch_is_changed_by_the_import_alone() -> None:
    """And by no second one."""
    code = """
import torch
def state():
    modules = type(torch)
    return {name: one for name, one in vars(torch.onnx).items() if not isinstance(one, modules)}
before = state()
import opgraft.torch
for name in opgraft.torch.__all__:
    getattr(opgraft.torch, name)
opgraft.torch.register_custom_op_symbolic("::gelu", print, 1)
import opgraft.torch.symbolics
opgraft.torch.symbolics.register()
assert state() == before, "opgraft.torch leaves torch alone"
import opgraft.torch.compat
changed = state()
assert torch.onnx.OnnxRegistry is opgraft.torch.OnnxRegistry
assert torch.onnx.ExportOptions is opgraft.torch.ExportOptions
assert torch.onnx.dynamo_export is opgraft.torch.dynamo_export
assert torch.onnx.export is not before["export"]
same = [name for name in before if changed[name] is before[name]]
assert set(before) - set(same) == {"export"}, set(before) - set(same)
import importlib, inspect, sys
import opgraft.torch.compat
importlib.reload(opgraft.torch.compat)
del sys.modules["opgraft.torch.compat"]
import opgraft.torch.compat
assert state() == changed, "once is as good as often"
assert inspect.signature(torch.onnx.export) == inspect.signature(before["export"])
assert torch.onnx.export.__doc__ == before["export"].__doc__
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_torch_that_has_the_names(compat: Any) -> None:
    names = ["OnnxRegistry", "ExportOptions", "dynamo_export"]
    functions = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]
    own = {name: object() for name in [*names, *functions]}
    torchs = types.SimpleNamespace(export=torch.onnx.export, **own)
    compat.install(torchs)
    assert vars(torchs) == {"export": torch.onnx.export, **own}


def test_a_torch_that_has_some_of_the_names(compat: Any) -> None:
    """Some versions had options without a registry: those of a family fit no other."""
    torchs = types.SimpleNamespace(export=torch.onnx.export, ExportOptions=object())
    compat.install(torchs)
    assert torchs.ExportOptions is opgraft.torch.ExportOptions
    assert torchs.OnnxRegistry is opgraft.torch.OnnxRegistry
    assert torchs.register_custom_op_symbolic is opgraft.torch.register_custom_op_symbolic
    assert torchs.unregister_custom_op_symbolic is opgraft.torch.unregister_custom_op_symbolic


@both_exporters
@pytest.mark.parametrize("register", ["torch", "opgraft"])
def test_symbolic_functions(compat: Any, exporter: str, register: str) -> None:
    """torch's old exporter knows inverse by another name, and has a gelu of its own from opset 9
    on, which a function for opset 1 would not replace."""
    module = torch.onnx if register == "torch" else opgraft.torch
    for name, function in (("::inverse", inverse), ("::gelu", gelu)):
        module.register_custom_op_symbolic(name, function, 1)
    before = _private.registered_symbolics()
    try:
        model = export(exporter)
        assert nodes(model) == ["com.microsoft::Gelu", "com.microsoft::Inverse"]
        assert _private.registered_symbolics() == before, "torch has what it was told, no more"
        session = opgraft.InferenceSession(model)
        (given,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
        np.testing.assert_allclose(given, Model()(X), rtol=1e-4, atol=1e-6)
    finally:
        for name in ("::inverse", "::gelu"):
            module.unregister_custom_op_symbolic(name, 1)
    assert _symbolic.translations() == {}


def test_torch_has_its_own_back_after_an_error(compat: Any) -> None:
    def fails(g: Any, x: Any) -> Any:
        raise KeyError("mine")

    torch.onnx.register_custom_op_symbolic("::inverse", inverse, 20)
    before = _private.registered_symbolics()
    try:
        opgraft.torch.register_custom_op_symbolic("::inverse", fails, 20)
        with pytest.raises(KeyError, match="mine"):
            export("old")
        assert _private.registered_symbolics() == before
    finally:
        torch.onnx.unregister_custom_op_symbolic("::inverse", 20)


def test_the_callers_table_goes_first(compat: Any) -> None:
    from onnxscript import opset18

    for name, function in (("::inverse", inverse), ("::gelu", gelu)):
        opgraft.torch.register_custom_op_symbolic(name, function, 1)
    table = {torch.ops.aten.gelu.default: lambda x, **_: opset18.Neg(x)}
    model = export("new", custom_translation_table=table)
    assert nodes(model) == ["::Neg", "com.microsoft::Inverse"]


def test_without_symbolic_functions_exports_are_torchs(compat: Any) -> None:
    program = torch.onnx.export(torch.nn.ReLU().eval(), (X,), verbose=False)
    assert type(program) is torch.onnx.ONNXProgram
    assert [node.op_type for node in program.model.graph] == ["Relu"]


@pytest.mark.parametrize("external_data", [True, False])
def test_custom_opsets_in_files(compat: Any, external_data: bool, tmp_path: Path) -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(300, 300))

        def forward(self, x):
            return torch.inverse(x @ self.weight)

    opgraft.torch.register_custom_op_symbolic("::inverse", inverse, 1)
    path = tmp_path / "model.onnx"
    with pytest.warns(UserWarning, match="no operator of the domain 'absent'"):
        program = torch.onnx.export(
            Weighted().eval(),
            (torch.rand(300, 300),),
            path,
            verbose=False,
            external_data=external_data,
            custom_opsets={"com.microsoft": 5, "absent": 2},
        )
    assert len(list(tmp_path.iterdir())) == (2 if external_data else 1)
    for model in (onnx.load(path), program.model_proto):
        versions = {entry.domain: entry.version for entry in model.opset_import}
        assert versions["com.microsoft"] == 5
    opgraft.InferenceSession(path)


def test_custom_opsets_are_not_for_onnx(compat: Any) -> None:
    with pytest.raises(opgraft.Error, match="ONNX's own domain; its version is opset_version"):
        torch.onnx.export(torch.nn.ReLU().eval(), (X,), verbose=False, custom_opsets={"": 5})


def test_captured_programs_go_to_the_new_exporter(compat: Any) -> None:
    """As torch has it, whatever `dynamo` says."""
    opgraft.torch.register_custom_op_symbolic("::inverse", inverse, 1)
    captured = torch.export.export(Model().eval(), (X,))
    program = torch.onnx.export(
        captured, dynamo=False, verbose=False, custom_opsets={"com.microsoft": 3}
    )
    assert program.model.opset_imports["com.microsoft"] == 3
