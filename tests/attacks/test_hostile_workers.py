"""A worker process that was taken over cannot harm its host: every reply is checked."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

import opgraft
from conftest import DOUBLE, Write, floats, pyop_model

#: A program in the place of Python: it speaks the protocol of src/workers/shared_memory.h, and
#: replies to the third request, the first call, by `attack`.
FAKE = """#!{python}
import ctypes, mmap, os, random, struct, sys, time
memory = mmap.mmap(4, os.fstat(4).st_size)
END = 60000

def put(at, form, *values):
    struct.pack_into("<" + form, memory, at, *values)

def get(at, form):
    return struct.unpack_from("<" + form, memory, at)[0]

def reply(turn, message=b"", offset=8192, size=None):
    if message:
        memory[offset : offset + len(message)] = message
    put(200, "Q", offset)
    put(208, "Q", len(message) if size is None else size)
    put(128, "I", turn)
    ctypes.CDLL(None).syscall(202, ctypes.c_void_p(address + 128), 1, 1, None)

def numbers(*values):
    return b"".join(struct.pack("<Q", one % 2**64) for one in values)

def text(value):
    return numbers(len(value)) + value

address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
reply(1)

def wait(turn):
    while get(64, "I") != turn:
        time.sleep(0.001)

wait(2)
reply(2, numbers(1, 0, 0))  # the operator is made
wait(3)
{attack}
time.sleep(100)
"""

#: kDone is 1, kError 2, kQuestion 3; of a tensor: form 1, its shape, its offset.
ATTACKS = {
    "no reply": "reply(3, b'')",
    "a size that is huge": "reply(3, b'x', size=2**63)",
    "a size that wraps": "reply(3, b'x', offset=8192, size=2**64 - 8000)",
    "an offset outside": "put(200, 'Q', 2**40); put(208, 'Q', 8); put(128, 'I', 3)",
    "an unknown kind": "reply(3, numbers(77))",
    "no outputs": "reply(3, numbers(1, 0))",
    "too many outputs": "reply(3, numbers(1, 2**62))",
    "a tensor outside": "reply(3, numbers(1, 1, 1, 1, 3, 2**40))",
    "a tensor that ends outside": "reply(3, numbers(1, 1, 1, 1, 10**6, 8192))",
    "a negative size": "reply(3, numbers(1, 1, 1, 1, -3, 8192))",
    "sizes that overflow": "reply(3, numbers(1, 1, 1, 2, 2**40, 2**40, 8192))",
    "a rank that is huge": "reply(3, numbers(1, 1, 1, 2**61, 1))",
    "a rank that is large": "reply(3, numbers(1, 1, 1, 200) + numbers(*[1] * 200, 8192))",
    "texts for a tensor": "reply(3, numbers(1, 1, 2, 1, 1, 1) + text(b'x'))",
    "an unknown form": "reply(3, numbers(1, 1, 9, 1, 3, 8192))",
    "a question about no output": "reply(3, numbers(3, 5))",
    "an error without a kind": "reply(3, numbers(2, 0) + text(b'x') + text(b''))",
    "an error of no kind": "reply(3, numbers(2, 99) + text(b'x') + text(b''))",
    "a text that ends outside": "reply(3, numbers(2, 2, 2**40))",
    "an endless text": "memory.resize(2**20); reply(3, numbers(2, 2, 2**19) + b'x' * 2**19)",
    "memory that shrinks": "os.ftruncate(4, 4096)\n",
    "no tensor where one is wanted": "reply(3, numbers(1, 1, 0))",
    "a size full of holes": "os.ftruncate(4, 2**45); reply(3, b'x', size=2**44)",
    "no more memory": "os.ftruncate(4, 2**60); reply(3, numbers(1, 1, 1, 1, 3, 2**50))",
}


WELL_FORMED = (
    "memory[16384:16396] = struct.pack('<3f', 7, 8, 9); reply(3, numbers(1, 1, 1, 1, 3, 16384))"
)


def open_session(attack: str, folder: Path, module: str) -> opgraft.InferenceSession:
    command = folder / "fake_python"
    command.write_text(FAKE.format(python=sys.executable, attack=attack))
    command.chmod(0o755)
    return opgraft.InferenceSession(
        pyop_model(module), allow=[module], isolation="process", python=command, timeout=20
    )


def call(attack: str, folder: Path, module: str) -> np.ndarray:
    return open_session(attack, folder, module).run(None, {"x": floats(3)})[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_malformed_reply_is_an_error(write_module: Write, tmp_path: Path, attack: str) -> None:
    with pytest.raises(opgraft.PyOpError, match=r"node 'node'.*its worker process"):
        call(ATTACKS[attack], tmp_path, write_module(DOUBLE))


def test_the_host_lives_on_after_a_huge_reply(write_module: Write, tmp_path: Path) -> None:
    """Its call is over: neither cancelling nor the end of the session touches it."""
    holes = "os.ftruncate(4, 2**45); reply({turn}, b'x', size=2**44)"
    module = write_module(DOUBLE)
    for attack in (holes.format(turn=3), f"{WELL_FORMED}; wait(4); {holes.format(turn=4)}"):
        session = open_session(attack, tmp_path, module)
        with contextlib.suppress(opgraft.PyOpError):
            session.run(None, {"x": floats(3)})
        session.cancel()
        del session


def test_a_worker_cannot_keep_its_memory_from_growing(write_module: Write) -> None:
    module = write_module("""
        import fcntl
        class Op:
            def compute(self, x):
                try:
                    fcntl.fcntl(4, 1033, 4)  # F_ADD_SEALS, F_SEAL_GROW
                except PermissionError:
                    pass
                return x + x
    """)
    session = opgraft.InferenceSession(pyop_model(module), allow=[module], isolation="process")
    for size in (3, 10**6):
        assert session.run(None, {"x": floats(size)})[0].shape == (size,)


def test_a_well_formed_reply_is_taken(write_module: Write, tmp_path: Path) -> None:
    """Without it, the others could fail for any reason."""
    assert call(WELL_FORMED, tmp_path, write_module(DOUBLE)).tolist() == [7, 8, 9]


@pytest.mark.parametrize("exception", ["not json", "[1]", "{}", '{"classes": [["os", "system"]]}'])
def test_an_exception_that_is_none(write_module: Write, tmp_path: Path, exception: str) -> None:
    attack = f"reply(3, numbers(2, 2) + text(b'said so \\xff') + text({exception.encode()!r}))"
    with pytest.raises(opgraft.PyOpError, match="said so") as caught:
        call(attack, tmp_path, write_module(DOUBLE))
    assert caught.value.__cause__ is None


def test_an_exception_runs_no_code_of_the_workers_choice(
    write_module: Write, tmp_path: Path
) -> None:
    described = (
        '{"classes": [["subprocess", "Popen"], ["builtins", "exec"], ["builtins", "OSError"]], '
        '"args": ["a"], "linked": {}, "notes": [], "text": "a", "suppress": false}'
    )
    attack = f"reply(3, numbers(2, 2) + text(b'x') + text({described.encode()!r}))"
    with pytest.raises(opgraft.PyOpError) as caught:
        call(attack, tmp_path, write_module(DOUBLE))
    assert type(caught.value.__cause__) is OSError


def test_replies_of_random_numbers(write_module: Write, tmp_path: Path) -> None:
    """Every one of them is an error, or three floats."""
    attack = """
turn = 3
source = random.Random({seed})
while True:
    likely = [0, 1, 1, 1, 2, 3, 8192, 2**32, 2**63, 2**64 - 1]
    reply(turn, numbers(*[source.choice(likely) for _ in range(source.randrange(12))]))
    turn += 1
    wait(turn)
"""
    module = write_module(DOUBLE)
    for seed in range(8):
        with contextlib.suppress(opgraft.Error):
            assert call(attack.format(seed=seed), tmp_path, module).dtype == np.float32
