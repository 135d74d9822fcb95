"""The bodies of ONNX's operators (src/model/function_bodies.h), against onnx's own definitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import function_bodies
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import defs, helper
from onnx.reference import ReferenceEvaluator

import opgraft
from opgraft import _pyop

TABLE = Path(__file__).resolve().parents[1] / "src" / "model" / "function_bodies.inc"


def test_table_is_what_onnx_says() -> None:
    """If this fails: python tests/function_bodies.py > src/model/function_bodies.inc."""
    if not onnx.__version__.startswith(function_bodies.opset_changes.ONNX):
        pytest.skip(f"the table is for onnx {function_bodies.opset_changes.ONNX}.x")
    assert TABLE.read_text() == function_bodies.table()


def graph_of(node: onnx.NodeProto, inputs: dict[str, Any], *, shapes: bool = True) -> Any:
    infos = []
    for name, array in inputs.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        infos.append(helper.make_tensor_value_info(name, kind, array.shape if shapes else None))
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    return helper.make_graph([node], "g", infos, outputs)


def body_of(node: onnx.NodeProto, version: int, graph: Any) -> onnx.FunctionProto:
    body = _pyop.function_body(node.SerializeToString(), version, graph.SerializeToString())
    assert body is not None, node.op_type
    return onnx.FunctionProto.FromString(body)


def run_body(
    node: onnx.NodeProto, version: int, inputs: dict[str, Any], *, shapes: bool = True
) -> list[Any]:
    """Runs the body as a function of a model, in ONNX Runtime."""
    graph = graph_of(node, inputs, shapes=shapes)
    function = body_of(node, version, graph)
    function.domain = "local"
    opset = 26 if node.domain else version  # the body of another domain uses ONNX's own
    function.opset_import.add(domain="", version=opset)
    call = graph.node[0]
    call.domain = "local"
    model = helper.make_model(
        graph,
        functions=[function],
        ir_version=10,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("local", 1)],
    )
    session = opgraft.InferenceSession(model.SerializeToString())
    return list(session.run(None, inputs))


def run_node(node: onnx.NodeProto, inputs: dict[str, Any]) -> list[Any]:
    """Runs a model of opset 28, which preparing puts the body into."""
    graph = graph_of(node, inputs)
    model = helper.make_model(graph, ir_version=13, opset_imports=[helper.make_opsetid("", 28)])
    return list(opgraft.InferenceSession(model).run(None, inputs))


def expected(node: onnx.NodeProto, version: int, inputs: dict[str, Any]) -> list[Any]:
    model = helper.make_model(
        graph_of(node, inputs), opset_imports=[helper.make_opsetid(node.domain, version)]
    )
    if node.domain:
        model.opset_import.add(domain="", version=defs.onnx_opset_version())
    return list(ReferenceEvaluator(model).run(None, inputs))


def check(
    operator: str,
    version: int,
    inputs: dict[str, Any],
    outputs: Sequence[str] = ("y",),
    *,
    wanted: Any = None,
    shapes: bool = True,
    near: float = 1e-4,
    domain: str = "",
    names: Sequence[str] | None = None,
    **attributes: Any,
) -> None:
    given = list(inputs) if names is None else list(names)
    node = helper.make_node(operator, given, list(outputs), domain=domain, **attributes)
    right = wanted if wanted is not None else expected(node, version, inputs)
    got = run_body(node, version, inputs, shapes=shapes)
    assert len(got) == len(right)
    for one, two in zip(got, right, strict=True):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        np.testing.assert_allclose(
            one.astype(np.float64), two.astype(np.float64), rtol=near, atol=near
        )


def some(*shape: int, kind: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


UNARY = "Celu Elu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Softplus Softsign Swish"


@pytest.mark.parametrize("operator", [*UNARY.split(), "ThresholdedRelu"])
def test_fixed_bodies_of_one_input(operator: str) -> None:
    for body in function_bodies.bodies():
        if body.operator == operator:
            for version in {body.first, body.last}:
                check(operator, version, {"x": some(3, 4)})


@pytest.mark.parametrize("operator", ["Swish", "SwiGLU", "LeakyRelu", "Elu", "Celu"])
def test_the_attribute_of_a_fixed_body_counts(operator: str) -> None:
    inputs = {"x": some(3, 4), "z": some(3, 4, seed=1)} if operator == "SwiGLU" else {"x": some(9)}
    check(operator, 28, inputs, alpha=0.3)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("operator", ["L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
def test_fixed_bodies_of_reductions(operator: str, keepdims: int) -> None:
    inputs = {"x": np.abs(some(2, 3, 4)), "axes": np.array([1])}
    check(f"Reduce{operator}", 18, inputs, keepdims=keepdims)
    check(f"Reduce{operator}", 28, inputs, keepdims=keepdims)
    check(f"Reduce{operator}", 28, {"x": inputs["x"]}, keepdims=keepdims)


def test_other_fixed_bodies() -> None:
    pair = {"x": some(3, 4), "z": np.round(some(3, 4, seed=1))}
    check("GreaterOrEqual", 16, pair)
    check("LessOrEqual", 28, pair)
    check("PRelu", 28, pair)
    check("SwiGLU", 28, pair)
    check("MeanVarianceNormalization", 28, {"x": some(2, 3, 4, 5)})
    for window in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        check(window, 28, {"x": np.array(10)}, near=1e-3)
        check(window, 28, {"x": np.array(10)}, periodic=0, near=1e-3)
    check("AffineGrid", 28, {"x": some(2, 2, 3), "z": np.array([2, 3, 4, 5])}, align_corners=1)
    check("AffineGrid", 28, {"x": some(2, 3, 4), "z": np.array([2, 3, 4, 5, 6])})
    check("DynamicQuantizeLinear", 11, {"x": some(9)}, ["y", "scale", "zero"])
    check("Range", 11, {"a": np.array(1.0), "b": np.array(9.0), "c": np.array(1.5)})


RULES = ("linear", "gated", "delta", "gated_delta")


@pytest.mark.parametrize(
    ("rule", "heads", "has_state"),
    list(itertools.product(RULES, [(2, 2), (4, 2), (3, 1)], [False, True])),
)
def test_linear_attention(rule: str, heads: tuple[int, int], has_state: bool) -> None:
    batch, length, key_size, value_size = 2, 3, 4, 5
    query_heads, kv_heads = heads
    inputs = {
        "q": some(batch, length, query_heads * key_size),
        "k": some(batch, length, kv_heads * key_size, seed=1) / 2,
        "v": some(batch, length, kv_heads * value_size, seed=2),
        "s": some(batch, kv_heads, key_size, value_size, seed=3),
        "d": -np.abs(some(batch, length, kv_heads * (key_size if has_state else 1), seed=4)),
        "b": np.abs(some(batch, length, kv_heads if has_state else 1, seed=5)) / 4,
    }
    unused = [
        *(() if has_state else "s"),
        *(() if "gated" in rule else "d"),
        *(() if "delta" in rule else "b"),
    ]
    names = ["" if name in unused else name for name in inputs]
    for name in unused:
        del inputs[name]
    check(
        "LinearAttention",
        27,
        inputs,
        ["y", "z"],
        names=names,
        shapes=has_state,
        q_num_heads=query_heads,
        kv_num_heads=kv_heads,
        update_rule=rule,
        **({"scale": 0.7} if has_state else {}),
    )


@pytest.mark.parametrize(
    ("activation", "has_bias", "has_state", "shapes", "size"),
    list(itertools.product(["none", "silu", "swish"], *[[False, True]] * 3, [1, 3])),
)
def test_causal_conv(
    activation: str, has_bias: bool, has_state: bool, shapes: bool, size: int
) -> None:
    inputs = {
        "x": some(2, 4, 5),
        "w": some(4, 1, size, seed=1),
        "b": some(4, seed=2),
        "s": some(2, 4, size - 1, seed=3),
    }
    names = ["x", "w", "b" if has_bias else "", "s" if has_state else ""]
    inputs = {name: value for name, value in inputs.items() if name in names}
    check(
        "CausalConvWithState",
        27,
        inputs,
        ["y", "z"],
        names=names,
        shapes=shapes,
        activation=activation,
    )


MASKS = ("none", "bool", "float", "heads", "short")


@pytest.mark.parametrize("seed", range(40))
def test_attention(seed: int) -> None:
    """A grid of what Attention may have, in an order that mixes all of it."""
    is_packed, is_causal, has_cap, shapes = (bool(seed >> bit & 1) for bit in range(4))
    mask, mode = MASKS[seed % 5], seed % 4
    cache = ("none", "past", "lengths")[seed % 3]
    version = 25 if seed % 2 else 24 if cache == "lengths" or mask == "short" else 23
    heads, kv_heads = [(2, 2), (4, 2), (3, 1)][seed // 3 % 3]
    batch, length, fresh, past, size, value_size = 2, 3, 4, 2, 4, 5
    total = fresh + (past if cache == "past" else 0)
    inputs = {
        "Q": some(batch, heads, length, size),
        "K": some(batch, kv_heads, fresh, size, seed=1),
        "V": some(batch, kv_heads, fresh, value_size, seed=2),
    }
    attributes: dict[str, Any] = {"is_causal": int(is_causal)}
    if is_packed:
        for name, array in inputs.items():
            moved = np.moveaxis(array, 1, 2)
            inputs[name] = moved.reshape(*moved.shape[:2], -1)
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    masks = {
        "bool": np.random.default_rng(seed).random((length, total)) < 0.7,
        "float": some(batch, 1, length, total, seed=3),
        "heads": np.random.default_rng(seed).random((heads, length, total)) < 0.7,
        "short": np.random.default_rng(seed).random((length, total - 1)) < 0.7,
    }
    if mask in masks:
        inputs["mask"] = masks[mask]
    names = [*inputs, *([] if mask in masks else [""])]
    outputs = ["y", "", "", "scores"] if cache == "lengths" else ["y", "pk", "pv", "scores"]
    if cache == "past":
        inputs["past_key"] = some(batch, kv_heads, past, size, seed=4)
        inputs["past_value"] = some(batch, kv_heads, past, value_size, seed=5)
        names += ["past_key", "past_value"]
    if cache == "lengths":
        inputs["lengths"] = np.array([4, 2])
        names += ["", "", "lengths"]
    if version == 25:
        attributes |= {"left_window_size": seed % 3, "right_window_size": seed // 2 % 3 - 1}
    if has_cap:
        attributes |= {"softcap": 0.5, "scale": 0.3}
        mode = mode or 1  # in mode 0, onnx.reference caps the scores, against the text
    # A score that was masked is -inf in one, and a large negative number in the other.
    attributes["qk_matmul_output_mode"] = mode if mode != 2 else 1
    check(
        "Attention",
        version,
        inputs,
        outputs,
        names=names,
        shapes=shapes or mask != "none",
        **attributes,
    )


@pytest.mark.parametrize("precision", [0, 1, 11])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_flex_attention(kind: Any, precision: int) -> None:
    inputs = {
        "Q": some(2, 4, 3, 4, kind=kind),
        "K": some(2, 2, 5, 4, kind=kind, seed=1),
        "V": some(2, 2, 5, 6, kind=kind, seed=2),
    }
    check(
        "FlexAttention",
        1,
        inputs,
        domain="ai.onnx.preview",
        near=1e-2 if kind is np.float16 else 1e-5,
        **({"softmax_precision": precision, "scale": 0.4} if precision else {}),
    )


def test_graphs_of_flex_attention() -> None:
    """Names inside of them are also names in the body and in the model."""
    inputs = {"q": some(1, 2, 3, 4), "k": some(1, 2, 5, 4, seed=1), "v": some(1, 2, 5, 6, seed=2)}
    text = """<ir_version: 13, opset_import: ["": 26, "ai.onnx.preview": 1]>
        g (float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,6] v) => (float[1,2,3,6] y)
        { y = ai.onnx.preview.FlexAttention <
            score_mod = bend (float[b,h,l,s] scores) => (float[b,h,l,s] shares)
              { half = Constant <value_float = 0.5> () shares = Mul (scores, half) },
            prob_mod = keep (float[b,h,l,s] probs) => (float[b,h,l,s] half)
              { y = Mul (probs, probs) half = Neg (y) }
          > (q, k, v) }"""
    model = onnx.parser.parse_model(text)
    (got,) = opgraft.InferenceSession(model).run(None, inputs)
    products = inputs["q"] @ np.swapaxes(inputs["k"], 2, 3) / 2 * 0.5
    shares = np.exp(products) / np.exp(products).sum(-1, keepdims=True)
    np.testing.assert_allclose(got, -(shares**2) @ inputs["v"], rtol=1e-4, atol=1e-5)
    taken = onnx.parser.parse_model(text.replace("scores", "precise"))
    with pytest.raises(opgraft.ModelError, match="called 'precise', which its body uses"):
        opgraft.prepare(taken)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_and_depth(mode: str) -> None:
    check("SpaceToDepth", 28, {"x": some(2, 3, 4, 6)}, blocksize=2, mode=mode)
    check("DepthToSpace", 28, {"x": some(2, 12, 2, 3)}, blocksize=2, mode=mode)


@pytest.mark.parametrize("axis", [-1, -2, 1])
def test_rms_normalization(axis: int) -> None:
    size = (4,) if axis == -1 else (3, 4)
    inputs = {"x": some(2, 3, 4), "s": some(*size, seed=1)}
    check("RMSNormalization", 23, inputs, axis=axis, epsilon=1e-3)
    half = {"x": some(2, 3, 4, kind=np.float16), "s": some(*size, seed=1, kind=np.float16)}
    check("RMSNormalization", 23, half, axis=axis, near=1e-2)


@pytest.mark.parametrize(
    ("is_packed", "interleaved", "turned", "has_positions"),
    list(itertools.product([False, True], [0, 1], [0, 4], [False, True])),
)
def test_rotary_embedding(
    is_packed: bool, interleaved: int, turned: int, has_positions: bool
) -> None:
    batch, length, heads, size = 2, 3, 2, 8
    half = (turned or size) // 2
    caches = (5, half) if has_positions else (batch, length, half)
    inputs = {
        "x": some(batch, length, heads * size) if is_packed else some(batch, heads, length, size),
        "c": some(*caches, seed=1),
        "s": some(*caches, seed=2),
    }
    if has_positions:
        inputs["p"] = np.array([[0, 1, 2], [4, 3, 2]])
    attributes = {"interleaved": interleaved}
    attributes |= {"num_heads": heads} if is_packed or turned else {}
    attributes |= {"rotary_embedding_dim": turned} if turned else {}
    check("RotaryEmbedding", 23, inputs, **attributes)


INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(direction: str, kind: str) -> None:
    """Exact for all numbers of 8 bits, and for the ends and some others of the rest."""
    ends = np.iinfo(kind)
    width = ends.bits
    if width == 8:
        numbers = np.arange(ends.min, ends.max + 1, dtype=kind)
    else:
        middle = [ends.min, ends.min + 1, ends.max, ends.max // 3, 0, 1, 5, 2 ** (width // 2)]
        numbers = np.array([*middle, *([-1, -77] if ends.min else [])], kind)
    shifts = [*range(width + 3), ends.max]
    if ends.min:
        shifts += [-1, ends.min]
    inputs = {"x": numbers[:, None], "z": np.array([s for s in shifts if s <= ends.max], kind)}

    def shifted(number: int, shift: int) -> int:
        shift = shift if 0 <= shift < width else 2 * width
        result = number << shift if direction == "LEFT" else number >> shift
        result %= 2**width
        return result - 2**width if ends.min and result > ends.max else result

    right = [[shifted(int(a), int(b)) for b in inputs["z"]] for a in numbers]
    node = helper.make_node("BitShift", ["x", "z"], ["y"], direction=direction)
    (got,) = run_node(node, inputs)
    assert got.dtype == kind
    np.testing.assert_array_equal(got, np.array(right, kind))


@pytest.mark.parametrize("kind", [*INTEGERS[:7], "float32", "float64", "float16"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_mod(fmod: int, kind: str) -> None:
    if np.dtype(kind).kind == "f":
        if fmod == 0:
            pytest.skip("older versions refuse it, and say so")
        numbers, divisors = [-7.5, 7.5, 3.25, -0.5], [2.0, -2.0, 0.75]
        inputs = {"x": np.array(numbers, kind)[:, None], "z": np.array(divisors, kind)}
    else:
        ends = np.iinfo(kind)
        numbers = [ends.min, ends.max, 7, 0, *([-7, -1] if ends.min else [])]
        divisors = [3, 5, ends.max, *([-3, ends.min] if ends.min else [])]
        if ends.min and fmod:
            divisors.append(-1)
        inputs = {"x": np.array(numbers, kind)[:, None], "z": np.array(divisors, kind)}
    right = (np.fmod if fmod else np.mod)(inputs["x"], inputs["z"])
    (got,) = run_node(helper.make_node("Mod", ["x", "z"], ["y"], fmod=fmod), inputs)
    assert got.dtype == kind
    np.testing.assert_array_equal(got, right)


def test_a_remainder_by_zero_ends_no_process() -> None:
    node = helper.make_node("Mod", ["x", "z"], ["y"], fmod=1)
    (got,) = run_node(node, {"x": np.array([5, -5]), "z": np.array([0, 0])})
    assert got.tolist() == [0, 0]


def refusal(operator: str, version: int, inputs: Sequence[str], **attributes: Any) -> str:
    node = helper.make_node(operator, inputs, ["y", "z"], name="the node", **attributes)
    with pytest.raises(opgraft.ModelError) as refused:
        _pyop.function_body(node.SerializeToString(), version)
    assert f"node 'the node', operator {operator}" in str(refused.value)
    return str(refused.value)


def test_invalid_nodes_are_refused() -> None:
    said = refusal("SwiGLU", 28, ["a", "b"], beta=1.0)
    assert "attribute 'beta', which the operator does not have" in said
    assert "its input 1 is absent" in refusal("SwiGLU", 28, ["a"])
    three = ["q", "k", "v"]
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    assert "'decay', which is absent" in refusal("LinearAttention", 27, three, **heads)
    said = refusal("LinearAttention", 27, three, q_num_heads=3, kv_num_heads=2)
    assert "expected a multiple" in said
    said = refusal("LinearAttention", 27, three, q_num_heads=0, kv_num_heads=0)
    assert "expected at least 1" in said
    said = refusal("LinearAttention", 27, three, q_num_heads=1.5, kv_num_heads=1)
    assert "kind FLOAT, expected INT" in said
    assert "update_rule" in refusal("LinearAttention", 27, three, update_rule="x", **heads)
    graph = helper.make_graph([], "g", [], [])
    node = helper.make_node("FlexAttention", three, ["y"], domain="ai.onnx.preview")
    node.attribute.append(helper.make_attribute("softmax_precision", 1))
    node.attribute.append(helper.make_attribute("score_mod", graph))
    with pytest.raises(opgraft.ModelError, match="'score_mod' has 0 inputs and 0 outputs"):
        _pyop.function_body(node.SerializeToString(), 1)
    assert "'silu'" in refusal("CausalConvWithState", 27, ["x", "w"], activation="relu")


def test_an_operator_without_a_body_has_none() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["c"]).SerializeToString()
    assert _pyop.function_body(node, 28) is None
    swish = helper.make_node("Swish", ["a"], ["c"])
    assert _pyop.function_body(swish.SerializeToString(), 23) is None
    swish.domain = "my.domain"
    assert _pyop.function_body(swish.SerializeToString(), 28) is None
