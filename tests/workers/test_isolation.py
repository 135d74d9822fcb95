"""Python operators in worker processes: the same results and errors as in the process itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import DOUBLE, DTYPES, FLOAT, Write, floats, pyop_model
from opgraft import _pyop

PID = """
    import os
    class Op:
        def compute(self, x):
            return np.full(x.shape, os.getpid(), np.float32)
"""


def isolated(model: onnx.ModelProto, *allow: str, **settings: object) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(model, allow=allow, isolation="process", **settings)


def pids_of(session: opgraft.InferenceSession, calls: int = 1) -> set[int]:
    return {int(session.run(None, {"x": floats(1)})[0][0]) for _ in range(calls)}


def test_runs_in_another_process_that_sessions_share(write_module: Write) -> None:
    module = write_module(PID)
    sessions = [isolated(pyop_model(module), module) for _ in range(2)]
    pids = set.union(*(pids_of(session, 3) for session in sessions))
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert module not in sys.modules  # not even imported here


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", "float8_e4m3fn", "int4", "str"])
def test_every_type(write_module: Write, dtype: str) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x[::-1].copy()")
    if dtype == "str":
        array = np.array(["", "ä\0b", "long " * 30], object)
        number = TensorProto.STRING
    elif dtype in DTYPES:
        array = np.array([0, 1, 1, 0, 1], dtype)
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
    else:
        import ml_dtypes

        if dtype == "int4" and not hasattr(
            onnxruntime.OrtValue, "ortvalue_from_numpy_with_onnx_type"
        ):
            pytest.skip("this ONNX Runtime has no 4-bit integers")
        array = np.array([0, 1, -2, 3, 2], np.float32).astype(getattr(ml_dtypes, dtype))
        names = {"bfloat16": "BFLOAT16", "float8_e4m3fn": "FLOAT8E4M3FN", "int4": "INT4"}
        number = getattr(TensorProto, names[dtype])
    model = pyop_model(module, type=number)
    result = isolated(model, module).run(None, {"x": array})[0]
    expected = array[::-1]
    assert result.dtype == array.dtype
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1000, 1000), (5, 1)])
def test_shapes_and_sizes_that_grow_and_shrink(write_module: Write, shape: tuple[int, ...]) -> None:
    module = write_module("class Op:\n    def compute(self, x): return np.concatenate([x, x], -1)")
    if shape == ():
        module = write_module(DOUBLE)
    session = isolated(pyop_model(module), module)
    x = np.random.default_rng(1).random(shape, np.float32)
    expected = x + x if shape == () else np.concatenate([x, x], -1)
    assert np.array_equal(session.run(None, {"x": x})[0], expected)


def test_absent_inputs_outputs_that_are_not_wanted_and_none_where_one_is(
    write_module: Write,
) -> None:
    module = write_module("""
        class Op:
            def compute(self, x, missing, y):
                assert missing is None
                return x + y, None, y
    """)
    model = pyop_model(module, inputs=("x", "", "x"), outputs=("a", "", "b"))
    model.graph.node[0].attribute.remove(
        next(one for one in model.graph.node[0].attribute if one.name == "input_types")
    )
    results = isolated(model, module).run(None, {"x": floats(3)})
    assert np.array_equal(results[0], floats(3) * 2)
    assert np.array_equal(results[1], floats(3))
    wanted = pyop_model(module, inputs=("x", "", "x"), outputs=("a", "c", "b"))
    wanted.graph.node[0].attribute.remove(
        next(one for one in wanted.graph.node[0].attribute if one.name == "input_types")
    )
    with pytest.raises(opgraft.PyOpError, match="output 1: expected a NumPy array of float32"):
        isolated(wanted, module).run(None, {"x": floats(3)})


def test_inputs_are_views_and_out_is_written_in_place(module_folder: Path) -> None:
    (module_folder / "declared_in_place.py").write_text(
        textwrap.dedent("""
        import numpy as np
        import opgraft

        @opgraft.op("test.place::Twice", shape=lambda x: x)
        def twice(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
            assert not x.flags.owndata and not x.flags.writeable and not out.flags.owndata
            np.add(x, x, out=out)
            return out
        """)
    )
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "test.place": 1]>
        graph (float[n] x) => (float[n] y) { y = test.place.Twice (x) }"""
    )
    session = isolated(model, imports=["declared_in_place"])
    for size in (3, 100_000, 3):
        assert np.array_equal(session.run(None, {"x": floats(size)})[0], floats(size) * 2)


