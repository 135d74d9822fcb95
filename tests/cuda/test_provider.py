"""Sessions with OpgraftCUDA, on the fake driver: its memory faults when the CPU touches it."""

from __future__ import annotations

import ctypes
import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from fake_gpu import PROVIDERS, FakeGpu, needs_plugins, on_gpu
from fake_models import model

import opgraft
from conftest import VERSION

pytestmark = needs_plugins
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def as_array(address: int, shape: tuple[int, ...]) -> np.ndarray:
    """The floats that lie in memory of the host."""
    memory = (ctypes.c_float * int(np.prod(shape))).from_address(address)
    return np.frombuffer(memory, np.float32).reshape(shape)


def session(body: str, *arguments: Any, **named: Any) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(model(body, *arguments), providers=PROVIDERS, **named)


def test_a_node_runs_on_the_gpu(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    assert one.get_providers() == PROVIDERS
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)


def test_without_the_provider_it_runs_on_the_cpu(fake_gpu: FakeGpu) -> None:
    one = opgraft.InferenceSession(model("y = test.cuda.Twice(x)"))
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2 + 1)


def test_nodes_of_both_take_turns(fake_gpu: FakeGpu) -> None:
    one = session("a = test.cuda.Twice(x) b = Add(a, x) y = test.cuda.Twice(b)")
    before = fake_gpu.counts()
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 6)
    after = fake_gpu.counts()
    assert {name: after[name] - before[name] for name in ("to_device", "to_host")} == {
        "to_device": 2,
        "to_host": 2,
    }


def test_what_lies_between_two_nodes_stays_on_the_gpu(fake_gpu: FakeGpu) -> None:
    one = session("a = test.cuda.Twice(x) b = test.cuda.Twice(a) y = test.cuda.Twice(b)")
    before = fake_gpu.counts()
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 8)
    after = fake_gpu.counts()
    assert after["to_device"] - before["to_device"] == 1
    assert after["to_host"] - before["to_host"] == 1
    assert after["on_device"] == before["on_device"]


