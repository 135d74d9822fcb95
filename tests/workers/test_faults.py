"""Operators that crash, hang, or leave their process, in worker processes of Python and C++
programs: the call fails with what happened, and everything else goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

import opgraft
from conftest import DOUBLE, HOST_PYTHON, Write, floats, pyop_model
from opgraft import _pyop
from opgraft._base._library import runner_path, runtime_library

#: The body of `compute`, the settings, and what the error says; "" where the call is right.
FAULTS = {
    "exit": ("os._exit(3)", {}, r"its worker process ended with the exit status 3: the operator"),
    "segfault": (
        "ctypes.string_at(0)",
        {},
        r"(?s)its worker process was ended by SIGSEGV\nThe end of its standard error:.*compute",
    ),
    "abort": ("os.abort()", {}, "its worker process was ended by SIGABRT"),
    "kill": ("os.kill(os.getpid(), 9); time.sleep(9)", {}, "was ended by SIGKILL"),
    "hang": ("time.sleep(1000)", {"timeout": 0.3}, "did not reply within 0.3 s, and was ended"),
    "hang in C": (
        "ctypes.PyDLL(None).sleep(1000)",
        {"timeout": 0.3},
        "did not reply within 0.3 s",
    ),
    "memory": (
        "kept = []\n            while True: kept.append(np.empty(1 << 26))",
        {"memory_limit": 1 << 32},
        "MemoryError",
    ),
    "processor time": (
        "\n            while True: pass",
        {"cpu_limit": 1, "timeout": 60},
        "the limit of its processor time",
    ),
    "output": (
        "\n            while True: os.write(1, b'x' * 4096)",
        {"timeout": 0.5},
        "did not reply within 0.5 s",
    ),
    "much output": ("[os.write(1, b'x' * 65536) for _ in range(100)]; return x + x", {}, ""),
    "threads": (
        "[threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
        " for _ in range(20)]; return x + x",
        {},
        "",
    ),
    "fork": ("os.fork(); return x + x", {}, ""),
    "fork that stays": ("os.fork() or time.sleep(1000); return x + x", {}, ""),
    "descriptors": ("os.closerange(0, 1000); return x + x", {}, "closed descriptors that belong"),
    "signals": ("os.kill(0, 15); time.sleep(9)", {}, "was ended by SIGTERM"),
}


def source_of(body: str) -> str:
    return f"""
    import ctypes, os, threading, time
    class Op:
        def compute(self, x):
            {body}
    """


def isolated(module: str, **settings: object) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(
        pyop_model(module), allow=[module], isolation="process", **settings
    )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> set[int]:
    """Returns the processes of this process's workers, and of what these have started."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(entry))
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_error_of_its_call(
    write_module: Write, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    body, settings, message = FAULTS[name]
    good = isolated(write_module(DOUBLE), **settings)
    bad = isolated(write_module(source_of(body)), **settings)
    if message:
        with pytest.raises(opgraft.PyOpError, match=message):
            bad.run(None, {"x": floats(3)})
    else:
        assert np.array_equal(bad.run(None, {"x": floats(3)})[0], floats(3) * 2)
    for _ in range(2):
        assert np.array_equal(good.run(None, {"x": floats(3)})[0], floats(3) * 2)


@pytest.mark.parametrize("name", ["exit", "segfault", "kill", "hang", "memory", "fork"])
def test_the_same_in_a_program_without_python(
    write_module: Write, module_folder: Path, tmp_path: Path, name: str
) -> None:
    body, settings, message = FAULTS[name]
    completed = run_isolated(write_module(source_of(body)), module_folder, tmp_path, **settings)
    if not message:
        assert completed.returncode == 0, completed.stderr
        assert np.array_equal(np.load(tmp_path / "y.npy"), floats(3) * 2)
        return
    assert completed.returncode == 1
    assert re.search(message, completed.stderr), completed.stderr


def run_isolated(
    module: str, modules: Path, folder: Path, **settings: object
) -> subprocess.CompletedProcess[str]:
    onnx.save(pyop_model(module), folder / "model.onnx")
    np.save(folder / "x.npy", floats(3))
    text = ";".join(["process", *(f"{name}={value}" for name, value in settings.items())])
    command = [runner_path(), "--onnxruntime", runtime_library(), "--isolate", text]
    command += ["--allow", module, "--input", f"x={folder}/x.npy", "--output", f"y={folder}/y.npy"]
    environment = {**os.environ, "PYTHONPATH": str(modules), "OPGRAFT_PYTHON": HOST_PYTHON}
    return subprocess.run(
        [*command, str(folder / "model.onnx")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip


def test_a_program_needs_no_python_of_its_own(
    write_module: Write, module_folder: Path, tmp_path: Path
) -> None:
    module = write_module("""
        import os
        class Op:
            def compute(self, x):
                maps = open(f"/proc/{os.getppid()}/maps").read()
                assert "libopgraft" in maps
                return np.float32(["libpython" in maps])
    """)
    completed = run_isolated(module, module_folder, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert np.load(tmp_path / "y.npy").tolist() == [0]


def test_a_program_isolates_and_cancels(
    write_module: Write, module_folder: Path, tmp_path: Path
) -> None:
    module = write_module("""
        import time
        class Op:
            def compute(self, x):
                while x[0] == 0:
                    time.sleep(1)
                return x + x
    """)
    onnx.save(pyop_model(module), tmp_path / "model.onnx")
    library = Path(opgraft.library_path()).parent
    compile = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I", opgraft.get_include()]
    compile += [str(Path(__file__).with_name("isolate.cc")), "-o", str(tmp_path / "isolate")]
    compile += [f"-L{library}", f"-Wl,-rpath,{library}", "-lopgraft", "-pthread"]
    subprocess.run(compile, check=True)
    environment = {**os.environ, "PYTHONPATH": str(module_folder), "OPGRAFT_PYTHON": HOST_PYTHON}
    completed = subprocess.run(
        [str(tmp_path / "isolate"), runtime_library(), str(tmp_path / "model.onnx"), module],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    lines = completed.stdout.splitlines()
    assert "'a,b' is not a name" in lines[0]
    assert "no module" in lines[1]
    assert "'workers=0' is not a setting" in lines[2]
    assert lines[3:5] == ["4.000000", "6.000000"]
    assert "opgraft.PyOpError" in lines[5]
    assert "since the call was cancelled" in lines[5]
    assert lines[-1] == "8.000000"


def test_a_call_can_be_cancelled_while_it_runs_and_while_it_waits(write_module: Write) -> None:
    module = write_module(source_of("print('started', flush=True); time.sleep(1000)"))
    session = isolated(module)
    other = isolated(write_module(DOUBLE), workers=2)
    errors: list[str] = []

    def run() -> None:
        try:
            session.run(None, {"x": floats(1)})
        except opgraft.PyOpError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert np.array_equal(other.run(None, {"x": floats(2)})[0], floats(2) * 2)
    before = _pyop.pool_stats()["calls"]
    time.sleep(0.3)
    other.cancel()  # another session's calls stay
    assert not errors
    for _ in range(200):
        if len(errors) == 2:
            break
        session.cancel()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert all("cancelled" in error for error in errors)
    assert _pyop.pool_stats()["calls"] >= before
    assert np.array_equal(other.run(None, {"x": floats(2)})[0], floats(2) * 2)


@pytest.mark.parametrize(("is_pure", "retries"), [(True, 2), (True, 0), (False, 2)])
def test_calls_of_pure_operators_are_repeated(
    write_module: Write, tmp_path: Path, is_pure: bool, retries: int
) -> None:
    module = write_module(f"""
        import os
        class Op:
            pure = {is_pure}
            def compute(self, x):
                tries = len(os.listdir({str(tmp_path)!r}))
                open({str(tmp_path)!r} + f"/{{tries}}.try", "w").close()
                if tries < {len(list(tmp_path.iterdir())) + 2}:
                    os._exit(1)
                return x + x
    """)
    session = isolated(module, retries=retries)
    if is_pure and retries:
        assert np.array_equal(session.run(None, {"x": floats(2)})[0], floats(2) * 2)
        assert len(list(tmp_path.glob("*.try"))) == 3
    else:
        with pytest.raises(opgraft.PyOpError, match="exit status 1"):
            session.run(None, {"x": floats(2)})
        assert len(list(tmp_path.glob("*.try"))) == 1


def test_what_an_operator_has_forked_ends_with_its_worker(write_module: Write) -> None:
    module = write_module("""
        import os, time
        class Op:
            def compute(self, x):
                child = os.fork()
                if child == 0:
                    time.sleep(1000)
                if x[0] != 0:
                    os._exit(1)
                return np.float32([child])
    """)
    session = isolated(module, environment=["A_GROUP_OF_ITS_OWN"])
    child = int(session.run(None, {"x": np.zeros(1, np.float32)})[0][0])
    os.kill(child, 0)
    with pytest.raises(opgraft.PyOpError, match="exit status 1"):
        session.run(None, {"x": np.ones(1, np.float32)})
    for _ in range(200):
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    raise AssertionError("the forked process is still there")


def kill_under_load(write_module: Write, kills: int) -> None:
    """Kills workers at any time, while two threads run operators."""
    pid = write_module("""
        import os, time
        class Op:
            def compute(self, x):
                time.sleep(0.002)
                return np.concatenate([x + x, np.float32([os.getpid()])])
    """)
    settings = {"workers": 2, "environment": ["KILLED_UNDER_LOAD"]}
    sessions = [isolated(pid, **settings) for _ in range(2)]
    wrong: list[object] = []
    failed = [0]
    alive: set[int] = set()
    is_over = threading.Event()

    def load(session: opgraft.InferenceSession) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            x = np.arange(number % 1000, number % 1000 + 50, dtype=np.float32)
            try:
                result = session.run(None, {"x": x})[0]
            except opgraft.PyOpError as error:
                failed[0] += 1
                if "SIGKILL" not in str(error):
                    wrong.append(error)
                continue
            alive.add(int(result[-1]))
            if not np.array_equal(result[:-1], x + x):
                wrong.append(result)

    for session in sessions:
        session.run(None, {"x": floats(1)})
    before = descriptors()
    threads = [threading.Thread(target=load, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    killed: set[int] = set()
    while len(killed) < kills and not wrong:
        for one in list(alive - killed):
            killed.add(one)
            os.kill(one, signal.SIGKILL)
        time.sleep(0.005)
    is_over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert failed[0] <= len(killed) + 2
    for session in sessions:
        assert np.array_equal(session.run(None, {"x": floats(9)})[0][:-1], floats(9) * 2)
    assert descriptors() <= before + 6  # two workers at most, where there was one: six descriptors
    gone = [one for one in killed if Path(f"/proc/{one}").exists()]
    assert not gone  # not even a zombie


def test_kills_under_load_leave_nothing_behind(write_module: Write) -> None:
    kill_under_load(write_module, 50)


@pytest.mark.exhaustive
def test_a_thousand_kills_under_load_leave_nothing_behind(write_module: Write) -> None:
    kill_under_load(write_module, 1000)
