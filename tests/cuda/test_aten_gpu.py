"""ATen nodes on a real GPU, against eager torch on it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import PROVIDERS

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_models import Case, _flat, of_call, to_numpy  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch sees no GPU here (torch.cuda.is_available())"
)
A = torch.ops.aten
REPOSITORY = Path(__file__).resolve().parents[2]
torch.manual_seed(0)


def _shared_calls() -> dict[str, tuple[Any, ...]]:
    """The calls that the tests of the CPU make."""
    path = REPOSITORY / "tests" / "torch" / "test_aten_nodes.py"
    spec = importlib.util.spec_from_file_location("calls_of_the_cpu", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CALLS  # type: ignore[no-any-return]


def x(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


LSTM = torch.nn.LSTM(3, 4)
WEIGHTS = [one.detach() for one in LSTM.parameters()]
STATES = [torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)]
CALLS: dict[str, tuple[Any, ...]] = {
    **_shared_calls(),
    "relu": (A.relu.default, [x(4, 5)]),
    "matmul": (A.matmul.default, [x(64, 32), x(32, 16)]),
    "bmm": (A.bmm.default, [x(3, 8, 4), x(3, 4, 5)]),
    "inverse": (A.linalg_inv.default, [torch.eye(16) * 3 + x(16, 16) * 0.1]),
    "sum": (A.sum.dim_IntList, [x(30, 40), [1], True]),
    "mean": (A.mean.default, [x(1000)]),
    "sort": (A.sort.default, [x(7, 9), 1, True]),
    "topk": (A.topk.default, [x(7, 9), 3]),
    "cumsum": (A.cumsum.default, [x(5, 100), 1]),
    "half": (A._softmax.default, [x(4, 5).half(), 1, False]),
    "stack": (A.stack.default, [[x(3), x(3), x(3)], 1]),
    "eye": (A.eye.default, [4]),
    "index_select": (A.index_select.default, [x(3, 4), 1, torch.tensor([3, 0, 0])]),
    "embedding": (A.embedding.default, [x(10, 4), torch.tensor([[9, 0], [3, 3]])]),
    "gather": (A.gather.default, [x(3, 4), 1, torch.tensor([[0], [3], [1]])]),
    "scatter_add": (A.scatter_add.default, [x(4), 0, torch.tensor([0, 3]), x(2)]),
    "cross_entropy": (A.cross_entropy_loss.default, [x(3, 4), torch.tensor([0, -100, 3])]),
    "one_hot": (A.one_hot.default, [torch.tensor([0, 2]), 4]),
    "masks": (A.index.Tensor, [x(3, 4), [torch.tensor([True, False, True])]]),
    "nonzero": (A.nonzero.default, [torch.tensor([0.0, 1.0, 2.0])]),
    "repeats": (A.repeat_interleave.self_Tensor, [x(3), torch.tensor([2, 0, 1])]),
    "lerp": (A.lerp.Scalar, [x(3), x(3), 0.3]),
    "both limits": (A.clamp.default, [x(30), -0.5, 0.5]),
    "isin": (A.isin.Tensor_Scalar, [torch.tensor([1, 2, 3]), 2]),
    "bucketize": (A.bucketize.Scalar, [0.5, torch.tensor([0.0, 1.0])]),
    "mul": (A.mul.Scalar, [x(5), 0.3]),
    "sum of a list": (A.tensor_split.tensor_indices_or_sections, [x(6), torch.tensor([1, 3])]),
    "layers": (
        A.lstm.input,
        [x(5, 2, 3), STATES, WEIGHTS, True, 1, 0.0, False, False, False],
    ),
    "packed layers": (
        A.lstm.data,
        [x(5, 3), torch.tensor([2, 2, 1]), STATES, WEIGHTS, True, 1, 0.0, False, False],
    ),
    # without a kernel for CUDA, or with one that believes its arguments
    "histogram": (A.histogram.bin_ct, [x(100)], {"bins": 10}),
    "binary_cross_entropy": (A.binary_cross_entropy.default, [torch.rand(9), torch.rand(9)]),
}


def on_gpu(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [on_gpu(item) for item in value]
    if isinstance(value, torch.device):
        return torch.device("cuda")
    return value.cuda() if isinstance(value, torch.Tensor) else value


def eager(overload: Any, args: Any = (), kwargs: Any = None) -> list[np.ndarray]:
    """What torch gives on the GPU; where it cannot, on the CPU."""
    kwargs = dict(kwargs or {})
    try:
        names = {one.name for one in overload._schema.arguments}
        has_tensors = any(isinstance(one, (torch.Tensor, list, tuple)) for one in args)
        if "device" in names and not has_tensors:
            kwargs["device"] = torch.device("cuda")
        given = overload(*on_gpu(args), **{name: on_gpu(one) for name, one in kwargs.items()})
    except (RuntimeError, NotImplementedError):
        kwargs.pop("device", None)
        given = overload(*args, **kwargs)
    return [to_numpy(one.cpu() if isinstance(one, torch.Tensor) else one) for one in _flat(given)]


def session(case: Case, **how: Any) -> opgraft.InferenceSession:
    made = opgraft.InferenceSession(case.model, providers=PROVIDERS, **how)
    assert made.get_providers() == PROVIDERS
    return made


def compare(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        array = to_numpy(one.cpu()) if isinstance(one, torch.Tensor) else one
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name: str) -> None:
    case = of_call(*CALLS[name])
    expected = eager(*CALLS[name])
    made = session(case)
    compare(made.run(None, case.feed), expected)
    compare(made.run(None, case.feed), expected)
    if not case.feed:
        return
    tensors = {name: torch.from_numpy(value).cuda() for name, value in case.feed.items()}
    got = made.run(None, tensors)
    assert all(one.is_cuda for one in got)
    compare(got, expected)


def test_it_runs_in_the_part_for_cuda() -> None:
    """Results come from the allocator of torch's CUDA, and nothing else here asks it."""
    case = of_call(A.relu.default, [x(4, 5)])
    made = session(case)
    made.run(None, case.feed)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    made.run(None, case.feed)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] > before