def test_an_operator_that_is_declared_to_be_isolated(module_folder: Path) -> None:
    (module_folder / "declared_apart.py").write_text(
        textwrap.dedent("""
        import os
        import numpy as np
        import opgraft

        @opgraft.op("test.apart::Pid", isolation="process")
        def pid(x: np.ndarray) -> np.ndarray:
            return np.full(x.shape, os.getpid(), x.dtype)
        """)
    )
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "test.apart": 1]>
        graph (float[n] x) => (float[n] y) { y = test.apart.Pid (x) }"""
    )
    session = opgraft.InferenceSession(model, imports=["declared_apart"])
    assert session.run(None, {"x": floats(1)})[0] != os.getpid()


def test_an_exception_has_its_class_its_text_its_traceback_and_its_cause(
    write_module: Write,
) -> None:
    module = write_module("""
        class Own(ValueError):
            pass
        class Op:
            def compute(self, x):
                try:
                    {}["key"]
                except KeyError as error:
                    raise Own("wrong", 7, object) from error
    """)
    session = isolated(pyop_model(module), module)
    with pytest.raises(opgraft.PyOpError, match=r'raise Own\("wrong", 7, object\)') as caught:
        session.run(None, {"x": floats(2)})
    assert type(caught.value.__cause__) is ValueError  # its module is not imported here
    assert caught.value.__cause__.args == ("wrong", 7, "<class 'object'>")
    assert type(caught.value.__cause__.__cause__) is KeyError
    __import__(module)
    with pytest.raises(opgraft.PyOpError) as caught:
        session.run(None, {"x": floats(2)})
    assert type(caught.value.__cause__) is sys.modules[module].Own


def test_errors_of_the_making_come_with_the_session(write_module: Write) -> None:
    module = write_module("class Op:\n    def __init__(self): raise OSError(5, 'no disk')")
    with pytest.raises(opgraft.PyOpError, match="no disk") as caught:
        isolated(pyop_model(module), module)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == 5
    with pytest.raises(opgraft.PolicyError, match="allow"):
        isolated(pyop_model(module))


def test_two_calls_at_once_run_in_two_workers(write_module: Write, tmp_path: Path) -> None:
    """Each call waits until the other one runs too, so that one worker would never end."""
    module = write_module(f"""
        import os, time
        class Op:
            def compute(self, x):
                open({str(tmp_path)!r} + f"/call{{os.getpid()}}", "w").close()
                while sum(one.startswith("call") for one in os.listdir({str(tmp_path)!r})) < 2:
                    time.sleep(0.01)
                return np.full(x.shape, os.getpid(), np.float32)
    """)
    session = isolated(pyop_model(module), module, workers=2, timeout=60)
    found: list[set[int]] = []
    threads = [threading.Thread(target=lambda: found.append(pids_of(session))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set.union(*found)) == 2


def test_independent_nodes_of_one_graph_run_in_two_workers_where_streams_are_named(
    write_module: Write, tmp_path: Path
) -> None:
    module = write_module(f"""
        import os, time
        class Op:
            def compute(self, x):
                open({str(tmp_path)!r} + f"/call{{os.getpid()}}", "w").close()
                while sum(one.startswith("call") for one in os.listdir({str(tmp_path)!r})) < 2:
                    time.sleep(0.01)
                return np.full(x.shape, os.getpid(), np.float32)
    """)
    nodes = [
        helper.make_node(
            "PyOp", ["x"], [name], name=name, domain="test.pyop", module=module, class_name="Op",
            input_types=[FLOAT], output_types=[FLOAT],
        )
        for name in "ab"
    ]  # fmt: skip
    values = [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in "xab"]
    model = helper.make_model(helper.make_graph(nodes, "two", values[:1], values[1:]))
    streams = {"type": "DeviceBasedPartitioner", "streams": [["b"], ["a"]], "devices": ["0", "0"]}
    partition = tmp_path / "partition.json"
    partition.write_text(json.dumps(streams))
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 3
    options.add_session_config_entry("session.node_partition_config_file", str(partition))
    session = isolated(model, module, sess_options=options, workers=2, timeout=20)
    a, b = session.run(None, {"x": floats(1)})
    assert a[0] != b[0]


@pytest.mark.parametrize("one_worker", [False, True])
def test_an_object_is_in_each_worker_or_in_one(write_module: Write, one_worker: bool) -> None:
    module = write_module(f"""
        class Op:
            one_worker = {one_worker}
            def __init__(self): self.calls = 0
            def compute(self, x):
                import time
                time.sleep(0.05)
                self.calls += 1
                return np.float32([self.calls])
    """)
    session = isolated(pyop_model(module), module, workers=2)
    results: list[float] = []

    def run() -> None:
        results.append(session.run(None, {"x": floats(1)})[0][0])

    for _ in range(3):
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if one_worker:
        assert sorted(results) == [1, 2, 3, 4, 5, 6]
    else:
        assert max(results) < 6


def test_one_worker_makes_one_object_after_the_first_has_ended(write_module: Write) -> None:
    """Although several calls wait for the object."""
    module = write_module("""
        import os, time
        class Op:
            one_worker = True
            def __init__(self):
                self.calls = 0
                time.sleep(0.2)
            def compute(self, x):
                if x[0] < 0: os._exit(1)
                self.calls += 1
                time.sleep(0.05)
                return np.float32([self.calls])
    """)
    session = isolated(pyop_model(module), module, workers=2)
    results: list[float] = []

    def run() -> None:
        results.append(session.run(None, {"x": floats(1)})[0][0])

    with pytest.raises(opgraft.PyOpError, match="exit status 1"):
        session.run(None, {"x": -np.ones(1, np.float32)})
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [1, 2, 3, 4]


def test_the_timeout_is_for_the_call_and_not_for_making_the_operator(write_module: Write) -> None:
    module = write_module("""
        import time
        time.sleep(1.5)
        class Op:
            def compute(self, x):
                if x[0] < 0: time.sleep(100)
                return x + x
    """)
    session = isolated(pyop_model(module), module, timeout=1)
    with pytest.raises(opgraft.PyOpError, match="did not reply within 1 s"):
        session.run(None, {"x": -np.ones(1, np.float32)})
    assert session.run(None, {"x": floats(2)})[0].tolist() == (floats(2) * 2).tolist()


def test_what_the_last_call_prints_is_seen(write_module: Write, tmp_path: Path) -> None:
    (tmp_path / "apart.py").write_text(
        "class Op:\n    def compute(self, x):\n        print('printed')\n        return x + x\n"
    )
    host = program(textwrap.dedent(HOST), tmp_path)
    assert "printed\n" in host.communicate(timeout=120)[0]


def test_a_module_that_was_edited_is_read_again(write_module: Write) -> None:
    module = write_module("class Op:\n    def compute(self, x): return x + 1", name="edited_later")
    first = isolated(pyop_model(module), module)
    write_module("class Op:\n    def compute(self, x): return x + 100", name="edited_later")
    second = isolated(pyop_model(module), module)
    assert first.run(None, {"x": floats(1)})[0] == floats(1) + 1
    assert second.run(None, {"x": floats(1)})[0] == floats(1) + 100


def test_a_plain_session_that_is_registered_so(write_module: Write) -> None:
    module = write_module(PID)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module], isolation="process")
    prepared = opgraft.prepare(pyop_model(module)).bytes
    session = onnxruntime.InferenceSession(prepared, options)
    assert session.run(None, {"x": floats(1)})[0] != os.getpid()
    opgraft.register(options, allow=[module], isolation="process")
    with pytest.raises(opgraft.Error, match="make new session options"):
        opgraft.register(options, allow=[module], isolation="process", workers=2)


def test_a_worker_has_no_secrets_of_the_environment(
    write_module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module("""
        import os
        class Op:
            def compute(self, x):
                seen = [name in os.environ for name in ("MY_SECRET", "MY_SETTING", "PATH")]
                return np.float32(seen)
    """)
    monkeypatch.setenv("MY_SECRET", "1")
    monkeypatch.setenv("MY_SETTING", "1")
    session = isolated(pyop_model(module), module, environment=["MY_SETTING"])
    assert session.run(None, {"x": floats(3)})[0].tolist() == [0, 1, 1]


def test_a_worker_inherits_no_descriptors(write_module: Write, tmp_path: Path) -> None:
    module = write_module("""
        import os
        class Op:
            def compute(self, x):
                names = [os.readlink(f"/proc/self/fd/{one}") for one in (3, 4)]
                others = [one for one in os.listdir("/proc/self/fd") if int(one) > 4]
                alive = [one for one in others if os.path.exists(f"/proc/self/fd/{one}")]
                assert "socket" in names[0] and "memfd" in names[1], names
                return np.float32([len(alive)])
    """)
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        # Settings of its own, so that its worker is started now.
        session = isolated(pyop_model(module), module, environment=["A_WORKER_OF_ITS_OWN"])
    assert session.run(None, {"x": floats(1)})[0] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"isolation": "thread"}, "expected \"process\" or None, not 'thread'"),
        ({"workers": 2}, 'Fix: isolation="process"'),
        ({"isolation": "process", "workers": 0}, "'workers=0' is not a setting"),
        ({"isolation": "process", "timeout": -1}, "positive number of seconds"),
        ({"isolation": "process", "python": "a;b"}, "semicolon"),
        ({"isolation": "process", "retries": -1}, "out of range"),
    ],
)
def test_wrong_settings(write_module: Write, settings: dict[str, object], message: str) -> None:
    module = write_module(DOUBLE)
    with pytest.raises(opgraft.Error, match=message):
        opgraft.InferenceSession(pyop_model(module), allow=[module], **settings)


def test_operators_that_workers_cannot_run_are_refused(write_module: Write) -> None:
    with pytest.raises(opgraft.PyOpError, match="module of its own"):
        isolated(pyop_model("__main__"), "__main__")
    with pytest.raises(opgraft.Error, match="cannot be isolated"):
        opgraft.op("test.isolation::Gpu", device="cuda", isolation="process")
    module = write_module(DOUBLE)
    with pytest.raises(opgraft.UnavailableError, match="cannot run '/no/such/python'"):
        isolated(pyop_model(module), module, python="/no/such/python")


def test_another_python_command(write_module: Write, tmp_path: Path) -> None:
    command = tmp_path / "another_python"
    command.write_text(f'#!/bin/sh\nMARK=1 exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    module = write_module("""
        import os
        class Op:
            def compute(self, x): return np.float32([os.environ["MARK"] == "1"])
    """)
    session = isolated(pyop_model(module), module, python=command)
    assert session.run(None, {"x": floats(1)})[0] == 1
    command.write_text("#!/bin/sh\necho 'this Python is broken' >&2; exit 4\n")
    other = tmp_path / "broken_python"
    command.rename(other)
    with pytest.raises(opgraft.UnavailableError, match="exit status 4") as caught:
        isolated(pyop_model(module), module, python=other)
    assert "this Python is broken" in str(caught.value)


def program(source: str, folder: Path) -> subprocess.Popen[str]:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source))
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).parents[1]}"}
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


HOST = """
    import os, sys, signal, threading, time
    import opgraft
    from conftest import pyop_model, floats

    session = opgraft.InferenceSession(
        pyop_model("apart"), allow=["apart"], isolation="process", workers=2
    )
    print(int(session.run(None, {"x": floats(1)})[0][0]), flush=True)
