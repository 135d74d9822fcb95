"""ATen nodes beside OpgraftCUDA where there is no GPU: who takes them, and what the host reads.

The driver is the fake one, whose memory faults when the CPU touches it. torch is one for the CPU;
where a part for CUDA lies beside it, that is a stub which can do nothing but stand there.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fake_gpu import PROVIDERS, FakeGpu, build_driver, needs_plugins

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_models import Case, of_call  # noqa: E402
from pack_building import ENVIRONMENT, find_compiler  # noqa: E402

pytestmark = [
    needs_plugins,
    pytest.mark.skipif(torch.version.cuda is not None, reason="this torch is built with CUDA"),
]
A = torch.ops.aten
X = torch.linspace(-2, 3, 12).reshape(3, 4)
STUB = """
extern "C" {
int aoti_torch_create_cuda_stream_guard(void*, int, void** guard) { *guard = guard; return 0; }
int aoti_torch_delete_cuda_stream_guard(void*) { return 0; }
}
"""
# No torch is imported here: the one that OPGRAFT_LIBTORCH names is loaded.
RUN = """
import pickle, sys
from pathlib import Path
import opgraft
def run(model, feeds):
    session = opgraft.InferenceSession(model, providers=["OpgraftCUDA", "CPUExecutionProvider"])
    for feed in feeds:
        try:
            yield session.run(None, feed)
        except opgraft.Error as error:
            yield f"{type(error).__name__}: {error}"
def attempt(model, feeds):
    try:
        return list(run(model, feeds))
    except opgraft.Error as error:
        return f"{type(error).__name__}: {error}"
results = [attempt(*one) for one in pickle.loads(Path(sys.argv[1]).read_bytes())]
assert "torch" not in sys.modules
Path(sys.argv[2]).write_bytes(pickle.dumps(results))
"""


def check(case: Case, got: Any) -> None:
    assert len(got) == len(case.expected)
    for one, expected in zip(got, case.expected, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6)


def beside_torch(tmp_path: Path) -> Path:
    """A folder that holds all libraries of torch, by links."""
    folder = tmp_path / "lib"
    folder.mkdir()
    for library in (Path(torch.__file__).parent / "lib").iterdir():
        (folder / library.name).symlink_to(library)
    return folder


@pytest.fixture(scope="module")
def with_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder, with a part for CUDA in it."""
    made = tmp_path_factory.mktemp("torch")
    folder = beside_torch(made)
    source = made / "stub.cc"
    source.write_text(STUB)
    command = [find_compiler("g++"), "-shared", "-fPIC", str(source)]
    subprocess.run([*command, "-o", str(folder / "libtorch_cuda.so")], check=True, env=ENVIRONMENT)
    return folder


