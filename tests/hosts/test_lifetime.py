"""Sessions and threads that begin, end, nest and fork in every way, in Python and C++ programs."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import DOUBLE, HOST_PYTHON, Write, floats, pyop_model

TESTS = Path(__file__).resolve().parents[1]
TRIES = {"Op": 6, "Short": 2, "Endless": 1, "Busy": 1}  # exits to try for each operator

OPERATORS = """
    import time
    class Op:
        def compute(self, x):
            if x[0] < 0:
                raise ValueError("negative")
            while x[0] == 0:
                pass
            return x + x
    class Short:
        def compute(self, x):
            time.sleep(0.002)
            return x + x
    class Endless:
        def compute(self, x):
            while True:
                time.sleep(0.001)
    class Busy:
        def compute(self, x):
            while True:
                pass
"""


def run_python(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that finds the tests' models and the modules of `folder`."""
    begin = f"""
        import os, sys, threading, time
        sys.path[:0] = [{str(TESTS)!r}, {str(folder)!r}]
        from conftest import floats, pyop_model
        import onnxruntime, opgraft
        X = {{"x": floats(3) + 1}}
        def open_session(class_name="Op"):
            model = pyop_model("operators", class_name)
            return opgraft.InferenceSession(model, allow=["operators"])
    """
    source = textwrap.dedent(begin) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the program lifetime.cc."""
    program = tmp_path_factory.mktemp("lifetime") / "lifetime"
    libraries = Path(opgraft.library_path()).parent
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1"]
    command += [f"-I{opgraft.get_include()}", str(Path(__file__).with_name("lifetime.cc"))]
    command += ["-o", str(program), f"-L{libraries}", "-lopgraft", f"-Wl,-rpath,{libraries}"]
    subprocess.run([*command, "-ldl", "-pthread"], check=True, capture_output=True)
    return program


class Host:
    """Runs a part of lifetime.cc on a model with an operator of OPERATORS."""

    def __init__(self, program: Path, folder: Path, modules: Path) -> None:
        self.program, self.folder, self.modules = program, folder, modules

    def __call__(
        self, what: str, class_name: str = "Op", model: onnx.ModelProto | None = None
    ) -> subprocess.CompletedProcess[str]:
        onnx.save(model or pyop_model("operators", class_name), self.folder / "model.onnx")
        return subprocess.run(
            [self.program, opgraft.runtime_library(), "model.onnx", "operators", what],
            cwd=self.folder,
            env=dict(os.environ, OPGRAFT_PYTHON=HOST_PYTHON, PYTHONPATH=str(self.modules)),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture
def run_host(host: Path, write_module: Write, tmp_path: Path, module_folder: Path) -> Host:
    write_module(OPERATORS, name="operators")
    return Host(host, tmp_path, module_folder)


@pytest.fixture
def operators(write_module: Write, module_folder: Path) -> Path:
    """The folder of a module 'operators'."""
    write_module(OPERATORS, name="operators")
    return module_folder


# Runs that are terminated.

WAITING = """
    import os, time
    class Op:
        def compute(self, x):
            open("inside", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.001)
            return x
    class After:
        def compute(self, x):
            open("after", "w").close()
            return x
"""


def chain(module: str) -> onnx.ModelProto:
    """Returns a model with Op followed by After."""
    model = pyop_model(module, outputs=("t",))
    after = pyop_model(module, "After", inputs=("t",)).graph
    after.node[0].name = "after"
    model.graph.node.extend(after.node)
    del model.graph.output[:]
    model.graph.output.extend(after.output)
    return model


@pytest.mark.parametrize("mode", ["sequential", "parallel", "last"])
def test_a_run_that_another_thread_terminates(
    write_module: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The running operator is not interrupted; the next one does not start, and the run raises."""
    monkeypatch.chdir(tmp_path)
    module = write_module(WAITING)
    options, how = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    if mode == "parallel":
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    model = pyop_model(module) if mode == "last" else chain(module)
    session = opgraft.InferenceSession(model, options, allow=[module])

    def terminate() -> None:
        while not Path("inside").exists():
            time.sleep(0.001)
        how.terminate = True
        Path("go").touch()

    other = threading.Thread(target=terminate)
    other.start()
    with pytest.raises(Exception, match="terminate flag being set") as caught:
        session.run(None, {"x": floats(3)}, how)
    other.join()
    assert type(caught.value).__name__ == "Fail"  # like onnxruntime's own error
    assert not Path("after").exists()
    assert ("let it check a flag of yours" in str(caught.value)) is (mode == "last")
    how.terminate = False
    session.run(None, {"x": floats(3)}, how)
    assert Path("after").exists() is (mode != "last")


