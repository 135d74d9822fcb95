"""Python operators in Python programs: in Opgraft's session and in a plain one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import DOUBLE, DTYPES, FLOAT, Write, floats, pyop_model


def plain_session(model: onnx.ModelProto, *allow: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=allow)
    return onnxruntime.InferenceSession(opgraft.prepare(model).bytes, options)


def test_is_a_session_of_onnxruntime(write_module: Write) -> None:
    module = write_module(DOUBLE)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    assert isinstance(session, onnxruntime.InferenceSession)
    assert session.get_inputs()[0].name == "x"


def test_an_output_whose_memory_the_caller_gave_too_small(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return np.concatenate([x, x])")
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    binding = session.io_binding()
    binding.bind_cpu_input("x", floats(2))
    target = onnxruntime.OrtValue.ortvalue_from_numpy(floats(2))
    binding.bind_ortvalue_output("y", target)
    with pytest.raises(opgraft.Error, match=r"node 'node'.*output 0, for which compute returned a"):
        session.run_with_iobinding(binding)


@pytest.mark.parametrize(
    ("kind", "value", "seen"),
    [
        ("text", "5", "'5'"),
        ("utf8", "Grüße", "'Grüße'"),
        ("raw", b"\xff\x00", r"b'\xff\x00'"),
        ("integer", -7, "-7"),
        ("zero", 0, "0"),
        ("real", 0.5, "0.5"),
        ("integers", [1, 2], "[1, 2]"),
        ("reals", [0.5, 1.5], "[0.5, 1.5]"),
        ("texts", ["a", "b"], "['a', 'b']"),
    ],
)
def test_a_further_attribute_is_an_argument_of_init(
    write_module: Write, tmp_path: Path, kind: str, value: object, seen: str
) -> None:
    module = write_module(
        f"""
        class Op:
            def __init__(self, {kind}):
                self.seen = repr({kind})
            def compute(self):
                return np.frombuffer(self.seen.encode(), np.uint8)
        """
    )
    model = pyop_model(module, inputs=(), type=TensorProto.UINT8, **{kind: value})
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {})
    assert result.tobytes().decode() == seen


def test_compute_may_have_another_name(write_module: Write) -> None:
    module = write_module("class Op:\n    def twice(self, x): return 2 * x")
    model = pyop_model(module, compute="twice")
    session = opgraft.InferenceSession(model, allow=[module])
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, 2])


def test_nested_classes_in_packages(write_module: Write) -> None:
    module = write_module(
        """
        class Outer:
            class Inner:
                def compute(self, x):
                    return -x
        """,
        name="some_package.part.operators",
    )
    session = opgraft.InferenceSession(pyop_model(module, "Outer.Inner"), allow=["some_package.*"])
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, -1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_types(write_module: Write, dtype: str) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, x):
                assert x.dtype.name == DTYPE, x.dtype
                return x[::-1]
        """.replace("DTYPE", repr(dtype))
    )
    model = pyop_model(module, type=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    x = np.array([0, 1, 1], dtype)
    (result,) = opgraft.InferenceSession(model, allow=[module]).run(None, {"x": x})
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x[::-1])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)])
def test_shapes(write_module: Write, shape: tuple[int, ...]) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x.T")
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    x = floats(*shape)
    (result,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(result, x.T)


def test_absent_inputs_are_none(write_module: Write) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, first, middle, last):
                assert middle is None
                return first - last
        """
    )
    model = pyop_model(module, inputs=("x", "", "z"), input_types=[FLOAT] * 3)
    session = opgraft.InferenceSession(model, allow=[module])
    result = session.run(None, {"x": floats(2), "z": np.ones(2, np.float32)})[0]
    np.testing.assert_array_equal(result, [-1, 0])


def test_an_output_that_nobody_wants(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x + 1, x + 2, x + 3")
    model = pyop_model(module, outputs=("a", "", "c"))
    session = opgraft.InferenceSession(model, allow=[module])
    a, c = session.run(["a", "c"], {"x": floats(1)})
    assert (a[0], c[0]) == (1, 3)


def test_operators_inside_the_branches_of_an_if(write_module: Write) -> None:
    module = write_module(
        """
        class Up:
            def compute(self, x): return x + 1
        class Down:
            def compute(self, x): return x - 1
        """
    )

    def branch(class_name: str) -> onnx.GraphProto:
        node = pyop_model(module, class_name, outputs=(class_name,)).graph.node[0]
        end = helper.make_node("Mul", [class_name, class_name], [class_name + "2"])
        output = helper.make_tensor_value_info(class_name + "2", FLOAT, None)
        return helper.make_graph([node, end], class_name, [], [output])

    node = helper.make_node(
        "If", ["condition"], ["y"], then_branch=branch("Up"), else_branch=branch("Down")
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    session = opgraft.InferenceSession(model, allow=[module])
    x = np.array([5], np.float32)
    assert session.run(None, {"condition": np.array(True), "x": x})[0] == 36
    assert session.run(None, {"condition": np.array(False), "x": x})[0] == 16


def test_inputs_are_views_that_cannot_be_written_to(write_module: Write) -> None:
    module = write_module(
        """
        class Op:
            def compute(self, x):
                Op.address = x.__array_interface__["data"][0]
                Op.refused = 0
                try:
                    x[0] = 1
                except ValueError:
                    Op.refused += 1
                try:
                    x.flags.writeable = True
                except ValueError:
                    Op.refused += 1
                return x + 1
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    x = floats(1000)
    session.run(None, {"x": x})
    operator = sys.modules[module].Op
    assert operator.address == x.__array_interface__["data"][0]
    assert operator.refused == 2