def test_weights_are_copied_once(fake_gpu: FakeGpu) -> None:
    made = model("y = test.cuda.Twice(w)")
    made.graph.initializer.append(onnx.numpy_helper.from_array(X, "w"))
    one = opgraft.InferenceSession(made, providers=PROVIDERS)
    before = fake_gpu.counts()
    for _ in range(3):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)
    assert fake_gpu.counts()["to_device"] == before["to_device"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool", "float16"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_types_and_shapes(fake_gpu: FakeGpu, dtype: str, shape: tuple[int, ...]) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = onnx.TensorProto.DataType.Name(kind).lower()
    sizes = ",".join(map(str, shape))
    kind_text = f"{name}[{sizes}]" if shape else name
    one = session("y = test.cuda.Copy(x)", f"{kind_text} x", f"{kind_text} y")
    x = (np.arange(np.prod(shape)) % 3).astype(dtype).reshape(shape)
    (y,) = one.run(None, {"x": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_an_input_on_the_host(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.AddNumber(x, k)", "float[n, m] x, int64[1] k", "float[n, m] y")
    np.testing.assert_array_equal(one.run(None, {"x": X, "k": np.array([5])})[0], X + 5)
    constant = session("k = Constant<value_ints = [7]>() y = test.cuda.AddNumber(x, k)")
    np.testing.assert_array_equal(constant.run(None, {"x": X})[0], X + 7)


def test_scratch_memory_and_open_outputs(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.ThroughScratch(x)")
    for _ in range(5):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)


@pytest.mark.parametrize("throws", [0, 1])
def test_an_error_names_node_and_operator(fake_gpu: FakeGpu, throws: int) -> None:
    made = model(f"y = test.cuda.Fail<throws = {throws}>(x)")
    made.graph.node[0].name = "the_node"
    one = opgraft.InferenceSession(made, providers=PROVIDERS)
    with pytest.raises(opgraft.Error, match=r"node 'the_node', operator test.cuda::Fail.*luck"):
        one.run(None, {"x": X})


def test_inside_control_flow(fake_gpu: FakeGpu) -> None:
    one = session(
        """c = Constant<value_int = 1>() t = Cast<to = 9>(c)
        y = If(t) <then_branch = a () => (float[n, m] p) { p = test.cuda.Twice(x) },
                   else_branch = b () => (float[n, m] q) { q = Identity(x) }>"""
    )
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)


def test_out_of_memory_is_an_error_and_the_session_lives_on(fake_gpu: FakeGpu) -> None:
    one = session("a = test.cuda.Twice(x) y = test.cuda.Twice(a)")
    large = np.zeros((1 << 24, 3), np.float32)  # three times 192 MiB, of 256
    with pytest.raises(Exception, match="memory") as caught:
        one.run(None, {"x": large})
    assert isinstance(caught.value, (opgraft.Error, RuntimeError))
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 4)


def test_two_sessions_and_8_threads(fake_gpu: FakeGpu) -> None:
    sessions = [
        session("y = test.cuda.Twice(x)"),
        session("a = test.cuda.ThroughScratch(x) y = test.cuda.Twice(a)"),
    ]
    wrong: list[int] = []

    def work(number: int) -> None:
        for i in range(40):
            x = np.full((number + 1, 7), i + number, np.float32)
            (y,) = sessions[i % 2].run(None, {"x": x})
            if not np.array_equal(y, x * 2):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def bound(one: opgraft.InferenceSession, x: Any, y: Any) -> Any:
    binding = one.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    return binding


def bind_output(binding: Any) -> None:
    """Has the output made on the GPU."""
    place = onnxruntime.OrtDevice.make("gpu", 0, 0x10DE)
    binding._iobinding.bind_output("y", place._get_c_device())


def test_bound_tensors_are_not_copied(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    x, y = on_gpu(X), on_gpu(np.zeros_like(X))
    binding = bound(one, x, y)
    before = fake_gpu.counts()
    one.run_with_iobinding(binding)
    after = fake_gpu.counts()
    np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), X.ravel() * 2)
    assert [after[k] - before[k] for k in ("to_device", "to_host", "on_device")] == [0, 0, 0]


@pytest.mark.skipif(VERSION < (1, 28), reason="this ONNX Runtime's Python allots no such memory")
def test_pinned_memory_of_the_provider(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    (gpu, *_) = [
        device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDERS[0]
    ]
    pinned = gpu.memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    values = [
        onnxruntime.OrtValue.ortvalue_from_shape_and_type(X.shape, X.dtype, memory_info=pinned)
        for _ in range(2)
    ]
    addresses = [value.data_ptr() for value in values]
    x, y = (as_array(address, X.shape) for address in addresses)
    binding = one.io_binding()
    binding.bind_ortvalue_input("x", values[0])
    binding.bind_ortvalue_output("y", values[1])
    for i in range(3):
        x[...] = X + i
        one.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, (X + i) * 2)
    assert all(map(fake_gpu.is_pinned, addresses))
    del values, binding
    gc.collect()
    assert not any(map(fake_gpu.is_pinned, addresses))


def test_an_output_stays_on_the_gpu_and_outlives_its_session(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    binding = one.io_binding()
    binding.bind_cpu_input("x", X)
    bind_output(binding)
    before = fake_gpu.counts()
    one.run_with_iobinding(binding)
    (y,) = binding.get_outputs()
    assert fake_gpu.counts()["to_host"] == before["to_host"]
    del one, binding
    gc.collect()
    np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), X.ravel() * 2)
    np.testing.assert_array_equal(y.numpy(), X * 2)


SLOW = 50  # milliseconds


def late_input(gpu: FakeGpu, stream: int) -> tuple[Any, Any]:
    """An input that gets its elements from work which is still pending on a stream."""
    x, source = on_gpu(np.zeros_like(X)), on_gpu(X)
    gpu.delay(stream, SLOW)
    gpu.copy(stream, x.data_ptr(), source.data_ptr(), X.nbytes)
    return x, source