def test_a_run_of_a_program_that_another_thread_terminates(
    run_host: Host, write_module: Write
) -> None:
    write_module(WAITING, name="operators")
    done = run_host("terminate", model=chain("operators"))
    assert "terminate flag being set" in done.stdout, done.stderr
    assert not (run_host.folder / "after").exists()


def test_an_operator_that_looks_at_a_flag_of_its_own(write_module: Write) -> None:
    """As in docs/pyop.md."""
    page = (TESTS.parent / "docs" / "pyop.md").read_text()
    (code,) = re.findall(r"```python\n# patient.py\n(.*?)```", page, re.S)
    module = write_module(code)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    session.run(None, {"x": floats(3)})
    sys.modules[module].stop.set()
    with pytest.raises(opgraft.PyOpError, match="the run is to end") as caught:
        session.run(None, {"x": floats(3)})
    assert isinstance(caught.value.__cause__, InterruptedError)


# Threads.


def test_sessions_made_run_and_dropped_on_other_threads(write_module: Write) -> None:
    module = write_module(DOUBLE)
    right: list[bool] = []

    def on_a_thread(work: object) -> None:
        thread = threading.Thread(target=work)  # type: ignore[arg-type]
        thread.start()
        thread.join()

    def live() -> None:
        for _ in range(10):
            box: list[onnxruntime.InferenceSession] = []
            on_a_thread(
                lambda box=box: box.append(
                    opgraft.InferenceSession(pyop_model(module), allow=[module])
                )
            )
            on_a_thread(lambda box=box: right.append(box[0].run(None, {"x": floats(2)})[0][1] == 2))
            on_a_thread(box.clear)

    threads = [threading.Thread(target=live) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 40


def test_sessions_on_other_threads_in_cpp(run_host: Host) -> None:
    done = run_host("other threads")
    assert (done.returncode, done.stdout) == (0, "40 right\n"), done.stderr


def test_parallel_execution(write_module: Write) -> None:
    """ORT_PARALLEL runs nodes on the runtime's own threads, which Python has never seen."""
    module = write_module(
        """
        import threading
        seen = set()
        class Op:
            def compute(self, x):
                seen.add(threading.get_native_id())
                return x + 1
        class Bad:
            def compute(self, x):
                raise ValueError("bad")
        """
    )
    first = pyop_model(module).graph
    nodes = []
    for i in range(8):
        node = onnx.NodeProto()
        node.CopyFrom(first.node[0])
        node.name, node.output[0] = f"node{i}", f"y{i}"
        nodes.append(node)
    total = helper.make_node("Sum", [f"y{i}" for i in range(8)], ["y"])
    graph = helper.make_graph([*nodes, total], "graph", first.input, first.output)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 4
    session = opgraft.InferenceSession(model, options, allow=[module])
    for _ in range(30):
        np.testing.assert_array_equal(session.run(None, {"x": floats(3)})[0], 8 * (floats(3) + 1))
    assert sys.modules[module].seen
    (class_name,) = (a for a in model.graph.node[3].attribute if a.name == "class_name")
    class_name.s = b"Bad"
    session = opgraft.InferenceSession(model, options, allow=[module])
    for _ in range(5):
        with pytest.raises(opgraft.PyOpError, match="node 'node3'.*bad"):
            session.run(None, {"x": floats(3)})


# A session inside an operator.


def test_a_session_inside_an_operator(write_module: Write) -> None:
    """A session of the same model, to some depth; of another model; and the errors of both."""
    module = write_module(
        """
        sessions = {}
        class Factorial:
            def compute(self, x):
                if x[0] <= 1:
                    return np.ones_like(x)
                return x * sessions["factorial"].run(None, {"x": x - 1})[0]
        class Outer:
            def compute(self, x):
                return sessions["inner"].run(None, {"x": x})[0] + 1
        class Inner:
            def compute(self, x):
                if x[0] < 0:
                    raise ValueError("negative")
                return x * 10
        """
    )
    factorial, outer, inner = (
        opgraft.InferenceSession(pyop_model(module, name), allow=[module])
        for name in ("Factorial", "Outer", "Inner")
    )
    sys.modules[module].sessions.update(factorial=factorial, inner=inner)
    try:
        assert factorial.run(None, {"x": np.float32([10])})[0] == 3628800
        assert outer.run(None, {"x": np.float32([4])})[0] == 41
        with pytest.raises(opgraft.PyOpError, match=r"Outer: compute raised") as error:
            outer.run(None, {"x": np.float32([-1])})
        assert isinstance(error.value.__cause__, opgraft.PyOpError)
        assert isinstance(error.value.__cause__.__cause__, ValueError)
    finally:
        sys.modules[module].sessions.clear()


def test_a_session_made_inside_an_operator(write_module: Write) -> None:
    inner = write_module(DOUBLE)
    outer = write_module(
        f"""
        import opgraft
        from conftest import pyop_model
        class Op:
            def compute(self, x):
                session = opgraft.InferenceSession(pyop_model("{inner}"), allow=["{inner}"])
                return session.run(None, {{"x": x}})[0]
        """
    )
    session = opgraft.InferenceSession(pyop_model(outer), allow=[outer])
    np.testing.assert_array_equal(session.run(None, {"x": floats(3)})[0], 2 * floats(3))


def test_a_session_inside_an_operator_in_cpp(
    run_host: Host, write_module: Write, tmp_path: Path
) -> None:
    """The operator's session uses the package onnxruntime, the program's its own library."""
    inner = tmp_path / "inner.onnx"
    onnx.save(pyop_model("operators", "Inner"), inner)
    write_module(
        f"""
        import opgraft
        class Inner:
            def compute(self, x):
                return x + x
        class Op:
            def __init__(self):
                self.session = opgraft.InferenceSession({str(inner)!r}, allow=["operators"])
            def compute(self, x):
                return self.session.run(None, {{"x": x}})[0]
        """,
        name="operators",
    )
    done = run_host("once")
    assert (done.returncode, done.stdout) == (0, "1 right\n"), done.stderr


# Fork.


def test_fork(operators: Path) -> None:
    """Children run the parent's session and a new one."""
    program = """
        import multiprocessing
        session = open_session()
        def work(_):
            return float(session.run(None, X)[0][1] + open_session().run(None, X)[0][1])
        def child():
            process = os.fork()
            if process == 0:
                os._exit(int(work(0)))
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(work(0), child())
        threading.Thread(target=lambda: print(child())).start()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(4)))
        print(work(0))
    """
    done = run_python(program, operators)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["8", "8.0", "8.0 8", "[8.0, 8.0, 8.0, 8.0]"]


def test_fork_while_other_threads_run(operators: Path) -> None:
    """A child's own session works; its exit does not wait for threads of the parent."""
    program = """
        session = open_session()
        def work():
            while True:
                session.run(None, X)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        def child():
            process = os.fork()
            if process == 0:
                result = open_session().run(None, X)[0][1]
                started = time.monotonic()
                opgraft._run._session._pyop.close_gate()
                os._exit(int(result) if time.monotonic() - started < 0.9 else 99)
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print([child() for _ in range(8)])
    """
    done = run_python(program, operators)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{[4] * 8}\n", "")


def test_fork_in_cpp(run_host: Host) -> None:
    done = run_host("fork")
    expected = "idle 7\nthread 7\ninside 7\n" + "busy 7\n" * 20 + "parent 1\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_forks_by_many_threads_in_cpp(run_host: Host) -> None:
    done = run_host("fork together")
    assert (done.returncode, done.stdout) == (0, "2000 right\n"), done.stderr


def test_fork_before_python_is_started_in_cpp(run_host: Host) -> None:
    done = run_host("fork first")
    assert (done.returncode, done.stdout) == (0, "child 7 parent 1\n"), done.stderr


def test_an_operator_of_a_cpp_program_that_forks(run_host: Host, write_module: Write) -> None:
    write_module(
        """
        import os, subprocess, sys
        class Op:
            def compute(self, x):
                process = os.fork()
                if process == 0:
                    os._exit(0)
                assert os.waitpid(process, 0)[1] == 0
                subprocess.run([sys.executable, "-c", ""], check=True, preexec_fn=lambda: None)
                return x + x
        """,
        name="operators",
    )
    done = run_host("once")
    assert (done.returncode, done.stdout) == (0, "1 right\n"), done.stderr


# Exit.


def test_exit_with_live_sessions(operators: Path) -> None:
    program = """
        import atexit
        sessions = [open_session() for _ in range(3)]
        sessions[0].extra = sessions  # a cycle
        onnxruntime.kept = sessions
        sessions[1].run(None, X)
        print("done")
        sys.exit(3)
    """
    done = run_python(program, operators)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


HOT = """
    session = open_session(sys.argv[1])
    def work():
        while True:
            session.run(None, X)
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)
    print("done")
    sys.exit(3)
"""


@pytest.mark.parametrize("class_name", TRIES)
def test_exit_with_daemon_threads_hot_inside_run(operators: Path, class_name: str) -> None:
    """Plain ONNX Runtime aborts in almost every such exit."""
    for _ in range(TRIES[class_name]):
        done = run_python(HOT, operators, class_name)
        assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


def test_exit_with_daemon_threads_in_every_call(operators: Path) -> None:
    """Runs by IOBinding and by OrtValues, and sessions being made."""
    program = """
        session = open_session()
        def bound():
            binding = session.io_binding()
            binding.bind_cpu_input("x", X["x"])
            binding.bind_output("y")
            session.run_with_iobinding(binding)
        value = onnxruntime.OrtValue.ortvalue_from_numpy(X["x"])
        calls = [bound, lambda: session.run_with_ort_values(["y"], {"x": value}), open_session]
        def work(call):
            while True:
                call()
        for call in calls * 2:
            threading.Thread(target=work, args=(call,), daemon=True).start()
        time.sleep(0.1)
        print("done")
    """
    for _ in range(2):
        done = run_python(program, operators)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_threads_that_are_no_daemons_finish_before_the_exit(operators: Path) -> None:
    program = """
        session = open_session("Short")
        def work():
            for _ in range(50):
                session.run(None, X)
            print("finished", session.run(None, X)[0][0])
        threading.Thread(target=work).start()
        print("done")
    """
    done = run_python(program, operators)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\nfinished 2.0\n", "")


def test_sessions_may_be_run_at_exit(operators: Path) -> None:
    """By atexit functions that were registered before and after Opgraft was imported."""
    program = f"""
        import atexit, sys
        sys.path[:0] = [{str(TESTS)!r}, {str(operators)!r}]
        from conftest import floats, pyop_model
        def report(when):
            print(when, session.run(None, {{"x": floats(2) + 1}})[0][1])
        atexit.register(report, "before")
        import opgraft
        session = opgraft.InferenceSession(pyop_model("operators"), allow=["operators"])
        atexit.register(report, "after")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "after 4.0\nbefore 4.0\n", "")


@pytest.mark.parametrize("call", ["run", "run_with_ort_values", "set_providers"])
def test_a_run_that_is_interrupted_as_it_begins_is_over(
    write_module: Write,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    call: str,
) -> None:
    """Otherwise the exit would wait for it. Python checks for Ctrl-C when a call returns."""
    module = write_module(DOUBLE)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module])
    left: list[bool] = []
    interrupt = functools.partial(signal.raise_signal, signal.SIGINT)
    # A shell makes background jobs ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    monkeypatch.setattr("opgraft._run._session._enter_run", interrupt)
    monkeypatch.setattr("opgraft._run._session._leave_run", lambda: left.append(True))
    with pytest.raises(KeyboardInterrupt) as interrupted:
        getattr(session, call)(
            *([["CPUExecutionProvider"]] if call == "set_providers" else [[], {}])
        )
    assert (interrupted.type, left) == (KeyboardInterrupt, [True])


AT_EXIT = """
    import atexit
    def at_exit():  # is older than Opgraft's own function, and so runs after it
        late()
        print("late")
    atexit.register(at_exit)
    import threading, time
    import numpy as np, onnx.parser, onnxruntime, opgraft

    @opgraft.op("test::Increment", shape=lambda x: x)
    def increment(x: np.ndarray) -> np.ndarray:
        if x[0] == 9:
            time.sleep(1.2)  # for longer than the exit waits
        return x + 1

    NODES = "a = test.Increment(x) b = test.Increment(x) c = test.Increment(x)"
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "test": 1]>'
        "graph (float[n] x) => (float[n] a, float[n] b, float[n] c) {" + NODES + "}"
    )
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 3
    session = opgraft.InferenceSession(model, options)

    def run(times=50, first=0):
        for _ in range(times):
            assert session.run(None, {"x": np.float32([first])})[2] == [first + 1]

    def forever():
        while True:
            run(first=9)
