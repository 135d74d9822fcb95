"""Models with operators that are newer than the runtime, in both hosts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import opgraft
from opgraft._command import main
from opgraft._run import _prepare

# A block of a model with a state, as Qwen3.5 has it. The names are those of the bodies inside.
BLOCK = """
<ir_version: 13, opset_import: ["": 28]>
block (float[2,5,8] query, float[2,8,3] state, float[2,2,4,4] memory)
  => (float[2,5,8] y, float[2,8,3] new_state, float[2,2,4,4] new_memory)
<float[8,1,4] weight, float[8,8] gate_weight>
{
  turned = Transpose <perm = [0, 2, 1]> (query)
  scores, new_state = CausalConvWithState <activation = "silu"> (turned, weight, "", state)
  mixed = Transpose <perm = [0, 2, 1]> (scores)
  decay = LogSoftmax (mixed)
  last = Constant <value_ints = [-1]> ()
  rate = ReduceMean (decay, last)
  beta = Sigmoid (rate)
  attended, new_memory = LinearAttention <q_num_heads = 2, kv_num_heads = 2>
    (mixed, mixed, mixed, memory, decay, beta)
  SwiGLU_1 = MatMul (attended, gate_weight)
  y = SwiGLU <alpha = 0.5> (SwiGLU_1, attended)
}
"""


def block() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    generator = np.random.default_rng(0)
    model = onnx.parser.parse_model(BLOCK)
    del model.graph.initializer[:]
    for name, shape in (("weight", (8, 1, 4)), ("gate_weight", (8, 8))):
        array = generator.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    shapes = {"query": (2, 5, 8), "state": (2, 8, 3), "memory": (2, 2, 4, 4)}
    feed = {n: generator.standard_normal(s).astype(np.float32) / 2 for n, s in shapes.items()}
    return model, feed


def test_a_block_runs_in_both_hosts(tmp_path: Path) -> None:
    model, feed = block()
    right = ReferenceEvaluator(model).run(None, feed)
    with pytest.raises(Exception, match="ValidateOpsetForDomain"):
        onnxruntime.InferenceSession(model.SerializeToString())
    for one, two in zip(opgraft.InferenceSession(model).run(None, feed), right, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    command = ["run", str(path), "--host", "cpp"]
    for name, value in feed.items():
        np.save(tmp_path / f"{name}.npy", value)
        command += ["--input", f"{name}={tmp_path / name}.npy"]
    names = ["y", "new_state", "new_memory"]
    command += [part for n in names for part in ("--output", f"{n}={tmp_path / n}.npy")]
    assert main(command) == 0
    for name, two in zip(names, right, strict=True):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), two, rtol=1e-4, atol=1e-5)


def test_a_prepared_model_runs_in_a_plain_session(tmp_path: Path) -> None:
    model, feed = block()
    prepared = opgraft.prepare(model)
    session = onnxruntime.InferenceSession(prepared.bytes)
    for one, two in zip(
        session.run(None, feed), ReferenceEvaluator(model).run(None, feed), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    assert opgraft.prepare(prepared.bytes).bytes == prepared.bytes


def test_what_was_rescued_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = block()
    rescues = opgraft.prepare(model).rescues
    assert [one.operator for one in rescues] == ["CausalConvWithState", "LinearAttention", "SwiGLU"]
    assert {one.rung for one in rescues} == {"function body"}
    assert rescues[2] == _prepare.Rescue(
        "SwiGLU_y",
        "SwiGLU",
        "function body",
        "6 nodes",
        "an ONNX Runtime that has SwiGLU of opset 28",
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert main(["prepare", str(tmp_path / "model.onnx"), str(tmp_path / "prepared.onnx")]) == 0
    assert "node 'SwiGLU_y' runs SwiGLU by function body (6 nodes)" in capsys.readouterr().out
    assert main(["doctor", str(tmp_path / "model.onnx"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == "ok"
    (opset,) = [one for one in report["versions"] if one["domain"] == ""]
    assert opset["action"] == "lowered"
    (gate,) = [one for one in report["operators"] if one["operator"] == "ai.onnx::SwiGLU"]
    assert gate["run_by"] == "ONNX Runtime (function body, 6 nodes)"
    assert gate["problem"] is None


@pytest.mark.parametrize("runtime", ["1.19.2", "1.24.4", "1.31.1"])
def test_every_runtime_gets_nodes_that_it_has(runtime: str) -> None:
    model, _ = block()
    prepared = onnx.load_from_string(opgraft.prepare(model, runtime=runtime).bytes)
    operators = {node.op_type for node in prepared.graph.node}
    assert not operators & {"SwiGLU", "Swish", "LinearAttention", "CausalConvWithState"}
    named = [node.name for node in prepared.graph.node if node.name]
    assert len(named) == len(set(named))
    values = [name for node in prepared.graph.node for name in node.output if name]
    assert len(values) == len(set(values))


NESTED = """
<ir_version: 13, opset_import: ["": 28, "local": 1]>
nested (bool go, float[n] x) => (float[n] y)
{
  y = If (go) <
    then_branch = yes () => (float[n] a) { b = SwiGLU (x, x) a = local.twice <slope = 0.25> (b) },
    else_branch = no () => (float[n] a) { a = Swish (x) }
  >
}
<domain: "local", opset_import: ["": 28]>
twice <slope> (x) => (z) { y = SwiGLU <alpha: float = @slope> (x, x) z = Swish (y) }
"""


@pytest.mark.parametrize("go", [True, False])
def test_in_graphs_and_functions(go: bool) -> None:
    model = onnx.parser.parse_model(NESTED)
    feed = {"go": np.array(go), "x": np.array([-2, 0.5, 3], np.float32)}
    (got,) = opgraft.InferenceSession(model).run(None, feed)

    def swish(x: np.ndarray, alpha: float = 1) -> np.ndarray:
        return x / (1 + np.exp(-alpha * x))

    x = feed["x"]
    inner = swish(x) * x
    right = swish(swish(inner, 0.25) * inner) if go else swish(x)
    np.testing.assert_allclose(got, right, rtol=1e-5)


def test_a_function_of_the_same_name_is_the_models_own() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 13, opset_import: ["": 26, "local": 1]>
        g (float[n] x) => (float[n] y) { y = local.Swish (x) }
        <domain: "local", opset_import: ["": 26]>
        Swish (x) => (y) { y = Neg (x) }
    """)
    assert opgraft.prepare(model).rescues == ()
    (got,) = opgraft.InferenceSession(model).run(None, {"x": np.float32([2])})
    assert got.tolist() == [-2]