def test_two_nodes_in_a_row() -> None:
    """What is between them is of torch's making, and of the runtime's memory."""
    case = of_call(A.relu.default, [x(4, 5)])
    second = type(case.model.graph.node[0])()
    second.CopyFrom(case.model.graph.node[0])
    case.model.graph.node[0].output[0] = "between"
    second.input[0], second.name = "between", "second"
    case.model.graph.node.append(second)
    made = session(case)
    for _ in range(10):
        compare(made.run(None, {"x0": torch.from_numpy(case.feed["x0"]).cuda()}), case.expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_floats(dtype: Any) -> None:
    case = of_call(A.matmul.default, [x(8, 8).half(), x(8, 8).half()])
    if dtype is torch.bfloat16:  # which NumPy does not have
        for value in (*case.model.graph.input, *case.model.graph.output):
            value.type.tensor_type.elem_type = 16
        results = next(one for one in case.model.graph.node[0].attribute if one.name == "results")
        results.s = results.s.replace(b"float16", b"bfloat16")
    left, right = (x(8, 8).cuda().to(dtype) for _ in range(2))
    (got,) = session(case).run(None, {"x0": left, "x1": right})
    assert got.dtype == dtype
    torch.testing.assert_close(got, left @ right)


def test_numbers_that_are_inputs() -> None:
    for call in (
        (A.split.Tensor, [x(5, 2), 2, 0], {}, [1, 2]),
        (A.roll.default, [x(3, 4), [1, 2], [0, 1]], {}, [1]),
        (A.quantile.scalar, [x(7), 0.3], {}, [1]),
        (A.zeros.default, [[2, 3]], {}, [0]),
    ):
        overload, args, kwargs, numbers = call
        case = of_call(overload, args, kwargs, numbers=numbers)
        compare(session(case).run(None, case.feed), case.expected)


BAD_INDICES: dict[str, tuple[Any, list[Any], int]] = {
    "index_select": (A.index_select.default, [x(3, 4), 1, torch.tensor([0, 3])], 4),
    "embedding": (A.embedding.default, [x(3, 4), torch.tensor([[0, 2]])], 3),
    "gather": (A.gather.default, [x(3, 4), 0, torch.tensor([[0, 2]])], 3),
    "scatter": (A.scatter.src, [x(3, 4), 0, torch.tensor([[0, 2]]), x(3, 4)], 3),
    "take": (A.take.default, [x(3, 4), torch.tensor([0, 11])], 12),
    "index": (A.index.Tensor, [x(3, 4), [None, torch.tensor([0, 3])]], 4),
    "index_put": (A.index_put.default, [x(3, 4), [torch.tensor([0, 2])], torch.zeros(4)], 3),
    "nll_loss": (A.nll_loss.default, [x(3, 4), torch.tensor([0, 1, 3])], 4),
    "cross_entropy": (A.cross_entropy_loss.default, [x(3, 4), torch.tensor([0, 1, 3])], 4),
    "one_hot": (A.one_hot.default, [torch.tensor([0, 2]), 3], 3),
    "repeats": (A.repeat_interleave.self_Tensor, [x(3), torch.tensor([2, 0, 1])], -1),
}


@pytest.mark.parametrize("name", BAD_INDICES)
def test_a_bad_index_is_an_error_and_cuda_lives_on(name: str) -> None:
    overload, args, beyond = BAD_INDICES[name]
    case = of_call(overload, args)
    made = session(case)
    good = {name: torch.from_numpy(value).cuda() for name, value in case.feed.items()}
    index = next(key for key, value in good.items() if value.dtype == torch.int64)
    bad = {**good, index: good[index].clone()}
    bad[index].view(-1)[-1] = beyond
    with pytest.raises(opgraft.Error, match=r"node 'it', operator aten::.*expected "):
        made.run(None, bad)
    torch.cuda.synchronize()
    compare(made.run(None, good), case.expected)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [float("nan"), 1.0]])
