"""Python operators in every place of a graph, and in every way of running a session."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnxruntime import OrtValue

import opgraft
from conftest import Write, floats, pyop_model

OPERATORS = """
    class Scale:
        def __init__(self, by):
            self.by = np.float32(by)

        def compute(self, x):
            return x * self.by

    class Sum:
        def compute(self, x, y):
            return x + y

    class Less:
        def compute(self, x, y):
            return x.sum() < y.sum()
"""

FAILING = """
    class Op:
        def compute(self, x):
            if x.ndim == 2:
                raise LookupError("no such row")
            return x + x
"""


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "py": 1]>\n{text}')


def pyop(module: str, name: str, more: str = "", type: int = 1) -> str:
    return f'py.PyOp <module="{module}", class_name="{name}", output_types=[{type}]{more}>'


def open_session(model: onnx.ModelProto, module: str, **named: Any) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(model, allow=[module], **named)


def test_if_loop_and_scan_inside_one_another(write_module: Write) -> None:
    """Each level has an operator that reads values of all levels around it."""
    module = write_module(OPERATORS)
    scale, add = pyop(module, "Scale", ", by = 2.0"), pyop(module, "Sum")
    model = parse(
        f"""graph (float[2] x, float[3, 2] rows, int64 n, bool c) => (float[2] y, scans)
        {{
          outer = {scale}(x)
          true = Constant <value = bool {{1}}> ()
          y, scans = Loop (n, true, x) <body = loop (int64 i, bool going, float[2] state)
              => (bool still, float[2] next, float[3, 2] scanned)
          {{
            in_loop = {add}(state, outer)
            still = Identity(going)
            next, scanned = Scan <num_scan_inputs = 1, body = scan (float[2] carried, float[2] row)
                => (float[2] carried_on, float[2] result)
            {{
              in_scan = {add}(carried, in_loop)
              carried_on = {add}(in_scan, row)
              result = If (c) <
                then_branch = yes () => (float[2] yes_y) {{
                  a = {add}(in_scan, outer)  b = {add}(a, row)  yes_y = {add}(b, state) }},
                else_branch = no () => (float[2] no_y) {{ no_y = {scale}(row) }}
              >
            }}> (state, rows)
          }}>
        }}"""
    )
    model.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    session = open_session(model, module)
    x, rows = np.float32([1, -2]), floats(3, 2)
    for c in (True, False):
        state, expected = x, []
        for _ in range(2):
            in_loop, carried, results = state + 2 * x, state, []
            for row in rows:
                in_scan = carried + in_loop
                results.append(in_scan + 2 * x + row + state if c else 2 * row)
                carried = in_scan + row
            expected.append(results)
            state = carried
        y, scans = session.run(None, {"x": x, "rows": rows, "n": np.array(2), "c": np.array(c)})
        np.testing.assert_array_equal(y, state)
        np.testing.assert_array_equal(scans, expected)


def test_an_operator_decides_how_long_a_loop_runs(write_module: Write) -> None:
    module = write_module(OPERATORS)
    model = parse(
        f"""graph (float[1] x, float[1] limit) => (float[1] y)
        {{
          first = {pyop(module, "Less", type=9)}(x, limit)
          y = Loop ("", first, x) <body = body (int64 i, bool going, float[1] v)
              => (bool still, float[1] next)
          {{
            next = {pyop(module, "Scale", ", by = 2.0")}(v)
            still = {pyop(module, "Less", type=9)}(next, limit)
          }}>
        }}"""
    )
    session = open_session(model, module)
    for limit, expected in {100: 128, 1: 1}.items():
        (y,) = session.run(None, {"x": np.float32([1]), "limit": np.float32([limit])})
        assert y[0] == expected


def test_an_error_in_an_inner_graph_names_the_node(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x[7]")
    model = parse(
        f"""graph (float[1] x, bool c) => (float[1] y)
        {{ y = If (c) <then_branch = yes () => (float[1] a)
                           {{ [inner] a = {pyop(module, "Op")}(x) }},
                       else_branch = no () => (float[1] b) {{ b = Identity(x) }}> }}"""
    )
    session = open_session(model, module)
    assert session.run(None, {"x": floats(1), "c": np.array(False)})[0][0] == 0
    with pytest.raises(opgraft.PyOpError, match="node 'inner'") as caught:
        session.run(None, {"x": floats(1), "c": np.array(True)})
    assert isinstance(caught.value.__cause__, IndexError)


def test_several_operators_in_a_row_and_side_by_side(write_module: Write) -> None:
    module = write_module(OPERATORS)
    nodes = " ".join(f"a{i + 1} = {pyop(module, 'Sum')}(a{i}, x)" for i in range(50))
    model = parse(f"graph (float[n] x) => (float[n] a50) {{ a0 = Identity(x) {nodes} }}")
    assert open_session(model, module).run(None, {"x": floats(2)})[0][1] == 51
    nodes = " ".join(f"a{i} = {pyop(module, 'Scale', f', by = {i}.0')}(x)" for i in range(50))
    inputs = ", ".join(f"a{i}" for i in range(50))
    model = parse(f"graph (float[n] x) => (float[n] y) {{ {nodes} y = Sum({inputs}) }}")
    assert open_session(model, module).run(None, {"x": floats(2)})[0][1] == sum(range(50))


# Each way of running takes a session and an input, and returns the output.


def by_run(session: opgraft.InferenceSession, x: np.ndarray) -> np.ndarray:
    return session.run(["y"], {"x": x})[0]


def by_run_options(session: opgraft.InferenceSession, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.RunOptions()
    options.logid = "by_run_options"
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return session.run(["y"], {"x": x}, options)[0]


def by_binding_of_arrays(session: opgraft.InferenceSession, x: np.ndarray) -> np.ndarray:
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding, onnxruntime.RunOptions())
    return binding.copy_outputs_to_cpu()[0]


def by_binding_of_values(session: opgraft.InferenceSession, x: np.ndarray) -> np.ndarray:
    """The output is the caller's buffer."""
    result = np.zeros_like(x)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy(x))
    binding.bind_output("y", "cpu", 0, np.float32, list(result.shape), result.ctypes.data)
    session.run_with_iobinding(binding)
    return result


