"""Operators that the tests of opgraft.torch share: in Python, and a pack with the same and more."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from packs import build_once  # noqa: E402

torch.set_num_threads(1)

T = TypeVar("T", np.float32, np.float64)

#: What was handed to operators, and what they returned.
seen: list[object] = []


@opgraft.op("eager.py::Cube", shape=lambda x: x, backward=lambda gradient, x: 3 * x * x * gradient)
def cube(x: np.ndarray) -> np.ndarray:
    return x**3


@opgraft.op("eager.py::Seen", shape=lambda x: x)
def see(x: np.ndarray) -> np.ndarray:
    result = np.array(x)
    seen[:] = [x.__array_interface__, result.__array_interface__]
    return result


@opgraft.op("eager.py::Affine", shape=lambda x, *more: x)
def affine(
    x: npt.NDArray[T],
    scale: npt.NDArray[T] | None = None,
    shift: npt.NDArray[T] | None = None,
    *,
    factor: float = 1.0,
    signs: list[int] | None = None,
    mode: str = "plain",
    negate: bool = False,
    weights: tuple[float, ...] = (1.0, 0.5),
    labels: list[str] = ["a", "b"],  # noqa: B006
) -> npt.NDArray[T]:
    seen[:] = [factor, signs, mode, negate, weights, labels]
    with np.errstate(invalid="ignore"):
        y = x * x.dtype.type(factor)
    if scale is not None:
        y = y * scale
    if shift is not None:
        y = y + shift
    return -y if negate else y


@opgraft.op(
    "eager.py::Join",
    shape=lambda *xs, axis: tuple(
        sum(x[place] for x in xs) if place == axis else size for place, size in enumerate(xs[0])
    ),
    backward=lambda gradient, xs, *, axis: list(
        torch.split(gradient, [x.shape[axis] for x in xs], axis)
    ),
)
def join(*xs: npt.NDArray[T], axis: int = 0) -> npt.NDArray[T]:
    return np.concatenate(xs, axis)


@opgraft.op(
    "eager.py::Extremes",
    shape=lambda x: (x[:-1], x[:-1], x[:-1]),
    backward=lambda low, high, place, x, y0, y1: (
        low[..., None] * (x == y0[..., None]) + high[..., None] * (x == y1[..., None])
    ),
)
def extremes(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, npt.NDArray[np.int64]]:
    return x.min(-1), x.max(-1), x.argmin(-1)


@opgraft.op("eager.py::Rows", shape=lambda x: (x[1:],) * 2)
def rows(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(row.copy() for row in x)


@opgraft.op("eager.py::Distinct", shape=lambda x: (None,))
def distinct(x: np.ndarray) -> np.ndarray:
    return np.unique(x)


@opgraft.op("eager.py::NoRule")
def no_rule(x: np.ndarray) -> np.ndarray:
    return x + 1


@opgraft.op("eager.py::AddOut", shape=opgraft.broadcast_shapes)
def add_out(a: npt.NDArray[T], b: npt.NDArray[T], *, out: npt.NDArray[T]) -> npt.NDArray[T]:
    return np.add(a, b, out=out)


@opgraft.op("eager.py::Raise", shape=lambda x: x)
def fail(x: np.ndarray) -> np.ndarray:
    raise LookupError("not found", x.shape)


@opgraft.op("eager.py::Count", shape=lambda x: x)
class Count:
    made = 0

    def __init__(self, *, start: int = 0) -> None:
        type(self).made += 1
        self.calls = start

    def compute(self, x: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.full_like(x, self.calls)


_PACK = """
#include <opgraft/op.h>
#include <algorithm>
#include <set>
#include <thread>

OPGRAFT_TYPES(T, float, double, std::int64_t, bool, opgraft::Float16, opgraft::BFloat16);
OPGRAFT_TYPES(F, float, double);

OPGRAFT_OP("eager.pack::Copy").Input<T>("x").Output<T>("y").Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y) { std::ranges::copy(x, y.begin()); });

// Where its input and its output lie.
OPGRAFT_OP("eager.pack::Addresses").Input<float>("x").Output<std::int64_t>("y")
    .Shape(opgraft::Sizes({2}))
    .Cpu([](auto x, auto y) {
      y[0] = reinterpret_cast<std::intptr_t>(x.data());
      y[1] = reinterpret_cast<std::intptr_t>(y.data());
    });

OPGRAFT_OP("eager.pack::Add").Input<F>("a").Input<F>("b").Output<F>("y")
    .Shape(opgraft::Broadcast({}))
    .Cpu([](auto a, auto b, auto y) {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = a[i % a.size()] + b[i % b.size()];
    });