"""
LATE = {
    "the main thread": """
        late = run
    """,
    "a thread that it waits for": """
        def late():
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    """,
    "the main thread, with threads that were parked": """
        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.1)
        def late():
            time.sleep(0.5)
            run()
    """,
}


@pytest.mark.parametrize("who", LATE)
def test_operators_on_other_threads_at_exit(who: str) -> None:
    """On the runtime's own threads, and on one that an atexit function starts."""
    source = textwrap.dedent(AT_EXIT) + textwrap.dedent(LATE[who])
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\n", "")


def test_exit_with_a_live_session_in_cpp(run_host: Host) -> None:
    done = run_host("exit live")
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


@pytest.mark.parametrize("class_name", TRIES)
def test_exit_with_hot_threads_in_cpp(run_host: Host, class_name: str) -> None:
    for _ in range(TRIES[class_name]):
        done = run_host("exit hot", class_name)
        assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


# Memory.


def test_many_runs_do_not_take_memory(operators: Path) -> None:
    program = """
        def pages():
            return int(open("/proc/self/statm").read().split()[1])
        session = open_session()
        bad = {"x": -X["x"]}
        def run(times):
            for _ in range(times):
                session.run(None, X)
            for _ in range(times // 10):
                try:
                    session.run(None, bad)
                except opgraft.PyOpError:
                    continue
                raise SystemExit("not refused")
        onnxruntime.set_default_logger_severity(4)
        run(5_000)
        growth = []
        for _ in range(3):
            before = pages()
            run(35_000)
            growth.append(pages() - before)
        print(min(growth) * os.sysconf("SC_PAGESIZE") // 1024)
    """
    done = run_python(program, operators)
    assert done.returncode == 0, done.stderr
    # In kB. A leak grows in each round; other changes of memory do not.
    assert int(done.stdout) < 1500


@pytest.mark.parametrize("what", ["memory", "sessions"])
def test_neither_runs_nor_sessions_take_memory_in_cpp(run_host: Host, what: str) -> None:
    done = run_host(what)
    growth = re.fullmatch(r"(-?\d+) kB\n", done.stdout)
    assert growth, done.stdout + done.stderr
    assert int(growth[1]) < 6000


def test_sessions_are_freed(write_module: Write) -> None:
    """And so are their operators."""
    module = write_module(
        """
        import weakref
        alive = weakref.WeakSet()
        class Op:
            def __init__(self):
                alive.add(self)
            def compute(self, x):
                return x
        """
    )
    for _ in range(10):
        opgraft.InferenceSession(pyop_model(module), allow=[module]).run(None, {"x": floats(1)})
    gc.collect()
    assert len(sys.modules[module].alive) == 0
