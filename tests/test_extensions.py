"""What opgraft.extensions and onnxruntime-extensions both do: one suite over both imports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extension_hosts import FLOAT, Host, contrib_model, echo, make_host
from onnx import helper

from conftest import floats
from opgraft import extensions
from opgraft.extensions import PyCustomOpDef


@pytest.fixture(params=["theirs", "plain", "opgraft"])
def host(request: pytest.FixtureRequest) -> Host:
    return make_host(request.param)


def test_one_float_in_and_out_by_default(host: Host) -> None:
    @host.package.onnx_op(op_type="PyReverseMatrix")
    def reverse_matrix(x: Any) -> Any:
        return np.flip(x, axis=0).astype(np.float32)

    model = contrib_model(
        """(float[n, 2] x) => (float[n, 2] y)
        { a = Identity (x) y = ai.onnx.contrib.PyReverseMatrix (a) }"""
    )
    (y,) = host.run(model, x=floats(6).reshape(3, 2))
    np.testing.assert_array_equal(y, [[4, 5], [2, 3], [0, 1]])


def test_a_chain_of_operators_of_several_types(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="ChainAdd", inputs=[types.dt_float, types.dt_float])
    def add(x: Any, y: Any) -> Any:
        return np.add(x, y)

    @host.package.onnx_op(op_type="ChainRound", outputs=[types.dt_int32])
    def rounded(x: Any) -> Any:
        return np.round(x).astype(np.int32)

    model = contrib_model(
        """(float[3, 5] x, float[3, 5] w) => (int32[3, 5] y)
        { s = ai.onnx.contrib.ChainAdd (x, w) y = ai.onnx.contrib.ChainRound (s) }"""
    )
    x = floats(15).reshape(3, 5)
    (y,) = host.run(model, x=x, w=x + np.float32(0.25))
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, 2 * x)


def test_two_outputs(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="PyNegPos", outputs=[types.dt_float, types.dt_float])
    def negpos(x: Any) -> Any:
        negative, positive = x.copy(), x.copy()
        negative[x > 0] = 0
        positive[x < 0] = 0
        return negative, positive

    # Made by the helper with the shape [], which stands for any, as models of theirs have it.
    values = [helper.make_tensor_value_info(name, FLOAT, []) for name in ("x", "neg", "pos")]
    node = helper.make_node("PyNegPos", ["x"], ["neg", "pos"], domain="ai.onnx.contrib")
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    x = np.float32([[0, 1, 1.5], [7, 8, -5.5]])
    negative, positive = host.run(model, x=x)
    np.testing.assert_array_equal(negative, np.minimum(x, 0))
    np.testing.assert_array_equal(positive, np.maximum(x, 0))


def test_strings_and_a_list_of_attributes(host: Host) -> None:
    types = host.package.PyCustomOpDef
    kinds = []

    @host.package.onnx_op(
        op_type="PyOpJoin", inputs=[types.dt_string], outputs=[types.dt_string], attrs=["sep"]
    )
    def join(rows: Any, **kwargs: Any) -> Any:
        kinds.append((rows.dtype, type(rows.flat[0])))
        return np.array([kwargs["sep"].join(row) for row in rows], dtype=object)

    model = contrib_model(
        '(string[n, m] x) => (string[n] y) { y = ai.onnx.contrib.PyOpJoin <sep = "; é"> (x) }'
    )
    (y,) = host.run(model, x=np.array([["a", "b"], ["ü", ""]], dtype=object))
    assert y.tolist() == ["a; éb", "ü; é"]
    assert kinds == [(np.dtype(object), str)]


def test_typed_attributes_by_keyword(host: Host) -> None:
    types = host.package.PyCustomOpDef
    given = {}

    @host.package.onnx_op(
        op_type="TypedAttributes",
        attrs={"count": types.dt_int64, "factor": types.dt_float, "text": types.dt_string},
    )
    def keep(x: Any, **attributes: Any) -> Any:
        given.update(attributes)
        return x

    model = contrib_model(
        """(float[n] x) => (float[n] y)
        { y = ai.onnx.contrib.TypedAttributes <count = -3, factor = 0.25, text = "a b"> (x) }"""
    )
    host.run(model, x=floats(2))
    assert given == {"count": -3, "factor": 0.25, "text": "a b"}
    assert [type(one) for one in given.values()].count(str) == 1


def test_a_domain_of_its_own(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(
        op_type="test.customop::Epsilon", inputs=[types.dt_double], outputs=[types.dt_double]
    )
    def epsilon(x: Any) -> Any:
        return x + 1e-3

    model = contrib_model(
        "(double[n] x) => (double[n] y) { y = test.customop.Epsilon (x) }", ', "test.customop": 1'
    )
    (y,) = host.run(model, x=np.array([0.0, -5.5]))
    np.testing.assert_array_equal(y, np.array([0.0, -5.5]) + 1e-3)


def test_the_functions_name_and_a_call_without_a_session(host: Host) -> None:
    @host.package.onnx_op()
    def NamedByItself(x: Any) -> Any:
        return -x

    assert NamedByItself.op_type == "NamedByItself"
    np.testing.assert_array_equal(NamedByItself(floats(3)), -floats(3))
    model = contrib_model("(float[n] x) => (float[n] y) { y = ai.onnx.contrib.NamedByItself (x) }")
    np.testing.assert_array_equal(host.run(model, x=floats(3))[0], -floats(3))


def test_inputs_may_be_written_to(host: Host) -> None:
    @host.package.onnx_op(op_type="WritesInput")
    def writes(x: Any) -> Any:
        x += 1
        return x

    model = contrib_model(
        """(float[n] x) => (float[n] y, float[n] z)
        { a = Neg (x) y = ai.onnx.contrib.WritesInput (a) z = Identity (a) }"""
    )
    y, z = host.run(model, x=floats(2))
    np.testing.assert_array_equal(y, [1, 0])
    np.testing.assert_array_equal(z, [0, -1])


def test_results_become_the_declared_type(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="WiderThanDeclared", outputs=[types.dt_float, types.dt_int32])
    def wider(x: Any) -> Any:
        return x.astype(np.float64) / 3, np.round(x).astype(np.int64)

    model = contrib_model(
        "(float[n] x) => (float[n] y, int32[n] z) { y, z = ai.onnx.contrib.WiderThanDeclared (x) }"
    )
    y, z = host.run(model, x=floats(4))
    np.testing.assert_array_equal(y, (floats(4).astype(np.float64) / 3).astype(np.float32))
    assert z.dtype == np.int32 and z.tolist() == [0, 1, 2, 3]


def test_inputs_of_any_type_and_none(host: Host) -> None:
    types = host.package.PyCustomOpDef

    @host.package.onnx_op(op_type="AnyToFloat", inputs=[types.undefined])
    def any_to_float(x: Any) -> Any:
        return x.astype(np.float32)

    @host.package.onnx_op(op_type="NoInput", inputs=[])
    def no_input() -> Any:
        return np.float32([7])

    model = contrib_model(
        """(int16[n] x) => (float[n] y)
        { a = ai.onnx.contrib.AnyToFloat (x) b = ai.onnx.contrib.NoInput () y = Add (a, b) }"""
    )
    np.testing.assert_array_equal(host.run(model, x=np.int16([1, -2]))[0], [8, 5])


NUMBERS = [
    "dt_float", "dt_uint8", "dt_int8", "dt_uint16", "dt_int16", "dt_int32", "dt_int64", "dt_bool",
    "dt_double", "dt_uint32", "dt_uint64",
]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_every_type_of_numbers(host: Host, name: str) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(getattr(PyCustomOpDef, name))
    x = np.array([0, 1, 1], dtype)
    if np.issubdtype(dtype, np.integer):
        x[1:] = np.iinfo(dtype).min, min(np.iinfo(dtype).max, 2**63 - 1)
    (y,) = host.run(echo(host, name), x=x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x)


def test_a_node_without_a_declared_attribute_is_refused(host: Host) -> None:
    types = host.package.PyCustomOpDef
    host.package.onnx_op(op_type="NeedsAttribute", attrs={"k": types.dt_int64})(lambda x, k: x)
    for node in ("NeedsAttribute (x)", 'NeedsAttribute <k = "3"> (x)'):
        model = contrib_model(f"(float[n] x) => (float[n] y) {{ y = ai.onnx.contrib.{node} }}")
        with pytest.raises(Exception, match="attribute 'k'"):
            host.session(model)


def test_the_constants_are_theirs_and_onnxs() -> None:
    theirs = make_host("theirs").package
    names = [name for name in vars(PyCustomOpDef) if name == "undefined" or name[:3] == "dt_"]
    assert sorted(names) == sorted(
        one for one in dir(theirs.PyCustomOpDef) if one == "undefined" or one[:3] == "dt_"
    )
    for name in names:
        assert getattr(PyCustomOpDef, name) == getattr(theirs.PyCustomOpDef, name)
    assert extensions.default_opset_domain() == theirs.default_opset_domain()
    assert extensions.PyOp is PyCustomOpDef
