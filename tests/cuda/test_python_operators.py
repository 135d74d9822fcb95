"""Python operators on the fake GPU, whose memory faults when the CPU touches it: what they get, on
which stream, and that no byte goes through the host."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import fake_gpu
import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from fake_gpu import FakeGpu, needs_plugins, on_gpu
from fake_models import model, session

import opgraft
from conftest import HOST_PYTHON, Write

pytestmark = needs_plugins
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LIBRARIES = ["stand_in", "fast_stand_in"]  # by capsules, and by DLPack's C functions
Array = Any


@pytest.fixture
def gpu() -> FakeGpu:
    return fake_gpu.start()


@pytest.fixture
def stand_in(gpu: FakeGpu) -> Any:
    import stand_in

    return stand_in


@pytest.fixture(params=LIBRARIES)
def op(request: pytest.FixtureRequest, stand_in: Any) -> Callable[..., Any]:
    """`@opgraft.op`, for operators on the fake GPU."""

    def declare(name: str, **named: Any) -> Any:
        return opgraft.op(name, device="cuda", arrays=request.param, **named)

    return declare


def add_one(stand_in: Any, x: Array, out: Array) -> None:
    stand_in.launch(lambda x, y: np.add(x, 1, out=y), x, out)


@pytest.fixture
def adds(op: Callable[..., Any], stand_in: Any) -> None:
    """my::Add, which writes into `out`, and my::Next, which returns."""

    @op("my::Add", shape=lambda x: x)
    def add(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        add_one(stand_in, x, out)
        return out

    @op("my::Next")
    def next_one(x: np.ndarray) -> np.ndarray:
        y = stand_in.empty(x.shape, x.dtype)
        add_one(stand_in, x, y)
        return y


def bound(one: opgraft.InferenceSession, x: Any, y: Any) -> Any:
    """A binding of values that lie on the GPU."""
    binding = one.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    return binding


def test_results(adds: None) -> None:
    one = session("a = my.Add(x) b = my.Next(a) y = my.Add(b)")
    for _ in range(3):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + 3)


@pytest.mark.parametrize("choice", [True, False])
def test_in_the_branches_of_a_graph(adds: None, choice: bool) -> None:
    branches = (
        "then_branch = then () => (float[n, m] t) { t = my.Add(x) }, "
        "else_branch = other () => (float[n, m] e) { a = my.Next(x) e = my.Next(a) }"
    )
    one = session(f"y = If <{branches}> (c)", "float[n, m] x, bool c")
    (y,) = one.run(None, {"x": X, "c": np.array(choice)})
    np.testing.assert_array_equal(y, X + (1 if choice else 2))


@pytest.mark.parametrize("name", ["Add", "Next"])
def test_in_the_body_of_a_loop(adds: None, name: str) -> None:
    body = (
        "body = body (int64 i, bool c, float[n, m] before) => (bool c_out, float[n, m] after) "
        f"{{ c_out = Identity(c) after = my.{name}(before) }}"
    )
    one = session(f"y = Loop <{body}> (count, , x)", "float[n, m] x, int64 count")
    for count in (0, 1, 5):
        (y,) = one.run(None, {"x": X, "count": np.array(count, np.int64)})
        np.testing.assert_array_equal(y, X + count)


@pytest.mark.parametrize(("body", "copies"), [("y = my.Add(x)", 0), ("y = my.Next(x)", 1)])
def test_no_byte_goes_through_the_host(adds: None, gpu: FakeGpu, body: str, copies: int) -> None:
    one = session(body)
    one.run(None, {"x": X})
    x, y = on_gpu(X), on_gpu(np.zeros_like(X))
    binding = bound(one, x, y)
    before = gpu.counts()
    one.run_with_iobinding(binding)
    after = gpu.counts()
    assert {name: after[name] - before[name] for name in ("to_device", "to_host", "on_device")} == {
        "to_device": 0,
        "to_host": 0,
        "on_device": copies,
    }
    np.testing.assert_array_equal(y.numpy(), X + 1)


def test_the_stream_of_the_run(adds: None, gpu: FakeGpu, stand_in: Any) -> None:
    """Work that is on the stream before delays the input; a stream that waits for none would read
    it too early."""
    one = session("a = my.Add(x) b = my.Next(a) y = my.Add(b)")
    one.run(None, {"x": X})
    stream = gpu.stream(is_blocking=False)
    x, late, y = on_gpu(np.zeros_like(X)), on_gpu(X), on_gpu(np.zeros_like(X))
    binding = bound(one, x, y)
    stand_in.streams.clear()
    gpu.delay(stream, 30)
    gpu.copy(stream, x.data_ptr(), late.data_ptr(), X.nbytes)
    one.run_with_iobinding(binding, stream=stream)
    assert set(stand_in.streams) == {stream} and len(stand_in.streams) == 3
    assert stand_in.thread.stream == 0
    gpu.wait(stream)
    np.testing.assert_array_equal(gpu.read(y.data_ptr(), X.size).reshape(X.shape), X + 3)


def test_the_current_stream_is_changed_only_if_it_is_another(
    adds: None, gpu: FakeGpu, stand_in: Any
) -> None:
    one = session("y = my.Add(x)")
    stream = gpu.stream(is_blocking=True)
    for current, expected in ((stream, []), (0, [stream])):
        stand_in.changes.clear()
        stand_in.thread.stream = current
        try:
            one.run(None, {"x": X}, stream=stream)
        finally:
            stand_in.thread.stream = 0
        assert stand_in.changes == expected


def test_the_stream_is_left_where_the_operator_raises(
    op: Callable[..., Any], gpu: FakeGpu, stand_in: Any
) -> None:
    @op("my::Raises")
    def raises(x: np.ndarray) -> np.ndarray:
        assert stand_in.thread.stream != 0
        raise ValueError("no")

    with pytest.raises(opgraft.PyOpError, match="no"):
        session("y = my.Raises(x)").run(None, {"x": X})
    assert stand_in.thread.stream == 0


@pytest.mark.parametrize(
    ("onnx_type", "dtype"),
    [
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("bool", np.bool_),
        ("int64", np.int64),
        ("double", np.float64),
    ],
)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_types_and_shapes(
    op: Callable[..., Any], stand_in: Any, onnx_type: str, dtype: Any, shape: tuple[int, ...]
) -> None:
    seen = []

    @op("my::Copy", shape=lambda x: x)
    def copy(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        seen.append((x.dtype, x.shape, out.dtype, out.shape))
        stand_in.launch(np.copyto, out, x)
        return out

    @op("my::Same")
    def same(x: np.ndarray) -> np.ndarray:
        return x

    dimensions = "".join(f"[{','.join(map(str, shape))}]" if shape else "")
    one = session(
        "a = my.Copy(x) y = my.Same(a)", f"{onnx_type}{dimensions} x", f"{onnx_type}{dimensions} y"
    )
    x = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
    (y,) = one.run(None, {"x": x})
    np.testing.assert_array_equal(y.view(dtype) if y.dtype != dtype else y, x)
    assert seen == [(np.dtype(dtype), shape, np.dtype(dtype), shape)]


def test_results_that_are_no_block_of_memory(op: Callable[..., Any], stand_in: Any) -> None:
    @op("my::Transpose", shape=lambda x: x[::-1])
    def transpose(x: np.ndarray) -> np.ndarray:
        return x.t

    @op("my::TransposeOut", shape=lambda x: x[::-1])
    def transpose_out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return x.t

    @op("my::Flip", shape=lambda x: x)
    def flip(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        stand_in.launch(np.copyto, out, x)
        return out.t  # of the memory that it is to be copied to

    one = session("a = my.Transpose(x) y = my.TransposeOut(a)", "float[2,3] x", "float[2,3] y")
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(session("y = my.Flip(x)").run(None, {"x": square})[0], square.T)


def test_several_outputs_and_those_that_nobody_wants(
    op: Callable[..., Any], gpu: FakeGpu, stand_in: Any
) -> None:
    @op("my::Both", shape=lambda x: (x, x))
    def both(x: np.ndarray, *, out: Any) -> tuple[np.ndarray, np.ndarray]:
        for i, one in enumerate(out):
            stand_in.launch(lambda x, y, i=i: np.add(x, i + 1, out=y), x, one)
        return out

    @op("my::Pair")
    def pair(x: np.ndarray) -> tuple[np.ndarray, npt.NDArray[np.bool_]]:
        positive = stand_in.empty(x.shape, bool)
        stand_in.launch(lambda x, y: np.greater(x, 2, out=y), x, positive)
        return x, positive

    @op("my::Rest")
    def rest(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x, None  # type: ignore[return-value]

    for name in ("Both", "Pair"):
        one = session(
            f"y, z = my.{name}(x)",
            "float[n, m] x",
            "float[n, m] y, " + ("float" if name == "Both" else "bool") + "[n, m] z",
        )
        y, z = one.run(None, {"x": X})
        np.testing.assert_array_equal(y, X + (name == "Both"))
        np.testing.assert_array_equal(z, X + 2 if name == "Both" else X > 2)
    one = session("y = my.Both(x)")
    one.run(None, {"x": X})
    used = gpu.used()
    for _ in range(3):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + 1)
    assert gpu.used() == used
    for name in ("Pair", "Rest"):
        np.testing.assert_array_equal(session(f"y = my.{name}(x)").run(None, {"x": X})[0], X)


def test_absent_inputs_lists_and_attributes(op: Callable[..., Any], stand_in: Any) -> None:
    @op("my::Sum")
    class Sum:
        def __init__(self, *, factor: float = 2.0) -> None:
            self.factor = factor

        def compute(self, x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
            y = stand_in.empty(x.shape, x.dtype)
            given = [x] if bias is None else [x, bias]
            factor = np.float32(self.factor)
            stand_in.launch(lambda y, *xs: np.multiply(sum(xs), factor, out=y), y, *given)
            return y

    @op("my::Concat", shape=lambda *xs: (sum(x[0] for x in xs), xs[0][1]))
    def concat(*xs: np.ndarray) -> np.ndarray:
        y = stand_in.empty((sum(x.shape[0] for x in xs), xs[0].shape[1]), xs[0].dtype)
        stand_in.launch(lambda y, *xs: np.concatenate(xs, out=y), y, *xs)
        return y

    one = session("a = my.Sum<factor = 3.0>(x) b = my.Sum(x, a) y = my.Concat(a, b, x)")
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], np.concatenate([X * 3, X * 8, X]))


def test_beside_operators_of_the_cpu(adds: None) -> None:
    @opgraft.op("my::Host")
    def host(x: np.ndarray) -> np.ndarray:
        return x * np.float32(2)

    one = session("a = my.Add(x) b = my.Host(a) c = my.Next(b) d = Neg(c) y = my.Add(d)")
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], -((X + 1) * 2 + 1) + 1)


def test_eight_threads(adds: None, gpu: FakeGpu) -> None:
    one = session("a = my.Add(x) b = my.Next(a) y = my.Add(b)")
    wrong = []

    def work(number: int) -> None:
        x = np.full((50, 20), number, np.float32)
        for _ in range(10):
            if not (one.run(None, {"x": x})[0] == x + 3).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_goes_back(adds: None, gpu: FakeGpu) -> None:
    one = session("a = my.Add(x) b = my.Next(a) y = my.Add(b)")
    one.run(None, {"x": X})
    before = gpu.used()
    for _ in range(20):
        one.run(None, {"x": X})
    assert gpu.used() == before


def test_the_second_gpu(op: Callable[..., Any], stand_in: Any) -> None:
    seen = []

    @op("my::Where")
    def where(x: np.ndarray) -> np.ndarray:
        seen.append(x.device)
        return x

    for gpu in (0, 1):
        providers = [("OpgraftCUDA", {"device_id": gpu}), "CPUExecutionProvider"]
        one = session("y = my.Where(x)", providers=providers)
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)
    assert seen == [(2, 0), (2, 1)]


def test_annotated_types(op: Callable[..., Any]) -> None:
    @op("my::Half")
    def half(x: Annotated[npt.NDArray[np.float16], "numbers"]) -> npt.NDArray[np.float16]:
        return x

    one = session("y = my.Half(x)", "float16[n] x", "float16[n] y")
    x = np.float16([1, 2])
    np.testing.assert_array_equal(one.run(None, {"x": x})[0], x)
    with pytest.raises(opgraft.ModelError, match="input 0, 'x', is float32, expected float16"):
        session("y = my.Half(x)")


def test_what_is_asked_of_cupy(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stand-in under CuPy's names."""

    class Stream:
        def __init__(self, ptr: int) -> None:
            self.ptr = ptr

        def __enter__(self) -> None:
            self.before, stand_in.thread.stream = stand_in.thread.stream, self.ptr

        def __exit__(self, *_: object) -> None:
            stand_in.thread.stream = self.before

        @staticmethod
        def from_external(given: Any) -> Stream:
            return Stream(given.__cuda_stream__()[1])

    cupy = types.ModuleType("cupy")
    cupy.__dict__.update(
        ndarray=stand_in.Array,
        from_dlpack=stand_in.from_dlpack,
        copyto=lambda to, given: stand_in.launch(np.copyto, to, given),
        cuda=types.SimpleNamespace(
            Stream=Stream,
            runtime=types.SimpleNamespace(getDeviceCount=lambda: 1),
            get_current_stream=lambda: Stream(stand_in.thread.stream),
        ),
    )
    Stream.null = Stream(0)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    @opgraft.op("my::OfCuPy", device="cuda", arrays="cupy", shape=lambda x: x[::-1])
    def of_cupy(x: np.ndarray) -> np.ndarray:
        return x.t

    one = session("a = my.OfCuPy(x) y = my.OfCuPy(a)")
    for stream in (None, 0):
        stand_in.streams.clear()
        np.testing.assert_array_equal(one.run(None, {"x": X}, stream=stream)[0], X)
        assert len(stand_in.streams) == 2 and (stream is None or set(stand_in.streams) == {0})
    assert stand_in.thread.stream == 0


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_in_a_program(stand_in: Any, write_module: Write, tmp_path: Path, host: str) -> None:
    """By the command, in a Python process and in one that is not Python."""
    name = write_module("""
        import opgraft, stand_in
        @opgraft.op("my::Twice", device="cuda", arrays="fast_stand_in", shape=lambda x: x)
        def twice(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
            stand_in.launch(lambda x, y: np.add(x, x, out=y), x, out)
            return out
    """)
    onnx.save(model("y = my.Twice(x)"), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", X)
    command = ["run", "model.onnx", "--input", "x=x.npy", "--import", name, "--gpu", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "opgraft", *command, "--host", host],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPGRAFT_PYTHON": HOST_PYTHON},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["y float32 (2, 3)", "0 2 4 6 8 10"], done.stderr
