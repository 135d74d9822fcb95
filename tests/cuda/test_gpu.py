"""Sessions with OpgraftCUDA on a real GPU, with torch: streams, tensors, graphs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnxruntime
import pytest
from gpu_models import PROVIDERS, bind, model, needs_gpu, session
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

import opgraft

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = needs_gpu
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LATE = 3_000_000  # cycles, more than a millisecond
THREE = "a = test.cuda.Twice(x) b = test.cuda.Twice(a) y = test.cuda.Twice(b)"


def is_all(tensor: Any, value: float) -> bool:
    return bool((tensor == value).all())


def test_numpy_in_and_out() -> None:
    np.testing.assert_array_equal(session(THREE).run(None, {"x": X})[0], X * 8)


def test_nodes_of_both_take_turns() -> None:
    one = session("a = test.cuda.Twice(x) b = Add(a, x) y = test.cuda.Twice(b)")
    for _ in range(20):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 6)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int64", "int32", "bool", "float16", "bfloat16"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_types_and_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    kind = f"{name}[{','.join(map(str, shape))}]" if shape else name
    one = session("y = test.cuda.Copy(x)", f"{kind} x", f"{kind} y")
    x = (torch.arange(int(np.prod(shape)), device="cuda") % 3).to(getattr(torch, dtype))
    x = x.reshape(shape)
    (y,) = one.run(None, {"x": x})
    assert (y.dtype, y.device, y.shape) == (x.dtype, x.device, x.shape)
    assert torch.equal(y, x)


def test_tensors_are_not_copied() -> None:
    """The run fails where it needs memory for more than its output."""
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    torch.cuda.empty_cache()
    x = torch.ones(1 << 30, device="cuda")  # 4 GiB
    one.run(None, {"x": x[:1]})
    free, _ = torch.cuda.mem_get_info()
    kept = torch.empty(free - (5 << 30), dtype=torch.uint8, device="cuda")
    (y,) = one.run(None, {"x": x})  # 4 of the 5 GiB that are left
    assert is_all(y[:1000], 2)
    with pytest.raises(opgraft.Error, match="output 0: CUDA cannot allocate .*out of memory"):
        one.run(None, {"x": x})
    del y, kept
    np.testing.assert_array_equal(one.run(None, {"x": X[0]})[0], X[0] * 2)


def test_several_layouts() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n, m] x", "float[n, m] y")
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    for view in (x.T, x[:, ::2], x[1:], x.requires_grad_()):
        (y,) = one.run(None, {"x": view})
        assert torch.equal(y, view.detach() * 2)


def test_tensors_and_arrays_together() -> None:
    one = session("y = test.cuda.AddNumber(x, k)", "float[n, m] x, int64[1] k", "float[n, m] y")
    x = torch.ones((2, 3), device="cuda")
    for k in (np.array([5]), torch.tensor([5]), torch.tensor([5], device="cuda")):
        (y,) = one.run(None, {"x": x, "k": k})
        assert is_all(y, 6)


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    one = session(THREE)
    x = cupy.asarray(X)
    with cupy.cuda.Stream(non_blocking=True):
        (y,) = one.run(None, {"x": x})
        assert isinstance(y, cupy.ndarray)
        np.testing.assert_array_equal(cupy.asnumpy(y), X * 8)


# Streams. Each would fail were the run on another stream: see the last one.


@pytest.mark.parametrize("side", [False, True])
def test_work_before_and_reads_after(side: bool) -> None:
    one = session(THREE, "float[n] x", "float[n] y")
    stream = torch.cuda.Stream() if side else torch.cuda.default_stream()
    for i in range(30):
        with torch.cuda.stream(stream):
            x = torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(LATE)
            x.fill_(i)
            (y,) = one.run(None, {"x": x})
            read = y + 0
            x.fill_(-1)
            del y
        stream.synchronize()
        assert is_all(read, 8 * i)


def test_inputs_of_the_cpu_wait_for_the_stream() -> None:
    """The runtime copies them when they are bound, before the run begins."""
    one = session("a = Add(x, x) y = test.cuda.Twice(a)", "float[n] x", "float[n] y")
    side = torch.cuda.Stream()
    for i in range(1, 10):
        with torch.cuda.stream(side):
            x = torch.zeros(1 << 16, device="cuda")
            torch.cuda._sleep(LATE)
            x.fill_(i)
            (y,) = one.run(None, {"x": x})
            assert is_all(y, 4 * i)


def test_what_is_not_contiguous_is_copied_on_the_stream_that_is_named() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n, m] x", "float[n, m] y")
    side = torch.cuda.Stream()
    for i in range(1, 10):
        with torch.cuda.stream(side):
            x = torch.zeros((1000, 500), device="cuda")
            torch.cuda._sleep(LATE)
            x.fill_(i)
        (y,) = one.run(None, {"x": x.t()}, stream=side)
        side.synchronize()
        assert is_all(y, 2 * i)


def test_memory_that_torch_has_pinned() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    stream = torch.cuda.Stream()
    pinned = torch.empty(1 << 22, pin_memory=True)
    for i in range(5):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LATE)
        pinned.fill_(i)
        binding = one.io_binding()
        binding.bind_cpu_input("x", pinned.numpy())
        y = torch.zeros(1 << 22, device="cuda")
        value = runtime.OrtValue.from_dlpack(torch.utils.dlpack.to_dlpack(y), False)
        binding._iobinding.bind_ortvalue_output("y", value)
        one.run_with_iobinding(binding, stream=stream)
        pinned.fill_(-1)
        stream.synchronize()
        assert is_all(y, 2 * i)


def test_a_stream_that_the_caller_names() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(LATE)
        x.fill_(1)
    (y,) = one.run(None, {"x": x}, stream=stream)
    stream.synchronize()
    assert is_all(y, 2)
    for name in (stream, stream.cuda_stream):
        (y,) = one.run(None, {"x": x}, stream=name)
    stream.synchronize()
    assert is_all(y, 2)


def test_runs_on_two_streams_at_once() -> None:
    one = session(THREE, "float[n] x", "float[n] y")
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = []
    for i in range(60):
        with torch.cuda.stream(streams[i % 2]):
            x = torch.full((1 << 20,), float(i), device="cuda")
            torch.cuda._sleep(LATE // 3)
            (y,) = one.run(None, {"x": x})
            results.append(y + 0)
            del y
    torch.cuda.synchronize()
    assert all(is_all(result, 8 * i) for i, result in enumerate(results))


def test_memory_that_is_given_back_is_read_to_the_end() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    stream = torch.cuda.Stream()
    results = []
    for i in range(20):
        with torch.cuda.stream(stream):
            x = torch.full((1 << 20,), float(i), device="cuda")
            (y,) = one.run(None, {"x": x})
            torch.cuda._sleep(LATE // 3)
            results.append(y + 0)
            del y
        one.run(None, {"x": np.full(1 << 20, 100, np.float32)})  # another stream, same memory
    torch.cuda.synchronize()
    assert all(is_all(result, 2 * i) for i, result in enumerate(results))


def test_bound_tensors_wait_for_the_default_stream() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    for i in range(10):
        x, y = (torch.zeros(1 << 20, device="cuda") for _ in range(2))
        torch.cuda._sleep(LATE)
        x.fill_(i)
        one.run_with_iobinding(bind(one, x, y))
        with torch.cuda.stream(torch.cuda.Stream()):  # it is done: no stream has to wait
            assert is_all(y, 2 * i)


def test_on_the_wrong_stream_it_would_be_wrong() -> None:
    one = session("y = test.cuda.Twice(x)", "float[n] x", "float[n] y")
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    x, y = (torch.zeros(1 << 20, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LATE * 10)
        x.fill_(1)
    one.run_with_iobinding(bind(one, x, y), stream=other)
    torch.cuda.synchronize()
    assert not is_all(y, 2)


def test_two_sessions_and_8_threads() -> None:
    sessions = [session(THREE, "float[n] x", "float[n] y") for _ in range(2)]
    wrong: list[tuple[int, int]] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        for i in range(150):
            one = sessions[(number // 2) % 2]
            if number % 2:
                x = np.full(5000, i + number, np.float32)
                good = np.array_equal(one.run(None, {"x": x})[0], x * 8)
            else:
                with torch.cuda.stream(stream):
                    tensor = torch.full((5000,), float(i + number), device="cuda")
                    (y,) = one.run(None, {"x": tensor})
                    good = torch.equal(y, tensor * 8)
            if not good:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Graphs.


def test_a_bound_run_is_captured_in_a_graph() -> None:
    one = session(THREE, "float[n] x", "float[n] y")
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    binding = bind(one, x, y)
    one.run_with_iobinding(binding, stream=torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one.run_with_iobinding(binding, stream=torch.cuda.current_stream())
    for i in range(5):
        x.fill_(i)
        graph.replay()
        assert is_all(y, 8 * i)


def test_a_run_is_captured_in_a_graph() -> None:
    one = session(THREE, "float[n] x", "float[n] y")
    x = torch.ones(1000, device="cuda")
    (before,) = one.run(None, {"x": x})
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        del before  # given back while the stream records
        (y,) = one.run(None, {"x": x})
    for i in range(5):
        x.fill_(i)
        graph.replay()
        torch.cuda.synchronize()
        assert is_all(y, 8 * i)
    del y, graph
    (after,) = one.run(None, {"x": x})
    assert is_all(after, 32)


# Errors.


@pytest.mark.parametrize("throws", [0, 1])
def test_an_error_names_node_and_operator(throws: int) -> None:
    made = model(f"y = test.cuda.Fail<throws = {throws}>(x)")
    made.graph.node[0].name = "the_node"
    one = opgraft.InferenceSession(made, providers=PROVIDERS)
    for x in (X, torch.from_numpy(X).cuda()):
        with pytest.raises(opgraft.Error, match=r"node 'the_node', operator test.cuda::Fail.*luck"):
            one.run(None, {"x": x})


def test_too_large_for_the_gpu() -> None:
    one = session(THREE, "float[n] x", "float[n] y")
    _, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    x = torch.zeros(total // 4 // 5 * 2, device="cuda")  # two fifths of all memory
    with pytest.raises(opgraft.Error, match="output 0: CUDA cannot allocate .*out of memory"):
        one.run(None, {"x": x})
    del x
    torch.cuda.empty_cache()
    np.testing.assert_array_equal(one.run(None, {"x": X[0]})[0], X[0] * 8)


def test_a_tensor_of_another_type() -> None:
    one = session("y = test.cuda.Twice(x)")
    with pytest.raises(Exception, match="(?i)float"):
        one.run(None, {"x": torch.ones((2, 3), device="cuda", dtype=torch.float64)})


def test_scratch_memory_and_host_inputs() -> None:
    one = session(
        "a = test.cuda.ThroughScratch(x) y = test.cuda.AddNumber(a, k)",
        "float[n, m] x, int64[1] k",
        "float[n, m] y",
    )
    for i in range(20):
        np.testing.assert_array_equal(one.run(None, {"x": X, "k": np.array([i])})[0], X + i)


def test_plain_sessions_know_packs_too() -> None:
    """A pack is an ordinary library of custom operators, for the GPU as for the CPU."""
    from gpu_models import build_operators

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(build_operators()))
    made = model("y = test.cuda.Twice(x)")
    session("y = test.cuda.Twice(x)")  # registers the provider
    one = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=PROVIDERS)
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)
