"""The symbolic functions of all operators that Opgraft ships: exported, run and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from read_once import functions_read_once  # noqa: F401
from symbolic_exports import export, node_names, torch

import opgraft
from opgraft._base import _library
from opgraft.torch import register_custom_ops_pytorch_exporter, symbolics
from opgraft.torch._legacy import _symbolic

MATRICES = torch.linspace(-2, 2, 24).reshape(2, 3, 4)[:, :, :3] + 3 * torch.eye(3)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_symbolic, "_registered", {})
    symbolics.register()


def shipped_operators() -> set[str]:
    return {name for pack in _library.shipped_packs() for name in opgraft.load(pack).operators}


def check(function: Any, x: Any, expected: list[str], runs_in_plain: bool = True) -> None:
    """The export has these nodes, and runs by our kernels and by ONNX Runtime's own."""
    program = export(function, x)
    assert node_names(program) == expected
    model = program.model_proto.SerializeToString()
    sessions = [opgraft.InferenceSession(model, prefer=["com.microsoft"])]
    if runs_in_plain:
        sessions.append(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]))
    outputs = function(x)
    for session in sessions:
        given = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        for one, right in zip(given, outputs, strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-5)


def test_every_operator_that_we_ship() -> None:
    def function(x: Any) -> Any:
        return (
            torch.inverse(x),
            torch.linalg.inv(x + 1),
            torch.nn.functional.gelu(x),
            torch.triu(x),
            torch.tril(x, -1),
        )

    inverse, gelu, trilu = (f"com.microsoft::{name}" for name in ("Inverse", "Gelu", "Trilu"))
    check(function, MATRICES, [inverse, "::Add", inverse, gelu, trilu, trilu])
    assert shipped_operators() == {inverse, gelu, trilu}, "an operator has no symbolic function"


def test_types() -> None:
    def function(x: Any) -> Any:
        x = x.double()
        return torch.nn.functional.gelu(x), torch.triu(x), torch.inverse(x)

    names = [f"com.microsoft::{name}" for name in ("Gelu", "Trilu", "Inverse")]
    # ONNX Runtime has Gelu for doubles neither here nor there.
    check(function, MATRICES, ["::Cast", *names], runs_in_plain=False)


def test_types_that_only_the_standard_operator_has_in_onnx_runtime() -> None:
    def function(x: Any) -> Any:
        return torch.tril(x.int(), 1), torch.triu(x > 0)

    names = ["::Cast", "::Trilu", "::Greater", "::Trilu"]
    check(function, MATRICES, names)


def test_the_other_formula_of_gelu_stays_standard() -> None:
    def function(x: Any) -> Any:
        return (torch.nn.functional.gelu(x, approximate="tanh"),)

    check(function, MATRICES, ["::Gelu"])


def test_registering_and_taking_back() -> None:
    assert set(_symbolic.registered(20)) == {*symbolics.SYMBOLICS, "aten::linalg_inv"}
    symbolics.unregister()
    assert _symbolic.registered(20) == {}
    register_custom_ops_pytorch_exporter.register_custom_op()
    assert set(_symbolic.registered(20)) == {*symbolics.SYMBOLICS, "aten::linalg_inv"}
    register_custom_ops_pytorch_exporter.unregister_custom_op()
    assert _symbolic.registered(20) == {}
    with pytest.raises(opgraft.Error, match="Opgraft does not have ORTModule's operators"):
        symbolics.register_custom_op(is_ortmodule=True)