def run_in(folder: Path, tmp_path: Path, cases: list[Any], **more: str) -> list[Any]:
    """What each model gives for each of its feeds, with that torch: arrays or words."""
    given, got = tmp_path / "given", tmp_path / "got"
    given.write_bytes(
        pickle.dumps(
            [
                (one.model.SerializeToString(), [one.feed, one.feed])
                if isinstance(one, Case)
                else (one[0].model.SerializeToString(), one[1])
                for one in cases
            ]
        )
    )
    environment = {
        **os.environ,
        "OPGRAFT_LIBTORCH": str(folder),
        "OPGRAFT_CUDA_DRIVER": str(build_driver()),
        **more,
    }
    command = [sys.executable, "-c", RUN, str(given), str(got)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return pickle.loads(got.read_bytes())  # type: ignore[no-any-return]


def test_with_a_torch_for_the_cpu_the_node_stays_there(fake_gpu: FakeGpu) -> None:
    case = of_call(A.relu.default, [X])
    session = opgraft.InferenceSession(case.model, providers=PROVIDERS)
    before = fake_gpu.counts()
    check(case, session.run(None, case.feed))
    assert fake_gpu.counts()["to_device"] == before["to_device"]


def test_the_runtime_copies_between_it_and_nodes_on_the_gpu(fake_gpu: FakeGpu) -> None:
    case = of_call(A.relu.default, [X])
    graph = case.model.graph
    graph.node[0].input[0], graph.node[0].output[0] = "a", "b"
    twice = {"domain": "test.cuda"}
    nodes = [
        onnx.helper.make_node("Twice", ["x0"], ["a"], **twice),
        graph.node[0],
        onnx.helper.make_node("Twice", ["b"], ["y0"], **twice),
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    case.model.opset_import.append(onnx.helper.make_opsetid("test.cuda", 1))
    session = opgraft.InferenceSession(case.model, providers=PROVIDERS)
    before = fake_gpu.counts()
    got = session.run(None, case.feed)[0]
    np.testing.assert_array_equal(got, case.expected[0] * 4)
    after = fake_gpu.counts()
    assert (after["to_device"] - before["to_device"], after["to_host"] - before["to_host"]) == (
        2,
        2,
    )


def test_a_part_for_cuda_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = beside_torch(tmp_path)
    (folder / "libtorch_cuda.so").write_text("no library")
    (got,) = run_in(folder, tmp_path, [of_call(A.relu.default, [X])])
    assert "UnavailableError: node 'it', operator aten::relu: cannot load " in got
    assert "make the session without OpgraftCUDA" in got


def test_a_part_that_is_none(tmp_path: Path) -> None:
    folder = beside_torch(tmp_path)
    (folder / "libtorch_cuda.so").symlink_to(Path(torch.__file__).parent / "lib" / "libc10.so")
    (got,) = run_in(folder, tmp_path, [of_call(A.relu.default, [X])])
    assert "it has no aoti_torch_create_cuda_stream_guard" in got


def test_without_a_kernel_for_cuda_it_runs_on_copies(with_stub: Path, tmp_path: Path) -> None:
    cases = [
        of_call(A.histogram.bin_ct, [X.ravel()], {"bins": 3}),
        of_call(A.binary_cross_entropy.default, [X.sigmoid(), torch.rand(3, 4)]),
        of_call(A.fractional_max_pool2d.default, [X[None], [2, 2], [2, 2], torch.rand(1, 1, 2)]),
        of_call(A.binary_cross_entropy.default, [X[:0].sigmoid(), X[:0], None, 0]),
        of_call(A.segment_reduce.default, [X, "sum"], {"lengths": torch.tensor([1, 2]), "axis": 0}),
        of_call(A.empty_like.default, [X]),
    ]
    cases[-1].expected = [np.zeros((3, 4), np.float32)]  # what is uninitialized is zeros
    # Each piece of work takes a while: who does not wait for it reads too early.
    results = run_in(with_stub, tmp_path, cases, FAKE_CUDA_DELAY="2000")
    for case, got in zip(cases, results, strict=True):
        for one in got:
            assert not isinstance(one, str), one
            check(case, one)


INDICES: dict[str, tuple[Any, list[Any], int]] = {
    "index_select": (A.index_select.default, [X, 1, torch.tensor([0, 3])], 4),
    "embedding": (A.embedding.default, [X, torch.tensor([[0, 2]])], 3),
    "gather": (A.gather.default, [X, 0, torch.tensor([[0, 2]])], 3),
    "scatter": (A.scatter.src, [X, 0, torch.tensor([[0, 2]]), X], 3),
    "take": (A.take.default, [X, torch.tensor([0, 11])], 12),
    "index": (A.index.Tensor, [X, [None, torch.tensor([0, 3])]], 4),
    "index_put": (A.index_put.default, [X, [torch.tensor([0, 2])], torch.zeros(4)], 3),
    "cross_entropy": (A.cross_entropy_loss.default, [X, torch.tensor([0, 1, 3])], 4),
    "one_hot": (A.one_hot.default, [torch.tensor([0, 2]), 3], 3),
}


def refused(name: str) -> tuple[Case, list[Any]]:
    """A case of these, with two feeds that have an index beyond, and with a right one."""
    overload, arguments, beyond = INDICES[name]
    case = of_call(overload, arguments)
    feeds = []
    for number in (beyond, -1_000_000):
        feed = {key: value.copy() for key, value in case.feed.items()}
        index = next(key for key, value in feed.items() if value.dtype == np.int64)
        feed[index].flat[-1] = number
        feeds.append(feed)
    return case, [*feeds, case.feed]


def test_indices_beyond_are_refused_before_libtorch_is_called(
    with_stub: Path, tmp_path: Path
) -> None:
    weights = of_call(A.multinomial.default, [torch.rand(2, 3), 1])
    none = {"x0": np.array([[0, 0, 0], [1, 1, 1]], np.float32)}
    cases = [*(refused(name) for name in INDICES), (weights, [none])]
    results = run_in(with_stub, tmp_path, cases, FAKE_CUDA_DELAY="1000")
    assert "expected weights with at least one above 0 in each row" in results.pop()[0]
    for name, (first, second, last) in zip(INDICES, results, strict=True):
        for got in (first, second):
            assert got.startswith("Error: node 'it', operator aten::"), (name, got)
            assert "expected " in got and " from " in got, (name, got)
        # What is right comes to libtorch, which has no CUDA here; an error like any other.
        assert "expected " not in last and "node 'it'" in last, (name, last)
