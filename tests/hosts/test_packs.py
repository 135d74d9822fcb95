"""Operators written in C++, in plain sessions: types, optional values, services, versions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from pack_building import PACKS, build_pack
from pack_models import node_model, open_session, pack_model, run_graph, run_node, the_pack

from conftest import floats

FLOAT, DOUBLE, INT32, INT64 = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
)
STRING, BOOL = TensorProto.STRING, TensorProto.BOOL

NUMBERS = "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


# Types


@pytest.mark.parametrize("dtype", NUMBERS)
def test_one_template_for_many_types(dtype: str) -> None:
    x = np.array([[0, 1], [2, 50]], dtype)
    type = helper.np_dtype_to_tensor_dtype(x.dtype)
    (y,) = run_node("Double", x, outputs=[type])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x + x)


def test_bfloat16() -> None:
    y, bits = run_graph(
        """(float[2] x) => (float[2] y, float[2] z) {
            b = Cast<to = 16>(x)  d = test.pack.Double(b)
            y = Cast<to = 1>(d)  z = Identity(y) }""",
        np.float32([1.5, -3]),
    )
    np.testing.assert_array_equal(y, [3, -6])
    np.testing.assert_array_equal(bits, y)


def test_a_type_that_no_kernel_has() -> None:
    with pytest.raises(Exception, match="Double.*bool|bool.*Double"):
        run_node("Double", np.array([True]), outputs=[BOOL])


def test_bool() -> None:
    (y,) = run_node("Not", np.array([True, False]), outputs=[BOOL])
    np.testing.assert_array_equal(y, [False, True])


def test_strings() -> None:
    texts = [["abc", ""], ["a\0b", "ä" * 1000]]
    (y,) = run_node("Reverse", np.array([["abc", ""], ["a\0bc", "zy" * 1000]], object), outputs=[8])
    assert y.tolist() == [["cba", ""], ["cb\0a", "yz" * 1000]]
    (y,) = run_node("Reverse", np.empty((0, 3), object), outputs=[STRING])
    assert y.shape == (0, 3)
    (y,) = run_node("Length", np.array(texts, object), outputs=[INT64])
    assert y.tolist() == [[3, 0], [3, 2000]]


def test_an_output_of_another_type() -> None:
    for dtype in (np.float32, np.float64):
        (y,) = run_node("Round", np.array([1.5, -2.5], dtype), outputs=[INT32])
        assert y.dtype == np.int32
        assert y.tolist() == [1, -2]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    "x", [np.float32([5, 6]), np.float64([5, 6]), np.array(["5", "6"], object)]
)
def test_two_type_variables(index: Any, x: np.ndarray) -> None:
    type = STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
    (y,) = run_node("Take", np.array([1, 0, 1], index), x, outputs=[type])
    assert y.dtype == x.dtype
    assert y.tolist() == [x[1], x[0], x[1]]
    with pytest.raises(Exception, match="node 'the node'.*Take.*index 2 is outside of 2 elements"):
        run_node("Take", np.array([2], index), x, outputs=[type])


def test_any_type() -> None:
    inputs = [np.float32(1), np.array(["four", ""], object), np.zeros((1, 2, 0), bool)]
    (y,) = run_node("Describe", *inputs, outputs=[INT64])
    assert y.tolist() == [[FLOAT, 0, -1], [STRING, 1, 4], [BOOL, 3, -1]]
    for x in (np.float32([1, 2]), np.int64([1, 2])):
        (y,) = run_node("AsFloat", x)
        np.testing.assert_array_equal(y, np.float32([1, 2]))
    with pytest.raises(
        Exception, match="node 'the node', operator test.pack::AsFloat: .*float64.*float32"
    ):
        run_node("AsFloat", np.float64([1]))


def test_a_graph_that_says_another_type() -> None:
    with pytest.raises(Exception, match=r"(?s)Type Error|float32.*float64|tensor\(double\)"):
        run_node("Double", np.float32([1]), outputs=[DOUBLE])


# Optional inputs and outputs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(0, None), (None, 2), (0, 2), (None, None)])
def test_optional_inputs(dtype: Any, low: int | None, high: int | None) -> None:
    x = np.array([-1, 1, 3], dtype)
    limits = [None if limit is None else np.array(limit, dtype) for limit in (low, high)]
    expected = x if low is high is None else np.clip(x, low, high)
    outputs = [helper.np_dtype_to_tensor_dtype(x.dtype)]
    np.testing.assert_array_equal(run_node("Clip", x, *limits, outputs=outputs)[0], expected)
    if high is None:  # left out instead of an empty name
        np.testing.assert_array_equal(
            run_node("Clip", x, *limits[:1], outputs=outputs)[0], expected
        )


def test_a_required_input_that_is_absent() -> None:
    with pytest.raises(Exception, match="Clip"):
        run_node("Clip", None, np.float32(1))


@pytest.mark.parametrize("count", [2, 3, 9])
def test_variadic_inputs(count: int) -> None:
    x = floats(2, 3)
    (y,) = run_node("Sum", *[x] * count)
    np.testing.assert_array_equal(y, count * x)


def test_too_few_variadic_inputs() -> None:
    with pytest.raises(Exception, match="Sum"):
        run_node("Sum", floats(2))


def test_an_absent_variadic_input() -> None:
    with pytest.raises(Exception, match="Sum"):
        run_node("Sum", floats(2), None, floats(2))


def test_optional_and_variadic_strings() -> None:
    parts = [np.array(text, object) for text in ("a", "b\0", "")]
    comma = np.array(", ", object)
    joined, first = run_node("Join", comma, *parts, outputs=[STRING, STRING])
    assert (joined.item(), first.item()) == ("a, b\0, ", "a")
    (joined,) = run_node("Join", None, *parts, outputs=[STRING])
    assert joined.item() == "ab\0"
    (joined,) = run_node("Join", comma, outputs=[STRING])
    assert joined.item() == ""


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([FLOAT, INT64], [6, 0]),
        ([FLOAT, INT64, FLOAT], [6, 1, [0]]),
        ([FLOAT, INT64, 0, FLOAT], [6, 2, [[3]]]),
        ([FLOAT, INT64, FLOAT, FLOAT], [6, 3, [0], [[3]]]),
    ],
)
def test_optional_outputs(outputs: list[int], expected: list[Any]) -> None:
    given = run_node("Extremes", floats(2, 2), outputs=outputs)
    assert [one.tolist() for one in given] == expected


def test_required_outputs_must_be_there_but_need_not_be_used() -> None:
    graph = "(float[3] x) => (float[3] z) { y, n = test.pack.Mirror(x)  z = Neg(n) }"
    np.testing.assert_array_equal(run_graph(graph, floats(3))[0], floats(3))
    for outputs in ([0, FLOAT], [FLOAT, 0], [FLOAT]):
        with pytest.raises(Exception, match="Mirror"):
            run_node("Mirror", floats(3), outputs=outputs)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_variadic_outputs(count: int) -> None:
    given = run_node("Repeat", floats(2, 3), outputs=[FLOAT] * count)
    assert len(given) == count
    for one in given:
        np.testing.assert_array_equal(one, floats(2, 3))
    hands = run_node("Deal", floats(7), outputs=[FLOAT] * count)
    for place, hand in enumerate(hands):
        np.testing.assert_array_equal(hand, floats(7)[place::count])


def test_an_unwanted_variadic_output() -> None:
    first, last = run_node("Deal", floats(6), outputs=[FLOAT, 0, FLOAT])
    assert (first.tolist(), last.tolist()) == ([0, 3], [2, 5])


def test_shapes_that_depend_on_the_values() -> None:
    x = np.float32([3, 1, 3, 2])
    values, counts = run_node("Unique", x, outputs=[FLOAT, INT64])
    assert (values.tolist(), counts.tolist()) == ([1, 2, 3], [1, 1, 2])
    (values,) = run_node("Unique", x)
    assert values.tolist() == [1, 2, 3]
    assert run_node("Unique", x[:0])[0].shape == (0,)
    (words,) = run_node("Words", np.array(["to be or not"], object), outputs=[STRING])
    assert words.tolist() == [["to"], ["be"], ["or"], ["not"]]
    assert run_node("Words", np.array([""], object), outputs=[STRING])[0].shape == (0, 1)


def test_no_inputs() -> None:
    assert run_node("Nothing", value=2.0)[0].tolist() == [2, 2]


# Services


def test_scratch_memory() -> None:
    y, is_aligned = run_node("Scratch", np.float32([3, 1, 2]), outputs=[FLOAT, BOOL])
    assert (y.tolist(), is_aligned.item()) == ([1, 2, 3], True)


@pytest.mark.parametrize("count", [1 << 50, -1])
def test_absurd_scratch_memory_that_none_can_take_memory(count: int) -> None:
    with pytest.raises(Exception, match="MuchScratch"):
        run_node("MuchScratch", np.int64([count]), outputs=[BOOL])


def threads_model(**attributes: int) -> onnx.ModelProto:
    given = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    return pack_model(f"""(float[n] x) => (float[n] y, int64 threads)
        {{ y, threads = test.pack.Threads<{given}>(x) }}""")


def test_parallel_loops_run_on_the_threads_of_the_runtime() -> None:
    x = floats(64)
    session = open_session(threads_model(microseconds=2000), threads=2)
    y, threads = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, 2 * x)
    assert threads.item() == 2
    _, threads = open_session(threads_model(microseconds=1), threads=1).run(None, {"x": x})
    assert threads.item() == 1


@pytest.mark.parametrize("batches", [0, 1, 3, 100])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_parallel_loops_do_all(batches: int, size: int) -> None:
    x = floats(size)
    session = open_session(threads_model(batches=batches), threads=2)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)


@pytest.mark.parametrize("grain", [0, 1, 7, 5000])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_parallel_ranges(grain: int, size: int) -> None:
    visits, ranges = run_node("Ranges", floats(size), outputs=[INT64, INT64], grain=grain)
    assert (visits == 1).all()
    assert visits.size == size
    assert ranges.item() <= 256


def test_scratch_memory_in_a_parallel_loop_is_refused() -> None:
    """Several threads would allocate it at once."""
    session = open_session(node_model("ScratchInLoop", [floats(10_000)]), threads=4)
    for _ in range(3):
        with pytest.raises(
            Exception, match="node 'the node', operator .*ScratchInLoop: .*call it before the loop"
        ):
            session.run(None, {"x0": floats(10_000)})


def test_an_exception_in_a_parallel_loop() -> None:
    session = open_session(node_model("ThrowInLoop", [floats(100)]), threads=2)
    with pytest.raises(
        Exception, match="node 'the node', operator .*ThrowInLoop: .*step of the loop"
    ):
        session.run(None, {"x0": floats(100)})


def test_overlapping_runs_of_threads() -> None:
    session = open_session(threads_model(batches=0), threads=2)

    def run(number: int) -> bool:
        x = floats(50) + number
        return all((session.run(None, {"x": x})[0] == 2 * x).all() for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def test_memory_in_place() -> None:
    y, first, second = run_graph(
        """(float[3] x) => (float[3] y, bool first, bool second) {
            a = Neg(x)  b, first = test.pack.Increment(a)  c, second = test.pack.Increment(b)
            y = Neg(c) }""",
        floats(3),
    )
    np.testing.assert_array_equal(y, floats(3) - 2)
    assert (first.item(), second.item()) == (True, True)
    # Not in place: the input is needed again, or does not belong to the session.
    y, flag = run_graph(
        """(float[3] x) => (float[3] y, bool flag) {
            a = Neg(x)  b, flag = test.pack.Increment(a)  y = Add(a, b) }""",
        floats(3),
    )
    np.testing.assert_array_equal(y, 1 - 2 * floats(3))
    assert not flag.item()
    x = floats(3)
    y, flag = run_node("Increment", x, outputs=[FLOAT, BOOL])
    np.testing.assert_array_equal(x, floats(3))
    assert not flag.item()


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_messages_in_the_log_of_the_runtime(severity: int) -> None:
    model = node_model("Log", [floats(1)], name="talker").SerializeToString()
    program = f"""
        import numpy, onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = {severity}
        options.register_custom_ops_library({str(the_pack())!r})
        session = onnxruntime.InferenceSession({model!r}, options)
        session.run(None, {{"x0": numpy.float32([1])}})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True
    )
    assert (b"a whisper of talker" in done.stderr) == (severity <= 1)
    assert (b"a warning of talker" in done.stderr) == (severity <= 2)


# Versions


def test_the_newest_version_in_a_plain_library() -> None:
    graph = "(float[1] x) => (float[1] y, float[1] z) { y = test.versions.Step(x) z = Neg(y) }"
    for version in (3, 4):
        session = open_session(pack_model(graph, versions=version))
        assert session.run(None, {"x": floats(1)})[0].tolist() == [3]
    with pytest.raises(Exception, match=r"Step"):
        open_session(pack_model(graph, versions=2))
    always = graph.replace("Step", "Always")
    assert open_session(pack_model(always, versions=1)).run(None, {"x": floats(1)})[0] == [0]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compilers(compiler: str) -> None:
    library = build_pack([PACKS / "types.cc"], compiler)
    model = node_model("Double", [floats(3)])
    (y,) = open_session(model, libraries=[library]).run(None, {"x0": floats(3)})
    np.testing.assert_array_equal(y, 2 * floats(3))
