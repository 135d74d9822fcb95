"""`opgraft doctor` of models with operators that torch runs: their names, and all permissions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft import _command  # noqa: E402

OURS = "opgraft.torch.operators"
# A body in NumPy: one in torch's own operators would be traced into.
MODULE = """
    import numpy as np
    import torch

    @torch.library.custom_op("acme::softclip", mutates_args=())
    def softclip(x: torch.Tensor, limit: float) -> torch.Tensor:
        return torch.from_numpy(limit * np.tanh(x.numpy() / np.float32(limit))).to(x.dtype)

    @softclip.register_fake
    def _(x, limit):
        return torch.empty_like(x)
"""


@pytest.fixture
def acme(
    write_module: Any, module_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A module that defines acme::softclip, in a folder where models may be written."""
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    monkeypatch.chdir(tmp_path)
    return str(write_module(MODULE, "acme_operators"))


def examine(capfd: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    _command.main(["doctor", "model.onnx", "--json", *options])
    report: dict[str, Any] = json.loads(capfd.readouterr().out)
    return report


def test_prepare_prints_all_that_must_be_allowed(
    acme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    __import__(acme)
    opgraft.torch.export(lambda x: torch.ops.acme.softclip(x, 3.0), (torch.eye(3),), "model.onnx")
    assert _command.main(["prepare", "model.onnx", "prepared.onnx"]) == 0
    assert f"allow={[acme, OURS]!r}" in capfd.readouterr().out


@pytest.mark.usefixtures("without_special_functions")  # of which i1e is one
def test_all_permissions_at_once(acme: str, capfd: pytest.CaptureFixture[str]) -> None:
    __import__(acme)

    def model(x):
        y = torch.ops.acme.softclip(torch.ops.acme.softclip(x, 3.0), 2.0)
        return torch.linalg.svdvals(y), torch.special.i1e(y)

    program = opgraft.torch.export(model, (torch.eye(3),), "model.onnx")
    assert program.report.allow == sorted([OURS, acme])
    capfd.readouterr()
    command = [sys.executable, "-m", "opgraft", "doctor", "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "2 things are missing" in done.stdout.splitlines()[0]
    assert f'Fix: --allow {OURS} --allow {acme} (in a program allow=["{OURS}", "{acme}"])' in (
        done.stdout
    )
    report = examine(capfd)
    rows = {one["operator"]: one for one in report["operators"]}
    assert {"acme::softclip", "aten::linalg_svdvals", "aten::special_i1e"} <= set(rows)
    softclip = rows["acme::softclip"]
    assert (softclip["count"], softclip["run_by"]) == (2, "torch in Python")
    assert (softclip["module"], softclip["allowed"]) == (acme, False)
    assert softclip["file"].endswith(f"{acme}.py")
    assert softclip["permissions"] == [OURS, acme]
    assert softclip["problem"] == f"{OURS} and {acme} are not allowed"
    assert rows["aten::linalg_svdvals"]["run_by"] == "libtorch"
    assert rows["aten::linalg_svdvals"]["problem"] is None
    (one,) = [
        one for one in examine(capfd, "--allow", acme)["operators"] if one["problem"] is not None
    ]
    assert (one["problem"], one["permissions"]) == (f"{OURS} is not allowed", [OURS])
    report = examine(capfd, *(word for name in (OURS, acme) for word in ("--allow", name)))
    assert report["status"] == "ok" and report["trial"]["loaded"]
    assert all(one["permissions"] == [] for one in report["operators"])


def node(operator: str, number: int, **attributes: Any) -> onnx.NodeProto:
    given = {"operator": operator, "arguments": "(%0)", "results": "float32[2]", "encoding": 1}
    place = {"domain": "org.pytorch.aten", "name": f"node {number}"}
    op_type = "ATen"
    if "defined_in" in attributes:
        op_type, place["domain"] = "PyOp", "ai.opgraft.torch"
        given |= {"module": OURS, "class_name": "TorchOperator", "output_types": [1]}
    return helper.make_node(op_type, ["x"], [f"y{number}"], **place, **given, **attributes)


def save(*nodes: onnx.NodeProto) -> None:
    value = helper.make_tensor_value_info
    outputs = [value(one.output[0], onnx.TensorProto.FLOAT, None) for one in nodes]
    graph = helper.make_graph(nodes, "g", [value("x", onnx.TensorProto.FLOAT, [2])], outputs)
    imports = [helper.make_opsetid(name, 1) for name in ("org.pytorch.aten", "ai.opgraft.torch")]
    imports.append(helper.make_opsetid("", 21))
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=imports), "model.onnx")


def test_operators_that_are_allowed_by_their_own_names(
    acme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those of torch that trust their arguments, and those that no module defines."""
    save(
        node("aten::sigmoid_backward", 0),
        node("aten::tanh_backward", 1, overload_name=""),
        node("image::decode", 2, defined_in="", overload_name="fast"),
        node("far::away", 3, defined_in="far_away"),
        node("main::own", 4, defined_in="__main__"),
        node("aten::relu", 5),
    )
    report = examine(capfd)
    rows = {one["operator"]: one for one in report["operators"]}
    assert {name: one["permissions"] for name, one in rows.items()} == {
        "aten::sigmoid_backward": ["aten::sigmoid_backward"],
        "aten::tanh_backward": ["aten::tanh_backward"],
        "image::decode.fast": [OURS, "image::decode"],
        "far::away": [OURS, "far_away"],
        "main::own": [],
        "aten::relu": [],
    }
    assert "there is no module 'far_away' on Python's path" in rows["far::away"]["problem"]
    assert rows["far::away"]["stub"] is None
    assert "'__main__'" in rows["main::own"]["problem"]
    assert rows["aten::relu"]["problem"] is None
    _command.main(["doctor", "model.onnx"])
    printed = capfd.readouterr().out
    headline = printed.splitlines()[0]
    assert "3 things are missing, 3 operators are refused. WARNING: it asks for" in headline
    assert "--allow" not in printed  # none of them is known to be harmless
    assert "do not allow 'aten::sigmoid_backward', unless" in printed


def test_what_the_session_says_is_put_where_it_belongs(
    acme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    save(node("acme::softclip", 0, defined_in=acme), node("acme::none", 1, defined_in=acme))
    report = examine(capfd, "--allow", OURS, "--allow", acme)
    rows = {one["operator"]: one["problem"] for one in report["operators"]}
    assert rows["acme::softclip"] is None
    assert "torch has no operator acme::none after the import of" in rows["acme::none"]
