"""Python operators on a real GPU, with torch and with CuPy: results, streams, errors, threads."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import numpy as np
import pytest
from fake_models import model

import opgraft

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="there is no GPU: run these tests where there is one (docs/cuda.md)",
)
PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LATE = 3_000_000  # cycles, more than a millisecond
TYPES = ["float32", "float64", "float16", "bfloat16", "bool", "int64", "int32", "uint8"]
ONNX = {"float32": "float", "float64": "double"}


def session(body: str, *arguments: str) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(model(body, *arguments), providers=PROVIDERS)


def vectors(body: str, dtype: str = "float32") -> opgraft.InferenceSession:
    kind = ONNX.get(dtype, dtype)
    return session(body, f"{kind}[n] x", f"{kind}[n] y")


@opgraft.op("my::AddOne", device="cuda", shape=lambda x: x)
def add_one(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    return torch.add(x, 1, out=out)


@opgraft.op("my::Next", device="cuda")
def next_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


THREE = "a = my.AddOne(x) b = my.Next(a) y = my.AddOne(b)"


def is_all(tensor: Any, value: float) -> bool:
    return bool((tensor == value).all())


def test_numpy_in_and_out() -> None:
    one = session(THREE)
    for _ in range(20):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + 3)


def test_beside_operators_of_the_cpu() -> None:
    one = session("a = my.AddOne(x) b = Neg(a) c = my.Next(b) d = Neg(c) y = my.AddOne(d)")
    for _ in range(20):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_types_and_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    @opgraft.op("my::Copy", device="cuda", shape=lambda x: x)
    def copy(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        assert (x.dtype, x.shape, x.device.type) == (out.dtype, out.shape, "cuda")
        return out.copy_(x)

    @opgraft.op("my::Same", device="cuda")
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    name = ONNX.get(dtype, dtype)
    kind = f"{name}[{','.join(map(str, shape))}]" if shape else name
    one = session("a = my.Copy(x) y = my.Same(a)", f"{kind} x", f"{kind} y")
    x = (torch.arange(int(np.prod(shape)), device="cuda") % 3).to(getattr(torch, dtype))
    x = x.reshape(shape)
    (y,) = one.run(None, {"x": x})
    assert (y.dtype, y.device, y.shape) == (x.dtype, x.device, x.shape)
    assert torch.equal(y, x)


def test_views_of_the_runtimes_memory() -> None:
    """The function gets the caller's tensor, and writes into the one that the caller gets."""
    seen: list[tuple[int, int]] = []

    @opgraft.op("my::Looks", device="cuda", shape=lambda x: x)
    def looks(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        seen.append((x.data_ptr(), out.data_ptr()))
        return torch.add(x, 1, out=out)

    x = torch.ones(1000, device="cuda")
    (y,) = vectors("y = my.Looks(x)").run(None, {"x": x})
    assert seen == [(x.data_ptr(), y.data_ptr())]
    assert is_all(y, 2)


def test_types_of_the_signature() -> None:
    @opgraft.op("my::ToHalf", device="cuda", shape=lambda x: (x, x))
    def to_half(
        x: Annotated[torch.Tensor, np.float32], *, out: Any
    ) -> tuple[Annotated[torch.Tensor, torch.bfloat16], Annotated[torch.Tensor, np.bool_]]:
        out[0].copy_(x)
        torch.gt(x, 2, out=out[1])
        return out  # type: ignore[no-any-return]

    one = session("y, z = my.ToHalf(x)", "float[n, m] x", "bfloat16[n, m] y, bool[n, m] z")
    x = torch.from_numpy(X).cuda()
    y, z = one.run(None, {"x": x})
    assert torch.equal(y, x.bfloat16()) and torch.equal(z, x > 2)
    one = session("y = my.ToHalf(x)", "float[n, m] x", "bfloat16[n, m] y")
    for _ in range(10):  # the output that nobody wants has memory, too
        assert torch.equal(one.run(None, {"x": x})[0], x.bfloat16())


def test_results_of_all_layouts() -> None:
    results = {
        "transposed": lambda x: (x + 1).T,
        "every second": lambda x: torch.cat([x, x], 1).T[::2],
        "expanded": lambda x: x[:1].T.expand(3, 2),
        "negated": lambda x: torch.complex(x, x).conj().imag.T,
        "an input": lambda x: x.T,
        "a parameter": lambda x: torch.nn.Parameter(x.T + 1),
    }
    for name, make in results.items():
        function = make

        @opgraft.op("my::Layout", device="cuda", shape=lambda x: x[::-1])
        def returned(x: torch.Tensor) -> torch.Tensor:
            return function(x)  # noqa: B023 - called before the next

        @opgraft.op("my::LayoutOut", device="cuda", shape=lambda x: x[::-1])
        def beside_out(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
            return function(x)  # noqa: B023

        x = torch.from_numpy(X).cuda()
        for operator in ("Layout", "LayoutOut"):
            (y,) = session(f"y = my.{operator}(x)").run(None, {"x": x})
            assert torch.equal(y, make(x).detach().resolve_neg()), name


def test_a_view_of_out_is_returned() -> None:
    @opgraft.op("my::Flip", device="cuda", shape=lambda x: x)
    def flip(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        out.copy_(x)
        return out.T

    x = torch.arange(9.0, device="cuda").reshape(3, 3)
    (y,) = session("y = my.Flip(x)").run(None, {"x": x})
    assert torch.equal(y, x.T)


def test_a_class_attributes_and_absent_inputs() -> None:
    @opgraft.op("my::Linear", device="cuda", shape=lambda x, bias, *, size: (x[0], size))
    class Linear:
        def __init__(self, *, size: int) -> None:
            self.weight = torch.nn.Linear(3, size, bias=False).cuda()
            torch.nn.init.ones_(self.weight.weight)

        def compute(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
            y = self.weight(x)  # which wants a gradient
            return y if bias is None else y + bias

    x = torch.from_numpy(X).cuda()
    for body, more in (("y = my.Linear<size=4>(x)", 0), ("y = my.Linear<size=4>(x, k)", 1)):
        one = session(body, "float[n, 3] x, float[1] k", "float[n, 4] y")
        (y,) = one.run(None, {"x": x, "k": torch.ones(1, device="cuda")})
        torch.testing.assert_close(y, x.sum(1, keepdim=True).expand(2, 4) + more)


# CuPy.


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_cupy(dtype: str, shape: tuple[int, ...]) -> None:
    cupy = pytest.importorskip("cupy")
    if dtype == "bfloat16" and int(cupy.__version__.split(".")[0]) < 14:
        pytest.skip("this CuPy has no bfloat16")
    seen: list[tuple[int, int]] = []

    @opgraft.op("my::Copies", device="cuda", arrays="cupy", shape=lambda x: x)
    def copies(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        assert isinstance(x, cupy.ndarray)
        seen.append((x.data.ptr, cupy.cuda.get_current_stream().ptr))
        cupy.copyto(out, x)
        return out

    @opgraft.op("my::Turns", device="cuda", shape=lambda x: x[::-1])
    def turns(x: cupy.ndarray) -> cupy.ndarray:
        return x.T

    name = ONNX.get(dtype, dtype)
    kind = f"{name}[{','.join(map(str, shape))}]" if shape else name
    back = f"{name}[{','.join(map(str, shape[::-1]))}]" if shape else name
    one = session("a = my.Copies(x) y = my.Turns(a)", f"{kind} x", f"{back} y")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = (torch.arange(int(np.prod(shape)), device="cuda") % 2).to(getattr(torch, dtype))
        x = x.reshape(shape)
        (y,) = one.run(None, {"x": x})
        assert torch.equal(y, x.mT if len(shape) == 2 else x)
    if x.numel() > 0:
        assert seen == [(x.data_ptr(), stream.cuda_stream)]


def test_cupy_says_what_is_wrong() -> None:
    cupy = pytest.importorskip("cupy")

    @opgraft.op("my::Wide", device="cuda", arrays="cupy")
    def wide(x: np.ndarray) -> np.ndarray:
        return x.astype(cupy.float64)

    with pytest.raises(
        opgraft.PyOpError,
        match=r"expected a cupy.ndarray of float32 on GPU 0, but the operator returned a float64 "
        r"cupy.ndarray of shape \(2, 3\) on GPU 0. Fix: return value.astype\(cupy.float32\)",
    ):
        session("y = my.Wide(x)").run(None, {"x": X})


# Streams.


@pytest.mark.parametrize("side", [False, True])
def test_work_before_and_reads_after(side: bool) -> None:
    one = vectors(THREE)
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
        assert is_all(read, i + 3)


def test_the_current_stream_is_that_of_the_run() -> None:
    seen: list[int] = []

    @opgraft.op("my::Stream", device="cuda")
    def current(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.cuda.current_stream().cuda_stream)
        return x

    one = vectors("y = my.Stream(x)")
    x = torch.ones(1000, device="cuda")
    side = torch.cuda.Stream()
    before = torch.cuda.current_stream()
    one.run(None, {"x": x})
    one.run(None, {"x": x}, stream=side)
    with torch.cuda.stream(side):
        one.run(None, {"x": x})
        one.run(None, {"x": x}, stream=torch.cuda.default_stream())
        assert torch.cuda.current_stream() == side
    assert seen == [0, side.cuda_stream, side.cuda_stream, 0]
    one.run(None, {"x": np.ones(1000, np.float32)})  # a stream of the provider's
    assert seen[-1] not in (0, side.cuda_stream)
    assert torch.cuda.current_stream() == before


def test_runs_on_two_streams_at_once() -> None:
    one = vectors(THREE)
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
    assert all(is_all(result, i + 3) for i, result in enumerate(results))


def test_8_threads() -> None:
    one = vectors(THREE)
    wrong: list[tuple[int, int]] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        for i in range(50):
            if number % 2:
                x = np.full(5000, i + number, np.float32)
                good = np.array_equal(one.run(None, {"x": x})[0], x + 3)
            else:
                with torch.cuda.stream(stream):
                    tensor = torch.full((5000,), float(i + number), device="cuda")
                    (y,) = one.run(None, {"x": tensor})
                    good = torch.equal(y, tensor + 3)
            if not good:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_in_a_graph() -> None:
    one = vectors(THREE)
    x = torch.ones(1000, device="cuda")
    one.run(None, {"x": x})
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = one.run(None, {"x": x})
    for i in range(5):
        x.fill_(i)
        graph.replay()
        torch.cuda.synchronize()
        assert is_all(y, i + 3)