def test_bad_weights_are_an_error_and_cuda_lives_on(weights: list[float]) -> None:
    case = of_call(A.multinomial.default, [torch.rand(2), 1, True])
    made = session(case)
    with pytest.raises(opgraft.Error, match="expected .*weights"):
        made.run(None, {"x0": torch.tensor(weights).cuda()})
    torch.cuda.synchronize()
    assert made.run(None, {"x0": np.array([0, 1], np.float32)})[0].tolist() == [1]


def test_a_wrong_shape_is_an_error_and_the_session_lives_on() -> None:
    case = of_call(A.matmul.default, [x(2, 3), x(3, 2)], is_typed=False)
    made = session(case)
    with pytest.raises(opgraft.Error, match=r"node 'it', operator aten::matmul, on the GPU"):
        made.run(None, {**case.feed, "x1": np.zeros((4, 2), np.float32)})
    compare(made.run(None, case.feed), case.expected)


def test_out_of_memory_is_an_error_and_the_session_lives_on() -> None:
    case = of_call(A.zeros.default, [[2, 3]], numbers=[0], is_typed=False)
    attributes = case.model.graph.node[0].attribute
    next(one for one in attributes if one.name == "results").s = b"float32[...]"
    made = session(case)
    huge = {name: np.array(2**20) for name in case.feed}
    with pytest.raises(opgraft.Error, match="node 'it', operator aten::zeros"):
        made.run(None, huge)
    compare(made.run(None, case.feed), case.expected)