OPGRAFT_OP("eager.pack::Affine").Input<F>("x").OptionalInput<F>("scale").OptionalInput<F>("shift")
    .Output<F>("y").Shape(opgraft::SameAs("x"))
    .Attribute<float>("factor", 1).OptionalAttribute<std::vector<std::int64_t>>("signs")
    .Attribute<std::string>("mode", "plain")
    .Attribute<std::vector<std::string>>("labels", {"a", "b"})
    .Cpu([]<class E>(opgraft::Tensor<const E> x, std::optional<opgraft::Tensor<const E>> scale,
            std::optional<opgraft::Tensor<const E>> shift, opgraft::Tensor<E> y, float factor,
            std::optional<std::vector<std::int64_t>> signs, const std::string& mode,
            const std::vector<std::string>& labels) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = x[i] * factor * (scale ? (*scale)[i] : 1) + (shift ? (*shift)[i] : 0);
        if (signs) y[i] *= signs->at(i % signs->size());
        if (mode == "negate") y[i] = -y[i];
        y[i] += labels.size() - 2;
      }
    });

OPGRAFT_OP("eager.pack::Sum").VariadicInput<F>("xs", "", 1).Output<F>("y")
    .Shape(opgraft::Broadcast({}))
    .Cpu([](auto xs, auto y) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = 0;
        for (const auto& x : xs) y[i] += x[i];
      }
    });

OPGRAFT_OP("eager.pack::Late").Input<F>("x").OptionalInput<F>("a").VariadicInput<F>("more", "", 0)
    .Output<F>("y").Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto a, auto more, auto y) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = x[i] + (a ? (*a)[i] : 0) + 10 * more.size();
      }
    });

OPGRAFT_OP("eager.pack::Halves").Input<F>("x").Output<F>("low").Output<F>("high")
    .Shape(opgraft::SameAs("x"), opgraft::SameAs("x"))
    .Cpu([](auto x, auto low, auto high) {
      for (std::size_t i = 0; i < x.size(); ++i) low[i] = high[i] = x[i] / 2;
    });

OPGRAFT_OP("eager.pack::Repeat").Input<F>("x").VariadicOutput<F>("ys").Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto ys) {
      for (auto& y : ys) std::ranges::copy(x, y.begin());
    });

OPGRAFT_OP("eager.pack::Windows").Input<float>("x").Output<float>("y")
    .Attribute<std::int64_t>("width", 2)
    .Shape([](opgraft::ShapeContext& context) {
      const auto x = context.Input("x");
      if (!x) return;
      if (x->size() != 1) throw opgraft::ShapeError("expected a vector");
      const opgraft::Dim width = *context.Attribute<std::int64_t>("width");
      context.SetOutput(0, {(*x)[0] - width + opgraft::Dim(1), width});
    })
    .Cpu([](auto x, auto y, std::int64_t width) {
      for (std::int64_t i = 0; i < std::ssize(y); ++i) y[i] = x[i / width + i % width];
    });

OPGRAFT_OP("eager.pack::Distinct").Input<F>("x").Output<F>("values")
    .Shape([](opgraft::ShapeContext& context) { context.SetOutput(0, {opgraft::Dim()}); })
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Output<E> values) {
      const std::set<E> found(x.begin(), x.end());
      std::ranges::copy(found, values.Allocate({std::ssize(found)}).begin());
    });

OPGRAFT_OP("eager.pack::Unknown").Input<F>("x").Output<F>("y")
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Output<E> y) {
      std::ranges::copy(x, y.Allocate(x.shape()).begin());
    });

OPGRAFT_OP("eager.pack::Fail").Input<float>("x").Output<float>("y").Shape(opgraft::SameAs("x"))
    .Cpu([](auto, auto) { return opgraft::Status::Model("as told"); });

OPGRAFT_OP("eager.pack::OnGpu").Input<float>("x").Output<float>("y").Shape(opgraft::SameAs("x"))
    .Cuda([](opgraft::DeviceTensor<const float>, opgraft::DeviceTensor<float>) {});

// The square of each element, in the host's threads, and in which.
OPGRAFT_OP("eager.pack::Squares").Input<float>("x").Output<float>("y").Output<std::int64_t>("thread")
    .Shape(opgraft::SameAs("x"), opgraft::SameAs("x"))
    .Cpu([](opgraft::Context& context, opgraft::Tensor<const float> x, opgraft::Tensor<float> y,
            opgraft::Tensor<std::int64_t> thread) {
      context.ParallelFor(x.size(), [&](std::size_t i) {
        y[i] = x[i] * x[i];
        thread[i] = static_cast<std::int64_t>(
            std::hash<std::thread::id>()(std::this_thread::get_id()) >> 1);
      });
    });

// At least 0.2 seconds, during which Python must be free.
OPGRAFT_OP("eager.pack::Wait").Input<float>("x").Output<float>("y").Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y) {
      struct timespec time = {0, 200'000'000};
      nanosleep(&time, nullptr);
      std::ranges::copy(x, y.begin());
    });
"""

pack = opgraft.load(build_once("eager", _PACK))
python_operators = torch.ops.eager_py
pack_operators = torch.ops.eager_pack
