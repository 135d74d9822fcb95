"""Operators in a sandbox that try to get out of it."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

import numpy as np
import pytest

import opgraft
from conftest import DOUBLE, Write, floats, pyop_model


def has_landlock() -> bool:
    """Whether this kernel has Landlock in the version that the sandbox needs."""
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) >= 3


needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel lacks Landlock 3")

#: What an operator tries. Each must raise PermissionError.
ATTEMPTS = {
    "have the kernel signal the host": (
        "import fcntl; fcntl.fcntl(socket.socketpair()[0], fcntl.F_SETOWN, os.getppid())"
    ),
    "type into a terminal": "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')",
    "write a file": "open(f'{folder}/new', 'w')",
    "write over a file": "open(f'{folder}/kept', 'r+')",
    "truncate": "os.truncate(f'{folder}/kept', 0)",
    "remove": "os.remove(f'{folder}/kept')",
    "rename": "os.rename(f'{folder}/kept', f'{folder}/other')",
    "link": "os.link(f'{folder}/kept', f'{folder}/other')",
    "make a folder": "os.mkdir(f'{folder}/new')",
    "make a FIFO": "os.mkfifo(f'{folder}/new')",
    "change the mode": "os.chmod(f'{folder}/kept', 0o777)",
    "change the time": "os.utime(f'{folder}/kept')",
    "change an attribute": "os.setxattr(f'{folder}/kept', 'user.x', b'1')",
    "shared memory": "open('/dev/shm/opgraft_test', 'w')",
    "TCP": "socket.create_connection(('127.0.0.1', port), 1)",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "IPv6": "socket.socket(socket.AF_INET6)",
    "a Unix socket": "socket.socket(socket.AF_UNIX)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "kill the host": "os.kill(os.getppid(), 9)",
    "kill all": "os.kill(-1, 9)",
    "stop the host": "os.kill(os.getppid(), 19)",
    "another group": "os.setpgid(0, os.getpgid(os.getppid()))",
    "another session": "os.setsid()",
    "read the host's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "read the host's environment": "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "take the host's descriptors": "os.open(f'/proc/{os.getppid()}/fd/0', os.O_RDONLY)",
    "write to the host's settings": "open(f'/proc/{os.getppid()}/oom_score_adj', 'w')",
    "change root": "os.chroot('/')",
    "ptrace": "call(101, 16, os.getppid(), 0, 0)",
    "write another's memory": "call(311, os.getppid(), 0, 0, 0, 0, 0)",
    "io_uring": "call(425, 8, 0)",
    "namespaces": "call(272, 0x10000000)",
    "cloned namespaces": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "mount": "call(165, b'none', b'/mnt', b'tmpfs', 0, 0)",
    "the other numbers of calls": "call(0x40000000 + 41, 2, 1, 0)",
    "a child": "subprocess.run(['sh', '-c', f'echo x > {folder}/new'], check=True)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "kept").write_text("kept")
    return folder


@needs_landlock
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are x86-64's")
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_operator_does_not_get_out(write_module: Write, folder: Path, attempt: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        module = write_module(f"""
            import ctypes, os, socket, subprocess
            folder, port = {str(folder)!r}, {server.getsockname()[1]}
            def call(*arguments):
                if ctypes.CDLL(None, use_errno=True).syscall(*arguments) == -1:
                    raise OSError(ctypes.get_errno(), "refused")
            class Op:
                def compute(self, x):
                    try:
                        {ATTEMPTS[attempt]}
                    except PermissionError:
                        return x + x
                    except subprocess.CalledProcessError:
                        return x + x
                    raise RuntimeError("it got out")
        """)
        session = opgraft.InferenceSession(
            pyop_model(module), allow=[module], isolation="process", sandbox=True, timeout=60
        )
        assert np.array_equal(session.run(None, {"x": floats(2)})[0], floats(2) * 2)
    assert [one.name for one in folder.iterdir()] == ["kept"]
    assert (folder / "kept").read_text() == "kept"


@needs_landlock
def test_without_a_sandbox_the_same_attempts_succeed(write_module: Write, tmp_path: Path) -> None:
    """Otherwise the tests above would show nothing."""
    module = write_module(f"""
        import os, socket
        class Op:
            def compute(self, x):
                open({str(tmp_path / "new")!r}, "w").close()
                socket.socket().close()
                open(f"/proc/{{os.getppid()}}/environ", "rb").read()
                os.kill(os.getppid(), 0)
                return x + x
    """)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module], isolation="process")
    session.run(None, {"x": floats(2)})


@needs_landlock
def test_what_is_allowed_works(write_module: Write, tmp_path: Path) -> None:
    (tmp_path / "writable").mkdir()
    (tmp_path / "other").mkdir()
    module = write_module(f"""
        import multiprocessing, os, subprocess, tempfile, threading
        class Op:
            def compute(self, x):
                path = {str(tmp_path / "writable")!r}
                with open(path + "/new", "w") as file:
                    file.write("text")
                os.rename(path + "/new", path + "/renamed")
                open("/dev/null", "w").write("gone")
                assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\\n"
                thread = threading.Thread(target=len, args=((),))
                thread.start()
                thread.join()
                try:
                    open({str(tmp_path / "other" / "new")!r}, "w")
                except PermissionError:
                    return np.linalg.inv(np.eye(300, dtype=x.dtype))[0, :2] + x
        """)
    session = opgraft.InferenceSession(
        pyop_model(module),
        allow=[module],
        isolation="process",
        sandbox=True,
        writable=[tmp_path / "writable"],
    )
    assert session.run(None, {"x": floats(2)})[0].tolist() == [1, 1]
    assert (tmp_path / "writable" / "renamed").read_text() == "text"


def test_a_sandbox_that_cannot_be_made_is_an_error(write_module: Write) -> None:
    module = write_module(DOUBLE)
    settings = {"isolation": "process", "sandbox": True, "writable": ["/no/such/folder"]}
    message = "the writable path '/no/such/folder'" if has_landlock() else "Landlock"
    with pytest.raises(opgraft.UnavailableError, match=message):
        opgraft.InferenceSession(pyop_model(module), allow=[module], **settings)
    with pytest.raises(opgraft.Error, match="Fix: sandbox=True"):
        opgraft.InferenceSession(
            pyop_model(module), allow=[module], isolation="process", writable=["/tmp"]
        )


def test_the_pool_says_what_it_has_done(write_module: Write) -> None:
    module = write_module(DOUBLE)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module], isolation="process")
    before = opgraft.pool_stats()
    session.run(None, {"x": floats(1000)})
    after = opgraft.pool_stats()
    assert after["calls"] == before["calls"] + 1
    assert after["bytes"] == before["bytes"] + 8000
    assert after["workers"] >= 1
    assert after["started"] >= after["restarts"]
    assert after["queued_seconds"] >= before["queued_seconds"]
