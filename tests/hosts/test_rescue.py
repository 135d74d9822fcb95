"""Models with types that the runtime has no kernels for, in both hosts (docs/rescue.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import opgraft
from conftest import VERSION, Write, graph_model
from opgraft._base._library import runner_path, runtime_library
from opgraft._run import _kernels

BFLOAT16 = ml_dtypes.bfloat16
# One unit in the last place of bfloat16 is 2^-7 of the number at most.
NEAR = {"rtol": 2**-6, "atol": 2**-6}
lacks_bfloat16 = pytest.mark.skipif(
    VERSION > (1, 31), reason="a newer ONNX Runtime may have the kernels"
)
pytestmark = lacks_bfloat16


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16)


def with_weights(model: onnx.ModelProto, dtype: Any, **weights: np.ndarray) -> onnx.ModelProto:
    for name, array in weights.items():
        array = array.astype(dtype) if array.dtype == BFLOAT16 else array
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = helper.make_tensor(name, number, array.shape, array.tobytes(), raw=True)
        model.graph.initializer.append(tensor)
    return model


def in_python(model: onnx.ModelProto, exact: bool = False, **inputs: np.ndarray) -> np.ndarray:
    session = opgraft.InferenceSession(model, exact=exact)
    assert [one.name for one in session.get_inputs()] == [one.name for one in model.graph.input]
    result: np.ndarray = session.run(["y"], inputs)[0]
    return result


def in_cpp(model: onnx.ModelProto, folder: Path, *more: str, **inputs: np.ndarray) -> np.ndarray:
    path = folder / "model.onnx"
    onnx.save(model, path)
    command = [runner_path(), "--onnxruntime", runtime_library(), *more]
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder}/{name}.npy"]
    command += ["--output", f"y={folder}/y.npy", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: np.ndarray = np.load(folder / "y.npy")
    return result.view(BFLOAT16) if result.dtype.kind == "V" else result


def mlp(dtype: Any, name: str) -> onnx.ModelProto:
    model = graph_model(f"""({name}[n, 16] x) => ({name}[n, 8] y) {{
        a = MatMul (x, w1)  b = Add (a, b1)  c = Relu (b)
        d = MatMul (c, w2)  y = Softmax (d) }}""")
    return with_weights(
        model, dtype, w1=random(16, 32), b1=random(32, seed=1), w2=random(32, 8, seed=2)
    )


def block(dtype: Any, name: str) -> onnx.ModelProto:
    """A block of a transformer: attention with 4 heads, and a layer that is twice as wide."""
    model = graph_model(
        f"""({name}[b, s, 32] x) => ({name}[b, s, 32] y) {{
        n1 = LayerNormalization (x, g1, h1)
        qkv = MatMul (n1, wqkv)
        parts = Reshape (qkv, heads)
        turned = Transpose <perm = [2, 0, 3, 1, 4]> (parts)
        q0, k0, v0 = Split <axis = 0, num_outputs = 3> (turned)
        q = Squeeze (q0, zero)  k = Squeeze (k0, zero)  v = Squeeze (v0, zero)
        kt = Transpose <perm = [0, 1, 3, 2]> (k)
        scores = MatMul (q, kt)
        scaled = Mul (scores, scale)
        weights = Softmax (scaled)
        mixed = MatMul (weights, v)
        back = Transpose <perm = [0, 2, 1, 3]> (mixed)
        flat = Reshape (back, wide)
        out = MatMul (flat, wo)
        r1 = Add (x, out)
        n2 = LayerNormalization (r1, g1, h1)
        up = MatMul (n2, wu)
        act = Gelu (up)
        down = MatMul (act, wd)
        y = Add (r1, down) }}""",
        opset=20,
    )
    small = {
        "wqkv": random(32, 96, seed=1) * BFLOAT16(0.2),
        "wo": random(32, 32, seed=2) * BFLOAT16(0.2),
        "wu": random(32, 64, seed=3) * BFLOAT16(0.2),
        "wd": random(64, 32, seed=4) * BFLOAT16(0.2),
    }
    return with_weights(
        model,
        dtype,
        **small,
        g1=np.ones(32, BFLOAT16),
        h1=np.zeros(32, BFLOAT16),
        scale=np.array(0.35, BFLOAT16),
        heads=np.array([0, 0, 3, 4, 8]),
        wide=np.array([0, 0, 32]),
        zero=np.array([0]),
    )


@pytest.mark.parametrize("make, shape", [(mlp, (5, 16)), (block, (2, 7, 32))])
def test_a_bfloat16_model_computes_what_its_float32_twin_does(
    make: Any, shape: tuple[int, ...], tmp_path: Path
) -> None:
    x = random(*shape, seed=9)
    twin = onnxruntime.InferenceSession(make(np.float32, "float").SerializeToString())
    expected = twin.run(None, {"x": x.astype(np.float32)})[0]
    model = make(BFLOAT16, "bfloat16")
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        onnxruntime.InferenceSession(model.SerializeToString())
    for exact in (False, True):
        result = in_python(model, exact, x=x)
        assert result.dtype == BFLOAT16
        near = {name: 4 * value for name, value in NEAR.items()} if exact else NEAR
        np.testing.assert_allclose(result.astype(np.float32), expected, **near)
    np.testing.assert_array_equal(in_cpp(model, tmp_path, x=x), in_python(model, x=x))


def test_weights_stay_as_they_are_and_are_cast_once() -> None:
    prepared = opgraft.prepare(block(BFLOAT16, "bfloat16"))
    model = onnx.load_from_string(prepared.bytes)
    types = {one.name: one.data_type for one in model.graph.initializer}
    assert types["wqkv"] == types["g1"] == TensorProto.BFLOAT16
    casts = [node.input[0] for node in model.graph.node if node.op_type == "Cast"]
    assert len(set(casts)) == len(casts)
    assert {"x", "wqkv", "wo", "wu", "wd", "scale"} <= set(casts)
    assert sum(int(one.cost.split()[0]) for one in prepared.rescues) == len(casts)
    given = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        random(1, 3, 32).view(np.uint16), TensorProto.BFLOAT16
    )
    plain = onnxruntime.InferenceSession(prepared.bytes)
    assert plain.run_with_ort_values(["y"], {"x": given})[0].shape() == [1, 3, 32]


def test_exact_rounds_each_result(tmp_path: Path) -> None:
    model = graph_model("""(bfloat16[n] x, bfloat16[n] z) => (bfloat16[n] y) {
        a = Mul (x, z)  b = Add (a, z)  c = Mul (b, b)  y = Sub (c, x) }""")
    x, z = random(500), random(500, seed=1)
    b = x * z + z  # in ml_dtypes each operation rounds
    np.testing.assert_array_equal(in_python(model, True, x=x, z=z), b * b - x)
    assert (in_python(model, x=x, z=z) != b * b - x).any()


def test_what_is_compared_is_rounded_first(tmp_path: Path) -> None:
    model = graph_model("""(bfloat16[n] x, bfloat16[n] z) => (int32[n] y) {
        a = Mul (x, z)  b = Floor (a)  c = Cast <to = 6> (b)  d = Cast <to = 6> (a)
        e = Greater (a, x)  f = Cast <to = 6> (e)
        g = Add (c, d)  y = Add (f, g) }""")
    x, z = random(3000) * BFLOAT16(40), random(3000, seed=1) * BFLOAT16(3)
    a = x * z
    floor = np.floor(a.astype(np.float32)).astype(BFLOAT16).astype(np.int32)
    expected = floor + a.astype(np.int32) + (a > x)
    np.testing.assert_array_equal(in_python(model, x=x, z=z), expected)
    np.testing.assert_array_equal(in_cpp(model, tmp_path, x=x, z=z), expected)
    unrounded = x.astype(np.float32) * z.astype(np.float32)
    assert (np.floor(unrounded) != np.floor(a.astype(np.float32))).any()  # else it shows nothing


def test_graphs_inside_nodes(tmp_path: Path) -> None:
    model = graph_model("""(bfloat16[n] x, int64 count, bool more) => (bfloat16[n] y) {
        a = Exp (x)
        b = Loop (count, more, a) <body = g (int64 i, bool c, bfloat16[n] v)
            => (bool c_out, bfloat16[n] v_out) { c_out = Identity (c)  v_out = Mul (v, half) }>
        y = If (more) <then_branch = g1 () => (bfloat16[n] t) { t = Add (b, a) },
            else_branch = g2 () => (bfloat16[n] e) { e = Sub (b, a) }> }""")
    with_weights(model, BFLOAT16, half=np.array(0.5, BFLOAT16))
    x = random(9)
    given = {"x": x, "count": np.array(3), "more": np.array(True)}
    expected = np.exp(x.astype(np.float32)) * 1.125
    for result in (in_python(model, **given), in_cpp(model, tmp_path, **given)):
        np.testing.assert_allclose(result.astype(np.float32), expected, **NEAR)


def test_functions_of_the_model() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "local": 1]>
        graph (bfloat16[n] x) => (bfloat16[n] y) { a = local.Twice (x)  y = local.Twice (a) }
        <domain: "local", opset_import: ["": 21]> Twice (v) => (w) { w = Add (v, v) }""")
    np.testing.assert_array_equal(in_python(model, x=random(9)), random(9) * BFLOAT16(4))