"""


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_workers_end_with_their_host(tmp_path: Path, end: str) -> None:
    (tmp_path / "apart.py").write_text("import numpy as np\n" + textwrap.dedent(PID))
    host = program(textwrap.dedent(HOST) + end + "\n", tmp_path)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.wait()
    assert eventually(lambda: is_gone(pid))


def test_a_worker_lives_on_when_the_thread_that_started_it_ends(write_module: Write) -> None:
    module = write_module(PID)
    sessions: list[opgraft.InferenceSession] = []
    thread = threading.Thread(
        target=lambda: sessions.append(
            isolated(pyop_model(module), module, environment=["STARTED_BY_A_THREAD"])
        )
    )
    thread.start()
    thread.join()
    before = _pyop.pool_stats()["restarts"]
    first = pids_of(sessions[0])
    time.sleep(1.2)  # longer than a worker takes to look for its host
    assert pids_of(sessions[0]) == first
    assert _pyop.pool_stats()["restarts"] == before


def test_a_forked_child_starts_workers_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "apart.py").write_text("import numpy as np\n" + textwrap.dedent(PID))
    child = """
    child = os.fork()
    pid = int(session.run(None, {"x": floats(1)})[0][0])
    print(pid, flush=True)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(int(session.run(None, {"x": floats(1)})[0][0]), flush=True)
    """
    host = program(textwrap.dedent(HOST) + textwrap.dedent(child), tmp_path)
    output, _ = host.communicate(timeout=120)
    pids = [int(line) for line in output.split()]
    assert len(pids) == 4
    assert len(set(pids)) == 2  # the parent's own, which is still there at the end, and the child's
    assert pids[0] == pids[3]
    assert all(eventually(lambda pid=pid: is_gone(pid)) for pid in pids)


def test_ctrl_c_ends_a_call_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "apart.py").write_text(
        "import time\nclass Op:\n    def compute(self, x):\n"
        "        print('in the worker', flush=True)\n        time.sleep(1000)\n"
    )
    source = HOST.replace("    print(int(session", "    run = lambda: print(int(session")
    source = textwrap.dedent(source) + textwrap.dedent("""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell ignores it
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """)
    host = program(source, tmp_path)
    assert host.stdout is not None
    assert host.stdout.readline() == "in the worker\n"  # a worker's output is the host's
    host.send_signal(signal.SIGINT)
    try:
        assert host.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        host.kill()
    assert host.returncode == 0