def test_an_output_costs_one_copy(write_module: Write, module_folder: Path) -> None:
    """In a separate process: measures how much memory grows while 80 MB are returned."""
    write_module(
        """
        class Op:
            ready = np.ones(20_000_000, np.float32)
            def compute(self, x):
                return self.ready
        """,
        name="large_output",
    )
    program = f"""
        import re, sys
        sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(module_folder)!r}]
        from conftest import DOUBLE, DTYPES, FLOAT, Write, floats, pyop_model
        import opgraft
        session = opgraft.InferenceSession(pyop_model("large_output"), allow=["large_output"])
        def memory(field):
            status = open("/proc/self/status").read()
            return int(re.search(field + r":\\s+(\\d+) kB", status)[1]) * 1024
        open("/proc/self/clear_refs", "w").write("5")  # resets the peak
        before = memory("VmRSS")
        session.run(None, {{"x": floats(1)}})
        print(memory("VmHWM") - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    growth = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 75e6 < growth < 100e6


@pytest.mark.parametrize(
    "what", ["x", "x[1:]", "x.reshape(2, 2).T", "memoryview(x)", "[x]", "(lambda: x)", "iter(x)"]
)
def test_an_input_that_is_kept_is_refused(write_module: Write, what: str) -> None:
    module = write_module(
        f"""
        class Op:
            def compute(self, x):
                if x[0] == 0:
                    self.kept = {what}
                return x + 1
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    with pytest.raises(opgraft.PyOpError, match=rf"node 'node', operator {module}\.Op: .*kept"):
        session.run(None, {"x": floats(4)})
    # It would use memory that no longer exists, so it is not run again.
    with pytest.raises(opgraft.PyOpError, match="not run, since .*copy_inputs = True"):
        session.run(None, {"x": floats(4) + 1})