def test_python_operators_in_between(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x * x.dtype.type(2)")
    model = graph_model(f"""(bfloat16[n] x) => (bfloat16[n] y) {{
        a = Add (x, x)
        b = test.PyOp <module = "{module}", class_name = "Op", input_types = [16],
            output_types = [16]> (a)
        y = Exp (b) }}""")
    session = opgraft.InferenceSession(model, allow=[module])
    x = random(9) * BFLOAT16(0.1)
    result = session.run(None, {"x": x})[0].astype(np.float32)
    np.testing.assert_allclose(result, np.exp(4 * x.astype(np.float32)), **NEAR)
    with pytest.raises(opgraft.PolicyError, match=module):
        opgraft.InferenceSession(model)


def test_float16_where_the_older_opset_has_no_such_type(tmp_path: Path) -> None:
    model = graph_model("(float16[n] x) => (float16[n] y) { y = Celu <alpha = 2.0> (x) }", opset=28)
    x = np.linspace(-4, 4, 50).astype(np.float16)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    for result in (in_python(model, x=x), in_cpp(model, tmp_path, x=x)):
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=2**-9)


INTEGERS = "int8 uint8 int16 uint16 int32 uint32".split()
BINARY = "Add Sub Mul Div Mod Max Min Equal Less Greater BitwiseAnd BitwiseOr BitwiseXor".split()
MORE = {
    "CumSum": "y = CumSum (x, zero)",
    "ReduceSum": "y = ReduceSum <keepdims = 0> (x)",
    "ReduceProd": "y = ReduceProd <keepdims = 0> (x)",
    "ReduceSumSquare": "y = ReduceSumSquare <keepdims = 0> (x)",
    "ReduceMax": "y = ReduceMax <keepdims = 0> (x)",
    "Abs": "y = Abs (x)",
    "Neg": "y = Neg (x)",
    "BitwiseNot": "y = BitwiseNot (x)",
    "Clip": "y = Clip (x, , z0)",
    "Einsum": 'y = Einsum <equation = "i,i->i"> (x, z)',
    "TopK": "y, i = TopK (x, three)",
    "ArgMax": "y = ArgMax (x)",
    "Where": "c = Greater (x, z)  y = Where (c, x, z)",
    "Expand": "y = Expand (x, shape)",
    "Pad": "y = Pad (x, pads)",
    "Tile": "y = Tile (x, three)",
    "BitShiftLeft": 'y = BitShift <direction = "LEFT"> (x, z)',
    "BitShiftRight": 'y = BitShift <direction = "RIGHT"> (x, z)',
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_overflow_as_in_their_own_type(name: str) -> None:
    """Each operator gives what onnx.reference says, bit by bit, or is refused by name."""
    dtype = np.dtype(name)
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(limits.min, limits.max, 200, dtype, endpoint=True)
    z = rng.integers(limits.min, limits.max, 200, dtype, endpoint=True)
    z[z == 0] = 3
    # NumPy itself overflows in the quotient of the smallest number and -1.
    x[x == limits.min] += 1
    outcomes: dict[str, str] = {}
    texts = {one: f"y = {one} (x, z)" for one in BINARY} | MORE
    for operator, text in texts.items():
        given = {"x": x, "z": z % (dtype.itemsize * 8) if "BitShift" in operator else z}
        model = graph_model(f"({name}[n] x, {name}[n] z) => (y) {{ {text} }}")
        with_weights(
            model,
            dtype,
            zero=np.array(0),
            three=np.array([3]),
            pads=np.array([1, 2]),
            shape=np.array([2, 200]),
            z0=z[:1].reshape(()),
        )
        try:
            session = opgraft.InferenceSession(model)
        except opgraft.ModelError as error:
            assert operator.removesuffix("Left").removesuffix("Right") in str(error)
            outcomes[operator] = "refused"
            continue
        outcomes[operator] = "plain"
        try:
            onnxruntime.InferenceSession(model.SerializeToString())
        except Exception:
            outcomes[operator] = "rescued"
        if outcomes[operator] == "plain":
            continue
        result = session.run(["y"], given)[0]
        expected = ReferenceEvaluator(model).run(["y"], given)[0]
        if operator == "CumSum":  # the reference adds in int64
            expected = np.cumsum(x, dtype=dtype)
        np.testing.assert_array_equal(result, expected, err_msg=operator)
        assert result.dtype == np.asarray(expected).dtype, operator
    # ONNX Runtime reduces integers in float64, which cannot overflow as integers do.
    assert "rescued" not in {outcomes[one] for one in MORE if one.startswith(("Reduce", "Einsum"))}
    # ONNX Runtime 1.31 has kernels for int32, except where int64 would not be right either.
    assert ("rescued" in outcomes.values()) == (name != "int32"), outcomes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(uint64[n] x) => (uint64[m] y) { y = ReduceProd (x) }", "uint64"),
        ("(double[n, 3, 4] x) => (double[n, 3, 4] y) { y = LRN <size = 3> (x) }", "float64"),
    ],
)
def test_refused_by_name(text: str, words: str, tmp_path: Path) -> None:
    model = graph_model(text)
    operator = model.graph.node[0].op_type
    with pytest.raises(opgraft.ModelError, match=rf"node '{operator}_y' \({operator}\)") as caught:
        opgraft.InferenceSession(model)
    assert words in str(caught.value)
    assert "Fix: " in str(caught.value)
    onnx.save(model, tmp_path / "model.onnx")
    done = subprocess.run(
        [runner_path(), "--onnxruntime", runtime_library(), str(tmp_path / "model.onnx")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"node '{operator}_y' ({operator})" in done.stderr


def test_a_model_that_loads_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("kernels were asked for")

    monkeypatch.setattr(_kernels.Kernels, "__init__", refuse)
    model = graph_model("(float[n] x) => (float[n] y) { y = Exp (x) }")
    opgraft.InferenceSession(model)


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    weights = random(1200, 8192)  # 19 MB
    model = graph_model("(bfloat16[n, 1200] x) => (bfloat16[n, 8192] y) { y = MatMul (x, w) }")
    path = tmp_path / "model.onnx"
    onnx.save(with_weights(model, BFLOAT16, w=weights), path)
    x = random(1, 1200, seed=1)
    expected = x.astype(np.float32) @ weights.astype(np.float32)
    result = opgraft.InferenceSession(path).run(None, {"x": x})[0]
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=2**-6, atol=0.5)


def test_prepared_for_another_runtime_nothing_is_rescued() -> None:
    prepared = opgraft.prepare(mlp(BFLOAT16, "bfloat16"), runtime="1.22.1")
    assert prepared.rescues == ()
    assert "Cast" not in {n.op_type for n in onnx.load_from_string(prepared.bytes).graph.node}


def test_the_callers_error_is_the_runtimes_if_nothing_helps() -> None:
    model = graph_model("(float[n] x) => (float[n] y) { y = NoSuchOperator (x) }")
    with pytest.raises(opgraft.ModelError, match="NoSuchOperator"):
        opgraft.InferenceSession(model)


def opgraft_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("opgraft")
    return subprocess.run(
        [command, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_the_commands_tell_what_was_done(tmp_path: Path) -> None:
    onnx.save(mlp(BFLOAT16, "bfloat16"), tmp_path / "model.onnx")
    done = opgraft_command("--verbose", "prepare", "model.onnx", "out.onnx", cwd=tmp_path)
    line = "node 'MatMul_a' runs MatMul in float32 instead of bfloat16 (2 Casts); not needed with"
    assert (done.returncode, line in " ".join(done.stdout.split())) == (0, True), done.stdout
    done = opgraft_command("prepare", "model.onnx", "out.onnx", cwd=tmp_path)
    told = "nodes that are rescued: 5, float32 instead of bfloat16 (--verbose names each)"
    assert told in " ".join(done.stdout.split())
    onnxruntime.InferenceSession(tmp_path / "out.onnx")  # a plain session
    done = opgraft_command("prepare", "model.onnx", "old.onnx", "--runtime", "1.22.1", cwd=tmp_path)
    assert "ONNX Runtime 1.22.1 is not installed" in " ".join(done.stderr.split())
    done = opgraft_command("doctor", "model.onnx", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"], report["trial"]["loaded"]) == (0, "ok", True)
    assert report["rescues"][0] == opgraft.prepare(tmp_path / "model.onnx").rescues[0]._asdict()
    done = opgraft_command("doctor", "model.onnx", cwd=tmp_path)
    line = "MatMul (node 'MatMul_a' and 1 more): float32 instead of bfloat16"
    assert line in " ".join(done.stdout.split()), done.stdout


def test_exact_in_both_hosts(tmp_path: Path) -> None:
    model = graph_model("""(bfloat16[n] x, bfloat16[n] z) => (bfloat16[n] y) {
        a = Mul (x, z)  y = Add (a, z) }""")
    x, z = random(500), random(500, seed=1)
    np.testing.assert_array_equal(in_cpp(model, tmp_path, "--exact", x=x, z=z), x * z + z)
    assert (in_cpp(model, tmp_path, x=x, z=z) != x * z + z).any()


def test_the_body_of_a_newer_operator_is_rescued_too(tmp_path: Path) -> None:
    text = "({0}[n] x, {0}[n] z) => ({0}[n] y) {{ y = SwiGLU (x, z) }}"
    model = graph_model(text.format("bfloat16"), opset=28)
    x, z = random(50), random(50, seed=1)
    twin = ReferenceEvaluator(graph_model(text.format("float"), opset=28))
    given = {"x": x.astype(np.float32), "z": z.astype(np.float32)}
    expected = twin.run(None, given)[0]
    for result in (in_python(model, x=x, z=z), in_cpp(model, tmp_path, x=x, z=z)):
        np.testing.assert_allclose(result.astype(np.float32), expected, **NEAR)
    rungs = {one.rung for one in opgraft.prepare(model).rescues}
    assert rungs == {"function body", "float32 instead of bfloat16"}