def test_random_operators_follow_the_seed_of_the_gpu() -> None:
    case = of_call(A.rand.default, [[1000]])
    made = session(case)
    torch.cuda.manual_seed(5)
    expected = torch.rand(1000, device="cuda").cpu().numpy()
    torch.cuda.manual_seed(5)
    np.testing.assert_array_equal(made.run(None, {})[0], expected)
    assert (made.run(None, {})[0] != expected).any()
    chances = of_call(A.bernoulli.default, [torch.rand(1000)])
    torch.cuda.manual_seed(5)
    expected = torch.from_numpy(chances.feed["x0"]).cuda().bernoulli().cpu().numpy()
    torch.cuda.manual_seed(5)
    np.testing.assert_array_equal(session(chances).run(None, chances.feed)[0], expected)


def busy() -> torch.Tensor:
    """Work that takes long enough for whoever does not wait for it to come too early."""
    big = torch.ones(8192, 8192, device="cuda")
    for _ in range(20):
        big = (big @ big).clamp_(0, 1)
    return big


@pytest.mark.parametrize("is_default", [True, False])
@pytest.mark.parametrize("name", ["relu", "embedding", "histogram"])
def test_a_run_is_ordered_with_torchs_stream(name: str, is_default: bool) -> None:
    """Its inputs are made, and its outputs read, by work on torch's current stream."""
    case = of_call(*CALLS[name])
    expected = eager(*CALLS[name])
    made = session(case)
    real = {key: torch.from_numpy(value).cuda() for key, value in case.feed.items()}
    torch.cuda.synchronize()
    stream = torch.cuda.default_stream() if is_default else torch.cuda.Stream()
    for _ in range(3):
        with torch.cuda.stream(stream):
            late = {key: torch.zeros_like(value) for key, value in real.items()}
            kept = busy()
            for key, value in late.items():
                value.copy_(real[key])
            got = [one.clone() for one in made.run(None, late)]
            for value in late.values():
                value.zero_()  # after the run, by the stream's order
        stream.synchronize()
        compare(got, expected)
        del kept


def test_threads_with_streams_of_their_own() -> None:
    case = of_call(A.matmul.default, [x(64, 64), x(64, 64)])
    made = session(case)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(30):
                left = torch.rand(64, 64, device="cuda", generator=generator)
                (got,) = made.run(None, {"x0": left, "x1": left})
                if not torch.allclose(got, left @ left, rtol=1e-3):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_importing_torch(tmp_path: Path) -> None:
    """libtorch's libraries are loaded by Opgraft; with NumPy in and out."""
    case = of_call(A.matmul.default, [x(8, 8), x(8, 8)])
    (tmp_path / "model.onnx").write_bytes(case.model.SerializeToString())
    np.savez(tmp_path / "feed.npz", **case.feed)
    script = f"""
        import sys
        import numpy as np, opgraft
        session = opgraft.InferenceSession(r"{tmp_path}/model.onnx", providers={PROVIDERS!r})
        feed = dict(np.load(r"{tmp_path}/feed.npz"))
        np.save(r"{tmp_path}/got.npy", session.run(None, feed)[0])
        assert "torch" not in sys.modules
        assert "libtorch_cuda.so" in open("/proc/self/maps").read()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    compare([np.load(tmp_path / "got.npy")], case.expected)


def test_the_list_of_operators_without_a_kernel_for_cuda() -> None:
    """What src/aten/gpu_rules.cc runs on the host has all that this torch cannot run on the GPU."""
    rules = (REPOSITORY / "src" / "aten" / "gpu_rules.cc").read_text()
    listed = re.search(r"kOnHost\[\] = \{(.*?)\};", rules, re.DOTALL)
    assert listed is not None
    on_host = set(re.findall(r'"(\w+)"', listed[1]))
    lines = (REPOSITORY / "src" / "aten" / "operators.inc").read_text()
    names = re.findall(r'^"[ 0]([\w.]+)\(', lines, re.MULTILINE)
    known = set(torch._C._dispatch_get_all_op_names())
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    missing = {
        name
        for name in names
        if f"aten::{name}" in known and not has_kernel(f"aten::{name}", "CUDA")
    }
    assert {name.partition(".")[0] for name in missing} <= on_host, missing