def by_ort_values(session: opgraft.InferenceSession, x: np.ndarray) -> np.ndarray:
    value = OrtValue.ortvalue_from_numpy(x)
    (y,) = session.run_with_ort_values(["y"], {"x": value}, onnxruntime.RunOptions())
    return y.numpy()


WAYS = [by_run, by_run_options, by_binding_of_arrays, by_binding_of_values, by_ort_values]
Way = Callable[[opgraft.InferenceSession, np.ndarray], np.ndarray]


@pytest.mark.parametrize("way", WAYS)
def test_ways_of_running(write_module: Write, way: Way) -> None:
    module = write_module(FAILING)
    session = open_session(pyop_model(module), module)
    for _ in range(2):
        np.testing.assert_array_equal(way(session, floats(3)), [0, 2, 4])
        with pytest.raises(
            opgraft.PyOpError, match="node 'node', operator .*no such row"
        ) as caught:
            way(session, floats(2, 2))
        assert isinstance(caught.value.__cause__, LookupError)


def run_async(
    session: opgraft.InferenceSession, x: np.ndarray
) -> tuple[list[np.ndarray], object, str]:
    """Returns the arguments of the callback."""
    got: list[Any] = []
    done = threading.Event()

    def callback(results: list[np.ndarray], data: object, error: str) -> None:
        got.extend([results, data, error])
        done.set()

    options = onnxruntime.RunOptions()  # the runtime does not keep them alive
    session.run_async(["y"], {"x": x}, callback, "data", options)
    assert done.wait(60)
    return got[0], got[1], got[2]


def test_run_async(write_module: Write) -> None:
    module = write_module(FAILING)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2  # it needs a thread of the runtime
    session = open_session(pyop_model(module), module, sess_options=options)
    results, data, error = run_async(session, floats(3))
    np.testing.assert_array_equal(results[0], [0, 2, 4])
    assert (data, error) == ("data", "")
    _, _, error = run_async(session, floats(2, 2))
    # As documented in docs/pyop.md: class, number, node and operator, then the traceback.
    assert "opgraft.PyOpError: [" in error
    assert f"node 'node', operator {module}.Op" in error
    assert "LookupError: no such row" in error
    assert "Traceback (most recent call last)" in error


def test_profiling(write_module: Write, tmp_path: Path) -> None:
    module = write_module(FAILING)
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = open_session(pyop_model(module), module, sess_options=options)
    np.testing.assert_array_equal(by_run(session, floats(3)), [0, 2, 4])
    with pytest.raises(opgraft.PyOpError, match="no such row") as caught:
        by_run(session, floats(2, 2))
    assert isinstance(caught.value.__cause__, LookupError)
    events = json.loads(Path(session.end_profiling()).read_text())
    calls = [event for event in events if event["name"] == "node_kernel_time"]
    assert calls
    assert calls[0]["args"]["op_name"] == "PyOp"


def test_a_run_that_is_terminated(write_module: Write) -> None:
    """A running operator is not interrupted, but the next node is not reached."""
    module = write_module(
        """
        options = None
        class Op:
            def compute(self, x):
                options.terminate = True
                return x
        class After:
            def compute(self, x):
                raise AssertionError("it was reached")
        """
    )
    after = pyop_model(module, "After", inputs=("y",), outputs=("z",)).graph
    after.node[0].name = "after"
    model = pyop_model(module)
    model.graph.node.extend(after.node)
    model.graph.output.extend(after.output)
    session = open_session(model, module)
    options = onnxruntime.RunOptions()
    __import__(module).options = options
    with pytest.raises(Exception, match=r"(?i)terminat"):
        session.run(["z"], {"x": floats(2)}, options)