def test_a_run_waits_for_work_on_the_default_stream(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    y = on_gpu(np.zeros_like(X))
    x, _source = late_input(fake_gpu, 0)
    one.run_with_iobinding(bound(one, x, y))
    np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), X.ravel() * 2)


def test_a_run_on_a_named_stream_is_ordered_by_it(fake_gpu: FakeGpu) -> None:
    one = session("a = test.cuda.Twice(x) y = test.cuda.Twice(a)")
    stream = fake_gpu.stream(is_blocking=False)
    y = on_gpu(np.zeros_like(X))
    x, _source = late_input(fake_gpu, stream)
    one.run_with_iobinding(bound(one, x, y), stream=stream)
    assert not fake_gpu.read(y.data_ptr(), 6).any()  # it has not waited
    fake_gpu.wait(stream)
    np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), X.ravel() * 4)


def test_on_another_stream_it_would_be_wrong(fake_gpu: FakeGpu) -> None:
    """What the tests above can see: a stream that nobody orders."""
    one = session("y = test.cuda.Twice(x)")
    stream = fake_gpu.stream(is_blocking=False)
    y = on_gpu(np.ones_like(X))
    x, _source = late_input(fake_gpu, stream)
    one.run_with_iobinding(bound(one, x, y))
    assert not fake_gpu.read(y.data_ptr(), 6).any()
    fake_gpu.wait(stream)


@pytest.mark.parametrize("is_kept", [False, True])
def test_memory_that_is_given_back_is_read_to_the_end(fake_gpu: FakeGpu, is_kept: bool) -> None:
    one = session("y = test.cuda.Twice(x)")
    stream = fake_gpu.stream(is_blocking=False)
    named = SimpleNamespace(cuda_stream=stream, stream_id=1) if is_kept else stream  # as torch's
    kept = on_gpu(np.zeros_like(X))
    binding = one.io_binding()
    given = on_gpu(X)
    binding.bind_ortvalue_input("x", given)
    bind_output(binding)
    one.run_with_iobinding(binding, stream=named)
    (y,) = binding.get_outputs()
    fake_gpu.delay(stream, SLOW)
    fake_gpu.copy(stream, kept.data_ptr(), y.data_ptr(), X.nbytes)
    del y, binding
    gc.collect()
    others = [one.run(None, {"x": X * 100})[0] for _ in range(3)]  # they take the memory, if free
    fake_gpu.wait(stream)
    np.testing.assert_array_equal(fake_gpu.read(kept.data_ptr(), 6), X.ravel() * 2)
    np.testing.assert_array_equal(others[0], X * 200)
    del given


def test_runs_on_two_streams_do_not_share_memory_too_early(fake_gpu: FakeGpu) -> None:
    one = session("a = test.cuda.Twice(x) b = test.cuda.Twice(a) y = test.cuda.Twice(b)")
    streams = [fake_gpu.stream(is_blocking=False) for _ in range(2)]
    inputs = [on_gpu(X + i) for i in range(10)]
    outputs = [on_gpu(np.zeros_like(X)) for _ in range(10)]
    for i in range(10):
        fake_gpu.delay(streams[i % 2], 2)
        one.run_with_iobinding(bound(one, inputs[i], outputs[i]), stream=streams[i % 2])
    for stream in streams:
        fake_gpu.wait(stream)
    for i, y in enumerate(outputs):
        np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), (X + i).ravel() * 8)


def test_a_named_stream_needs_a_gpu() -> None:
    one = opgraft.InferenceSession(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Neg(x) }'
        )
    )
    with pytest.raises(opgraft.Error, match="this session has no GPU.*OpgraftCUDA"):
        one.run(None, {"x": np.zeros(1, np.float32)}, stream=0)


