"""Operators of ours in models that plain torch.onnx.export writes."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from eager_operators import pack_operators, python_operators

import opgraft
import opgraft.torch
from conftest import Write
from opgraft._base import _library

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

X = torch.rand(3, 4)


class Module(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def export(function: Callable[..., Any], *inputs: Any, **options: Any) -> onnx.ModelProto:
    options.setdefault("custom_translation_table", opgraft.torch.translation_table())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Module(function).eval(), inputs, dynamo=True, verbose=False, **options
        )
    model: onnx.ModelProto = program.model_proto
    onnx.checker.check_model(model, full_check=True)
    return model


def check(model: onnx.ModelProto, function: Callable[..., Any], *inputs: Any) -> None:
    """A session of the model gives what torch gives."""
    session = opgraft.InferenceSession(model)
    feed = {one.name: x.numpy() for one, x in zip(session.get_inputs(), inputs, strict=True)}
    results = session.run(None, feed)
    expected = function(*inputs)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(results) == len(expected)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-6)


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


def test_a_node() -> None:
    model = export(lambda x: python_operators.Cube(x + 1) * 2, X)
    (node,) = nodes(model)
    assert (node.domain, node.op_type, len(node.input)) == ("eager.py", "Cube", 1)
    imports = {one.domain: one.version for one in model.opset_import}
    assert imports["eager.py"] == 1
    check(model, lambda x: python_operators.Cube(x + 1) * 2, X)


@pytest.mark.parametrize("operators", [python_operators, pack_operators])
def test_attributes_and_optional_inputs(operators: Any) -> None:
    def function(x: Any) -> Any:
        return (
            operators.Affine(x),
            operators.Affine(x, x, factor=0.1, signs=[1], mode="it's", labels=["a", "b"]),
            operators.Affine(x, None, x, factor=2, labels=[]),
        )

    model = export(function, X)
    one, two, three = nodes(model)
    assert attributes(one) == {} and list(one.input) == [one.input[0]]
    assert attributes(two) == {
        "factor": pytest.approx(0.1),
        "signs": [1],
        "mode": b"it's",
        "labels": [b"a", b"b"],
    }
    assert attributes(three) == {"factor": 2.0, "labels": []}
    assert three.attribute[0].type == onnx.AttributeProto.FLOAT
    assert three.attribute[1].type == onnx.AttributeProto.STRINGS
    assert list(three.input) == [one.input[0], "", one.input[0]]
    check(model, function, X)


def test_a_bool_is_an_integer_in_onnx() -> None:
    model = export(lambda x: python_operators.Affine(x, negate=True), X)
    assert attributes(nodes(model)[0]) == {"negate": 1}
    check(model, lambda x: python_operators.Affine(x, negate=True), X)


def test_lists_of_inputs_and_several_outputs() -> None:
    def function(x: Any, y: Any) -> Any:
        joined = python_operators.Join([x, y, x], axis=1)
        low, _, place = python_operators.Extremes(joined)
        first, second = python_operators.Rows(x[:2], outputs=2)
        halves = pack_operators.Halves(pack_operators.Sum([x, y]))
        repeated = pack_operators.Repeat(x, outputs=3)
        return low, place, second, halves[1], repeated[2], first + 1

    model = export(function, X, X + 1)
    counts = {node.op_type: (len(node.input), len(node.output)) for node in nodes(model)}
    assert counts == {
        "Join": (3, 1),
        "Extremes": (1, 3),
        "Rows": (1, 2),
        "Sum": (2, 1),
        "Halves": (1, 2),
        "Repeat": (1, 3),
    }
    check(model, function, X, X + 1)


def test_dynamic_shapes() -> None:
    def function(x: Any, y: Any) -> Any:
        return (
            python_operators.Join([x, y]),
            pack_operators.Windows(x[:, 0], width=3),
            pack_operators.Add(x, y[:1]),
            python_operators.Distinct(x),
        )

    n, m = torch.export.Dim("n", min=4), torch.export.Dim("m", min=2)
    shapes = (({0: n}, {0: m}),)
    model = export(function, torch.rand(6, 2), torch.rand(5, 2), dynamic_shapes=shapes)
    check(model, function, torch.rand(6, 2), torch.rand(5, 2))
    check(model, function, torch.rand(9, 2), torch.rand(2, 2))
    sizes = [
        [dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim]
        for one in model.graph.output
    ]
    assert sizes[0] in (["m + n", 2], ["n + m", 2]) and sizes[1:3] == [["n - 2", 3], ["n", 2]]


def test_parameters_and_control_flow() -> None:
    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return torch.cond(
                x.sum() > 0,
                lambda x: python_operators.Cube(self.linear(x)),
                lambda x: pack_operators.Copy(self.linear(x)),
                (x,),
            )

    net = Net().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = opgraft.torch.translation_table()
        program = torch.onnx.export(
            net, (X,), dynamo=True, verbose=False, custom_translation_table=table
        )
    session = opgraft.InferenceSession(program.model_proto)
    for x in (X, -X):
        (y,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-5)


FAR = """
    import opgraft

    @opgraft.op("far.torch::Scale", shape=lambda x: x)
    def scale(x: np.ndarray, *, factor: float = 2.0) -> np.ndarray:
        return x * x.dtype.type(factor)