def test_a_broken_node_is_named() -> None:
    text = """<ir_version: 13, opset_import: ["": 28]>
        g (float[n] x) => (float[n] y) { [the_node] y = SwiGLU <beta = 1.0> (x, x) }"""
    with pytest.raises(opgraft.ModelError) as refused:
        opgraft.InferenceSession(onnx.parser.parse_model(text))
    for words in ("node 'the_node'", "SwiGLU", "'beta', which the operator does not have"):
        assert words in str(refused.value)


def test_bodies_blow_no_model_up() -> None:
    """A function with a long name inside, which each of 100 bodies would copy several times."""
    calls = " ".join(f"v{i} = local.f (v{i - 1})" for i in range(1, 101))
    name = "n" * 2_000_000
    text = f"""<ir_version: 13, opset_import: ["": 28, "local": 1]>
        g (float[n] v0) => (float[n] v100) {{ {calls} }}
        <domain: "local", opset_import: ["": 28]>
        f (x) => (y) {{ {name} = Neg (x) y = SwiGLU ({name}, {name}) }}"""
    with pytest.raises(opgraft.ModelError, match="would copy more than"):
        opgraft.prepare(onnx.parser.parse_model(text))


def test_no_constant_of_a_body_is_unused(capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime warns about each."""
    model, _ = block()
    opgraft.InferenceSession(model)
    assert "It is not used by any node" not in capfd.readouterr().err