def test_a_session_is_usable_once_the_kept_input_is_let_go(write_module: Write) -> None:
    module = write_module(
        """
        kept = []
        class Op:
            def compute(self, x):
                if x[0] == 0:
                    kept.append(x)
                return x + 1
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    x = floats(4)
    with pytest.raises(opgraft.PyOpError, match="kept"):
        session.run(None, {"x": x})
    kept = sys.modules[module].kept
    x[:] = -1
    np.testing.assert_array_equal(kept[0], floats(4))  # it has become a copy
    kept.clear()
    np.testing.assert_array_equal(session.run(None, {"x": floats(4) + 1})[0], floats(4) + 2)


def test_copied_inputs_may_be_kept_and_written_to(write_module: Write) -> None:
    module = write_module(
        """
        class Op:
            copy_inputs = True
            seen = []
            def compute(self, x):
                self.seen.append(x)
                x += 1
                return x
        """
    )
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    x = floats(4)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], floats(4) + 1)
    np.testing.assert_array_equal(x, floats(4))
    np.testing.assert_array_equal(sys.modules[module].Op.seen[0], floats(4) + 1)


@pytest.mark.parametrize(
    "returned",
    [
        "x",  # the input itself
        "np.asfortranarray(x)",
        "np.broadcast_to(np.float32(7), x.shape)",
        "x.astype('>f4')",
        "(x,)",
    ],
)
def test_returned_arrays(write_module: Write, returned: str) -> None:
    module = write_module(f"class Op:\n    def compute(self, x): return {returned}")
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    x = floats(3, 4)
    expected = np.full_like(x, 7) if "broadcast" in returned else x
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)


def test_a_numpy_scalar_is_a_tensor_of_rank_0(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x.sum()")
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    (result,) = session.run(None, {"x": floats(4)})
    assert result.shape == ()
    assert result == 6


@pytest.mark.parametrize("open_session", [opgraft.InferenceSession, None])
def test_eight_threads_in_one_session(write_module: Write, open_session: object) -> None:
    module = write_module(DOUBLE)
    model = pyop_model(module)
    session = (
        opgraft.InferenceSession(model, allow=[module])
        if open_session
        else plain_session(model, module)
    )
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(300):
                x = np.full(100, number * 1000 + step, np.float32)
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_first_sessions_of_a_process_made_by_eight_threads(
    write_module: Write, module_folder: Path
) -> None:
    """All of them need the bridge at once, some with the GIL and some without."""
    write_module(DOUBLE, name="doubling")
    program = f"""
        import sys, threading
        sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(module_folder)!r}]
        from conftest import DOUBLE, DTYPES, FLOAT, Write, floats, pyop_model
        import opgraft
        results = []
        def work():
            session = opgraft.InferenceSession(pyop_model("doubling"), allow=["doubling"])
            results.append(float(session.run(None, {{"x": floats(2)}})[0][1]))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(results)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == f"{[2.0] * 8}\n"


def test_the_library_outlives_the_last_session(write_module: Write, module_folder: Path) -> None:
    """The runtime then unloads it, but its registrations and Python's bridge are still used."""
    write_module(DOUBLE, name="doubling")
    program = f"""
        import gc, sys
        sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(module_folder)!r}]
        from conftest import DOUBLE, DTYPES, FLOAT, Write, floats, pyop_model
        import opgraft
        for _ in range(3):
            session = opgraft.InferenceSession(pyop_model("doubling"), allow=["doubling"])
            result = session.run(None, {{"x": floats(2)}})[0][1]
            del session
            gc.collect()
            print(result, opgraft.library_path() in open("/proc/self/maps").read())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "2.0 True\n" * 3


def test_the_gil_is_free_while_the_runtime_works(write_module: Write) -> None:
    """Another thread must be able to run during matrix products between two Python operators."""
    module = write_module(
        """
        import threading
        import time
        begun, seen = threading.Event(), threading.Event()
        class Begin:
            def compute(self, x):
                begun.set()
                return x + 0
        class End:
            def compute(self, x):
                Op.was_seen = seen.is_set()
                return x + 0
        class Op:
            was_seen = None
        """
    )
    size = 400
    begin = pyop_model(module, "Begin", outputs=("x0",)).graph.node[0]
    end = pyop_model(module, "End", inputs=("x20",)).graph.node[0]
    end.name = "end"
    products = [helper.make_node("MatMul", [f"x{i}", "x"], [f"x{i + 1}"]) for i in range(20)]
    values = [helper.make_tensor_value_info(name, FLOAT, [size, size]) for name in "xy"]
    graph = helper.make_graph([begin, *products, end], "graph", values[:1], values[1:])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    session = opgraft.InferenceSession(model, options, allow=[module])
    operators = sys.modules[module]

    def watch() -> None:
        operators.begun.wait()
        operators.seen.set()

    # Otherwise a waiting thread would get the GIL in the first steps of the second operator.
    interval = sys.getswitchinterval()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        sys.setswitchinterval(10)
        session.run(None, {"x": np.zeros((size, size), np.float32)})
    finally:
        sys.setswitchinterval(interval)
    watcher.join()
    assert operators.Op.was_seen