def test_a_stream_that_is_none(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    with pytest.raises(opgraft.Error, match=r"stream: expected a torch.cuda.Stream.*not a str"):
        one.run(None, {"x": X}, stream="0")
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("opgraft.cuda.stream", "0x12")
    with pytest.raises(Exception, match="'0x12', expected the address of a CUDA stream"):
        one.run(None, {"x": X}, options)
    np.testing.assert_array_equal(one.run(None, {"x": X}, stream=0)[0], X * 2)


def test_the_gpu_is_chosen_by_its_number(fake_gpu: FakeGpu) -> None:
    made = model("y = test.cuda.Twice(x)")
    for choice in ({"device_id": 1}, {"device_id": "1"}):
        providers = [("OpgraftCUDA", choice), "CPUExecutionProvider"]
        one = opgraft.InferenceSession(made, providers=providers)
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)
    with pytest.raises(opgraft.Error, match="no GPU with device_id 7, only 0, 1"):
        opgraft.InferenceSession(
            made, providers=["OpgraftCUDA"], provider_options=[{"device_id": 7}]
        )
    with pytest.raises(opgraft.Error, match="no option 'device'; it has 'device_id'"):
        opgraft.InferenceSession(made, providers=[("OpgraftCUDA", {"device": 1})])


def test_options_serve_several_sessions(fake_gpu: FakeGpu) -> None:
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        one = session("y = test.cuda.Twice(x)", sess_options=options)
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2)


def test_providers_that_are_set_later(fake_gpu: FakeGpu) -> None:
    one = opgraft.InferenceSession(model("y = test.cuda.Twice(x)"))
    for providers, more in ((PROVIDERS, 0), (["CPUExecutionProvider"], 1), (PROVIDERS, 0)):
        one.set_providers(providers)
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X * 2 + more)


def test_options_of_a_run_stay_as_they_are(fake_gpu: FakeGpu) -> None:
    one = session("y = test.cuda.Twice(x)")
    options = onnxruntime.RunOptions()
    stream = fake_gpu.stream(is_blocking=False)
    np.testing.assert_array_equal(one.run(None, {"x": X}, options, stream=stream)[0], X * 2)
    y = on_gpu(np.zeros_like(X))
    one.run_with_iobinding(bound(one, on_gpu(X), y), options, stream=stream)
    with pytest.raises(RuntimeError):
        options.get_run_config_entry("opgraft.cuda.stream")


def test_inputs_of_the_cpu_are_copied_on_the_stream(fake_gpu: FakeGpu) -> None:
    """The runtime does so when they are bound, before the run begins."""
    one = session("a = Add(x, x) y = test.cuda.Twice(a)")
    stream = fake_gpu.stream(is_blocking=False)
    y = on_gpu(np.zeros_like(X))
    x, _source = late_input(fake_gpu, stream)
    with one._on_stream(stream):
        binding = bound(one, x, y)
    one.run_with_iobinding(binding, stream=stream)
    fake_gpu.wait(stream)
    np.testing.assert_array_equal(fake_gpu.read(y.data_ptr(), 6), X.ravel() * 4)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_session_that_an_operator_runs(fake_gpu: FakeGpu, is_named: bool) -> None:
    """It is on the stream of the run that it is inside of, its weights too."""
    stream = fake_gpu.stream(is_blocking=False) if is_named else None

    @opgraft.op("test.cuda::Inner", shape=lambda x: x)
    def inner(x: np.ndarray) -> np.ndarray:
        made = model("y = test.cuda.Twice(w)")
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(x), "w"))
        if stream is not None:
            fake_gpu.delay(stream, SLOW)
        nested = opgraft.InferenceSession(made, providers=PROVIDERS)
        return np.asarray(nested.run(None, {"x": x})[0])

    one = session("a = test.cuda.Twice(x) b = test.cuda.Inner(a) y = test.cuda.Twice(b)")
    for _ in range(3):
        np.testing.assert_array_equal(one.run(None, {"x": X}, stream=stream)[0], X * 8)


def test_nodes_side_by_side_are_refused(fake_gpu: FakeGpu) -> None:
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    with pytest.raises(opgraft.Error, match="ORT_SEQUENTIAL"):
        session("y = test.cuda.Twice(x)", sess_options=options)


def test_an_operator_for_gpus_alone_says_so_without_one(fake_gpu: FakeGpu) -> None:
    with pytest.raises(opgraft.Error, match=r"test.cuda::Copy.*OpgraftCUDA"):
        opgraft.InferenceSession(model("y = test.cuda.Copy(x)"))
