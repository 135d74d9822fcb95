"""Shape rules of declared operators, and `out=`, in sessions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import FLOAT, VERSION, Write, floats, pyop_model
from conftest import graph_model as model
from conftest import run_model as run


@opgraft.op("test::AddAndRound", shape=lambda x: x)
def add_and_round(x: np.ndarray) -> np.ndarray:
    return np.round(x + x)


def test_the_runtime_is_told_the_shape() -> None:
    given = model("(float[n, 3] x) => (float y) { y = test.AddAndRound(x) }")
    given.graph.output[0].type.tensor_type.ClearField("shape")
    shape = opgraft.InferenceSession(given).get_outputs()[0].shape
    assert shape == (["n", 3] if VERSION >= (1, 28) else [])


def test_without_a_rule_no_rank_is_told() -> None:
    @opgraft.op("test::NoRule")
    def no_rule(x: np.ndarray) -> np.ndarray:
        return x[None]

    given = model("(float[n, 3] x) => (int64[3] s) { y = test.NoRule(x) s = Shape(y) }")
    assert list(run(given, floats(2, 3))[0]) == [1, 2, 3]


def test_an_input_of_unknown_rank_is_not_taken_for_a_scalar() -> None:
    @opgraft.op("test::Same", shape=lambda x: (1, *x))
    def same(x: np.ndarray) -> np.ndarray:
        return x[None]

    given = model(
        "(float[n, 3] x) => (int64[3] s) { u = test.NoRank(x) y = test.Same(u) s = Shape(y) }"
    )

    @opgraft.op("test::NoRank")
    def no_rank(x: np.ndarray) -> np.ndarray:
        return x

    assert list(run(given, floats(2, 3))[0]) == [1, 2, 3]


def test_a_shape_other_than_the_rule_says() -> None:
    @opgraft.op("test::Wrong", shape=lambda x: (x[0] + 1,))
    def wrong(x: np.ndarray) -> np.ndarray:
        return x

    given = model("(float[n] x) => (float[m] y) { y = test.Wrong(x) }")
    with pytest.raises(
        opgraft.PyOpError,
        match=r"\(3\), as its shape rule says, but the operator returned a float32 array .* \(2,\)",
    ):
        run(given, floats(2))


def test_a_rule_that_raises() -> None:
    @opgraft.op("test::Raising", shape=lambda x: (x[7],))
    def raising(x: np.ndarray) -> np.ndarray:
        return x

    given = model("(float[n] x) => (float[m] y) { y = test.Raising(x) }")
    with pytest.raises(opgraft.PyOpError, match="its shape rule raised IndexError") as caught:
        run(given, floats(2))
    assert isinstance(caught.value.__cause__, IndexError)


# out=


def test_out_is_the_runtimes_memory() -> None:
    addresses = []

    @opgraft.op("test::Out", shape=lambda x: x)
    def out_operator(x: np.ndarray, *, out: np.ndarray) -> None:
        addresses.append(out.ctypes.data)
        assert out.flags.writeable and out.flags.c_contiguous and not out.flags.owndata
        np.negative(x, out=out)

    # The annotation None means no outputs, so the function must be annotated with its outputs.
    @opgraft.op("test::Out", shape=lambda x: x)
    def annotated(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out_operator(x, out=out)
        return out

    given = model("(float[n] x) => (float[n] y) { y = test.Out(x) }")
    session = opgraft.InferenceSession(given)
    x, y = np.float32([1, 2]), np.zeros(2, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, [2], y.ctypes.data)
    session.run_with_iobinding(binding)
    assert addresses == [y.ctypes.data] and list(y) == [-1, -2]


def test_what_an_operator_with_out_may_return() -> None:
    returned: list[Any] = [None]

    @opgraft.op("test::OutReturn", shape=lambda x: x)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        value = returned[0]
        return value(out) if callable(value) else value

    session = opgraft.InferenceSession(
        model("(float[n] x) => (float[n] y) { y = test.OutReturn(x) }")
    )
    x = floats(4)
    for value, expected in [
        (None, x),
        (lambda out: out, x),
        (lambda out: out + 1, x + 1),
        (lambda out: out[::-1], x[::-1]),
    ]:
        returned[0] = value
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    for value in (np.float64([1, 2, 3, 4]), floats(3), "text"):
        returned[0] = value
        with pytest.raises(opgraft.PyOpError, match="expected None, 'out', or a float32 array"):
            session.run(None, {"x": x})


def test_out_of_several_outputs_is_a_tuple() -> None:
    @opgraft.op("test::OutTuple", shape=lambda x: (x, (x[0] * 2,)))
    def operator(
        x: np.ndarray, *, out: tuple[Any, ...]
    ) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
        out[0][...] = -x
        out[1][...] = 7
        return None, out[1]

    given = model("(float[n] x) => (float[n] y, int64[m] z) { y, z = test.OutTuple(x) }")
    y, z = run(given, floats(2))
    assert list(y) == [0, -1] and list(z) == [7] * 4
    given.graph.node[0].output[0] = ""
    del given.graph.output[0]
    assert list(run(given, floats(2))[0]) == [7] * 4


def test_outputs_returned_in_another_order_than_out() -> None:
    @opgraft.op("test::Swapped", shape=lambda x: (x, x, x))
    def operator(x: np.ndarray, *, out: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        for index, array in enumerate(out):
            array[...] = x + index
        return out[2][::-1], out[0], out[1]

    given = model(
        "(float[n] x) => (float[n] a, float[n] b, float[n] c) { a, b, c = test.Swapped(x) }"
    )
    assert [list(one) for one in run(given, floats(2))] == [[3, 2], [0, 1], [1, 2]]


def test_a_size_that_the_rule_leaves_open() -> None:
    @opgraft.op("test::Unique", shape=lambda x: (None, 1))
    def operator(x: np.ndarray) -> np.ndarray:
        return np.unique(x)[:, None]

    given = model("(float[n] x) => (float y, int64[2] s) { y = test.Unique(x) s = Shape(y) }")
    given.graph.output[0].type.tensor_type.ClearField("shape")
    assert list(run(given, np.float32([1, 1, 2]))[1]) == [2, 1]
    shape = opgraft.InferenceSession(given).get_outputs()[0].shape
    assert VERSION < (1, 28) or (len(shape) == 2 and shape[1] == 1)

    @opgraft.op("test::UniqueOut", shape=lambda x: (None,))
    def with_out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return out

    given = model("(float[n] x) => (float[m] y) { y = test.UniqueOut(x) }")
    with pytest.raises(
        opgraft.PyOpError, match="its shape rule does not give the shape of output 0"
    ):
        run(given, floats(1))


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: ({2: 4, 3: 8}.get(x[0], 1),),
        lambda x: (8 if x[0] in {3} else 1,),
        lambda x: (8 if isinstance(x[0], int) else 1,),
        lambda x: careful(x),
    ],
)
def test_a_rule_that_takes_a_symbol_for_something_else(rule: Any) -> None:
    @opgraft.op("test::Up", shape=rule)
    def operator(x: np.ndarray) -> np.ndarray:
        return np.zeros(8, np.float32)

    given = model("(float[n] x) => (int64[1] s) { y = test.Up(x) s = Shape(y) }")
    assert list(run(given, floats(3))[0]) == [8]


@pytest.mark.skipif(
    VERSION < (1, 28), reason="this runtime does not infer shapes of custom operators"
)
def test_a_run_keeps_to_the_shape_that_the_runtime_was_told() -> None:
    told = [True]

    @opgraft.op("test::Fickle", shape=lambda x: (1,) if told[0] else (2,))
    def operator(x: np.ndarray) -> np.ndarray:
        return np.zeros(2, np.float32)

    session = opgraft.InferenceSession(model("(float[n] x) => (float[m] y) { y = test.Fickle(x) }"))
    told[0] = False
    with pytest.raises(opgraft.PyOpError, match=r"expected an array of shape \(1\)"):
        session.run(None, {"x": floats(3)})


def careful(x: Any) -> Any:
    try:
        return (8 if x[0] > 2 else 1,)
    except Exception:
        return (1,)


@pytest.mark.parametrize(
    "misdeed",
    [
        "out.dtype = np.int32",
        "out.shape = (4,)",
        "out.__setstate__((1, (2, 2), np.dtype('f4'), False, bytes(16)))",
        "out.resize((4, 4), refcheck=False)",
    ],
)
def test_out_that_is_changed_itself(misdeed: str) -> None:
    @opgraft.op("test::Changed", shape=lambda x: x)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        exec(misdeed, {"out": out, "np": np})
        return x + 1

    session = opgraft.InferenceSession(
        model("(float[n, m] x) => (float[n, m] y) { y = test.Changed(x) }")
    )
    with pytest.raises(
        opgraft.PyOpError, match="(type or shape of 'out' for output 0|raised ValueError)"
    ):
        session.run(None, {"x": floats(2, 2)})


@pytest.mark.parametrize("copy_inputs", [False, True])
def test_out_that_is_kept_is_refused(copy_inputs: bool) -> None:
    kept = []

    @opgraft.op("test::Keeper", shape=lambda x: x, copy_inputs=copy_inputs)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        out[...] = x
        kept.append(out[:1])
        return out

    session = opgraft.InferenceSession(model("(float[n] x) => (float[n] y) { y = test.Keeper(x) }"))
    with pytest.raises(opgraft.PyOpError, match="the operator kept an input or 'out', or a view"):
        session.run(None, {"x": floats(2)})
    kept.clear()
    with pytest.raises(opgraft.PyOpError, match="kept"):
        session.run(None, {"x": floats(2)})


def test_out_is_not_for_strings() -> None:
    @opgraft.op("test::OutText", shape=lambda x: x)
    def operator(x: npt.NDArray[np.str_], *, out: np.ndarray) -> npt.NDArray[np.str_]:
        return out

    given = model("(string[n] x) => (string[n] y) { y = test.OutText(x) }")
    with pytest.raises(opgraft.PyOpError, match="an output is string, which cannot be written in"):
        opgraft.InferenceSession(given)


def test_a_rule_with_a_size_beyond_all_bounds() -> None:
    @opgraft.op("test::Huge", shape=lambda x: (x[0] * 2**70,))
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return out

    given = model("(float[n] x) => (float[m] y) { y = test.Huge(x) }")
    with pytest.raises(opgraft.PyOpError, match="must return a shape such as"):
        run(given, floats(1))


def test_overlapping_runs_of_other_shapes() -> None:
    """Each run has its own shapes, even if the rule lets other threads run."""

    def rule(x: Any) -> Any:
        time.sleep(0.001)
        return x

    @opgraft.op("test::Overlap", shape=rule)
    def operator(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return np.negative(x, out=out)

    session = opgraft.InferenceSession(
        model("(float[n] x) => (float[n] y) { y = test.Overlap(x) }")
    )
    with ThreadPoolExecutor(6) as pool:
        for x, y in pool.map(
            lambda size: (floats(size), session.run(None, {"x": floats(size)})[0]), [1, 2, 3] * 30
        ):
            np.testing.assert_array_equal(y, -x)


@pytest.mark.skipif(
    VERSION < (1, 28), reason="this ONNX Runtime does not infer shapes of Python operators"
)
@pytest.mark.parametrize("is_declared", [False, True])
def test_what_a_prepared_node_declares_reaches_the_operators_after_it(
    write_module: Write, is_declared: bool
) -> None:
    """Even though the graph no longer declares the value."""
    module = write_module(
        """
        import opgraft
        class Op:
            def compute(self, x):
                return x
        @opgraft.op("test.shapes_told::Echo")
        def echo(x: np.ndarray) -> np.ndarray:
            return x
        """
    )
    given = pyop_model(module)
    given.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", FLOAT, None))
    given.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    given.graph.value_info.append(helper.make_tensor_value_info("y", FLOAT, [2, "n"]))
    if is_declared:
        node = helper.make_node("Echo", ["x"], ["y"], domain="test.shapes_told")
        given.graph.node[0].CopyFrom(node)
    prepared = opgraft.prepare(given, imports=[module])
    bare = onnx.ModelProto.FromString(prepared.bytes)
    del bare.graph.value_info[:]
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    session = onnxruntime.InferenceSession(bare.SerializeToString(), options)
    size, other = session.get_outputs()[0].shape
    assert size == 2 and isinstance(other, str)
    x = floats(2, 3)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    with pytest.raises(Exception, match="shape"):
        session.run(None, {"x": floats(3, 3)})