"""


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_other_processes_find_the_module(
    host: str, write_module: Write, module_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_module(FAR)
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    monkeypatch.chdir(module_folder)
    __import__(name)
    model = export(lambda x: torch.ops.far_torch.Scale(x, factor=3), torch.ones(2))
    (node,) = nodes(model)
    assert ("opgraft.module", name) in {(one.key, one.value) for one in node.metadata_props}
    onnx.save(model, "model.onnx")
    np.save("x.npy", np.ones(2, np.float32))
    command = [sys.executable, "-m", "opgraft", "run", "--host", host, "model.onnx", "--input"]
    source = f"{model.graph.input[0].name}=x.npy"
    done = subprocess.run(
        [*command, source, "--allow", name], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("float32 (2)\n3 3\n"), done.stderr
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert f"'{name}', which this host does not allow" in done.stderr


def test_answering_to_an_operator_of_torchs() -> None:
    names = ["aten::special_modified_bessel_k0", "aten::special_modified_bessel_k1"]

    @opgraft.op("answer::Bessel", torch=names, shape=lambda x: x)
    def bessel(x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x)

    @opgraft.op("answer::Replace", torch="aten::nan_to_num", shape=lambda x: x)
    def replace(x: np.ndarray, *, nan: float = 0.0) -> np.ndarray:
        return np.where(np.isnan(x), x.dtype.type(nan), x)

    def function(x: Any) -> Any:
        zeros = torch.special.modified_bessel_k0(x), torch.special.modified_bessel_k1(x + 1)
        return (*zeros, torch.nan_to_num(x, nan=2))

    x = torch.tensor([1.0, torch.nan])
    model = export(function, x)
    assert [node.op_type for node in nodes(model)] == ["Bessel", "Bessel", "Replace"]
    assert attributes(nodes(model)[2]) == {"nan": 2.0}
    y = opgraft.InferenceSession(model).run(None, {model.graph.input[0].name: x.numpy()})
    assert [one.tolist() for one in y] == [[0, 0], [0, 0], [1, 2]]
    with pytest.raises(Exception) as caught:  # torch's own, around ours
        export(lambda x: torch.nan_to_num(x, posinf=3), x)
    text = str(caught.getrepr(chain=True))
    assert "answer::Replace is declared to replace aten.nan_to_num.default, but cannot" in text
    assert "'posinf' is 3" in text and "translation_table(answering=False)" in text
    own = opgraft.torch.translation_table(answering=False)
    assert torch.ops.answer.Replace.default in own
    assert torch.ops.aten.nan_to_num.default not in own


def test_answering_of_the_shipped_pack() -> None:
    opgraft.load(_library.shipped_packs()[0])
    matrices = torch.rand(2, 3, 3) + 3 * torch.eye(3)
    for function in (torch.inverse, torch.linalg.inv):  # two names of one
        model = export(function, matrices)
        assert [node.op_type for node in nodes(model)] == ["Inverse"]
    (y,) = opgraft.InferenceSession(model).run(None, {model.graph.input[0].name: matrices.numpy()})
    np.testing.assert_allclose(y, torch.linalg.inv(matrices).numpy(), rtol=1e-4)
    y = torch.ops.com_microsoft.Inverse(matrices)
    assert torch.allclose(y @ matrices, torch.eye(3).expand(2, 3, 3), atol=1e-5)


def test_the_table_is_made_anew() -> None:
    before = opgraft.torch.translation_table()

    @opgraft.op("answer::Later", shape=lambda x: x)
    def later(x: np.ndarray) -> np.ndarray:
        return x

    added = opgraft.torch.translation_table().keys() - before.keys()
    assert added == {torch.ops.answer.Later.default}


def test_what_torch_refers_to_is_checked_where_it_is_declared() -> None:
    for wrong in ("linalg_inv", "aten.linalg_inv", 3, ["aten::a", "b"]):
        with pytest.raises(
            opgraft.Error, match="answer::Wrong: expected torch to be the name of an"
        ):

            @opgraft.op("answer::Wrong", torch=wrong)  # type: ignore[arg-type]
            def operator(x: np.ndarray) -> np.ndarray:
                return x

    @opgraft.op("answer::Nobody", torch="aten::no_such_operator")
    def nobody(x: np.ndarray) -> np.ndarray:
        return x

    assert opgraft.torch.translation_table()
