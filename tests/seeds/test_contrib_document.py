"""The C++ of document 003 as it stands there: its bodies filled in, its includes ours, run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from fake_gpu import PROVIDERS, FakeGpu
from pack_building import KEPT, build_pack, find_compiler
from tester_programs import compile_tests, run_tests

from conftest import SEEDS, VERSION
from opgraft._cuda import _provider

pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"the documents are not here: {SEEDS.parent.name}/{SEEDS.name}"
)

SCHEMA = """
    .SetDoc("Inverts square matrices.")
    .Input(0, "X", "Matrices in the last two axes.", "T")
    .Output(0, "Y", "Their inverses.", "T")
    .TypeConstraint("T", {"tensor(float16)", "tensor(float)", "tensor(double)"}, "Floats.")
    .TypeAndShapeInferenceFunction([](ONNX_NAMESPACE::InferenceContext& ctx) {
      propagateElemTypeFromInputToOutput(ctx, 0, 0);
      if (!hasInputShape(ctx, 0)) return;
      const auto& shape = getInputShape(ctx, 0);
      const int rank = shape.dim_size();
      if (rank < 2) fail_shape_inference("Input rank must be >= 2.");
      const auto& rows = shape.dim(rank - 2);
      const auto& columns = shape.dim(rank - 1);
      if (rows.has_dim_value() && columns.has_dim_value() &&
          rows.dim_value() != columns.dim_value()) {
        fail_shape_inference("The matrices must be square.");
      }
      propagateShapeFromInputToOutput(ctx, 0, 0);
    });
"""

MEMBERS = """
  template <typename T>
  struct ComputeImpl;
"""

# Gauss and Jordan's way; half floats are computed with as floats.
KERNEL = """
  const auto& input = ctx->RequiredInput<Tensor>(0);
  const auto& shape = input.Shape();
  const auto rank = shape.NumDimensions();
  ORT_RETURN_IF_NOT(rank >= 2, "Input tensor rank must be >= 2, got: ", rank);
  const int64_t size = shape[rank - 1];
  ORT_RETURN_IF(size != shape[rank - 2], "The matrices are not square: ", shape);
  Tensor* output = ctx->Output(0, shape);
  std::function<void(ptrdiff_t)> fn = [&](ptrdiff_t batch) {
    utils::MLTypeCallDispatcher<float, double, MLFloat16> dispatcher(input.GetElementType());
    dispatcher.Invoke<ComputeImpl>(input, output, batch * size * size, size);
  };
  concurrency::ThreadPool::TryBatchParallelFor(
      ctx->GetOperatorThreadPool(), narrow<ptrdiff_t>(shape.SizeToDimension(rank - 2)),
      std::move(fn), 0);
  return Status::OK();
"""

# The same on the fake GPU: the work goes to the stream.
CUDA_KERNEL = """
  const auto& input = ctx->RequiredInput<Tensor>(0);
  const int64_t size = input.Shape()[input.Shape().NumDimensions() - 1];
  Tensor* output = ctx->Output(0, input.Shape());
  void* const data = const_cast<void*>(input.DataRaw());
  auto from = std::make_shared<Tensor>(input.DataType(), input.Shape(), fake::Alias(data));
  auto to = std::make_shared<Tensor>(input.DataType(), input.Shape(),
                                     fake::Alias(output->MutableDataRaw()));
  fake::Launch(ctx->GetComputeStream()->GetHandle(), [from, to, size] {
    for (int64_t offset = 0; offset < from->Shape().Size(); offset += size * size) {
      utils::MLTypeCallDispatcher<float, double, MLFloat16> dispatcher(from->GetElementType());
      dispatcher.Invoke<ComputeImpl>(*from, to.get(), offset, size);
    }
  });
  return Status::OK();
"""

IMPLEMENTATION = """
template <typename T>
struct Inverse::ComputeImpl {
  void operator()(const Tensor& input, Tensor* output, int64_t offset, int64_t n) const {
    const T* from = input.Data<T>() + offset;
    T* to = output->MutableData<T>() + offset;
    std::vector<double> a(from, from + n * n);
    std::vector<double> b(n * n);
    for (int64_t i = 0; i < n; ++i) b[i * n + i] = 1;
    for (int64_t i = 0; i < n; ++i) {
      int64_t pivot = i;
      for (int64_t j = i; j < n; ++j) {
        if (std::abs(a[j * n + i]) > std::abs(a[pivot * n + i])) pivot = j;
      }
      ORT_ENFORCE(a[pivot * n + i] != 0, "The matrix is singular.");
      for (int64_t k = 0; k < n; ++k) {
        std::swap(a[i * n + k], a[pivot * n + k]);
        std::swap(b[i * n + k], b[pivot * n + k]);
      }
      const double factor = a[i * n + i];
      for (int64_t k = 0; k < n; ++k) {
        a[i * n + k] /= factor;
        b[i * n + k] /= factor;
      }
      for (int64_t j = 0; j < n; ++j) {
        const double times = a[j * n + i];
        if (j == i) continue;
        for (int64_t k = 0; k < n; ++k) {
          a[j * n + k] -= times * a[i * n + k];
          b[j * n + k] -= times * b[i * n + k];
        }
      }
    }
    for (int64_t i = 0; i < n * n; ++i) to[i] = static_cast<T>(static_cast<float>(b[i]));
  }
};
"""


def blocks() -> tuple[str, str, str]:
    """The document's schema, kernel and test."""
    (path,) = SEEDS.glob("003_*.txt")
    schema, kernel, test = re.findall(r"```(?:c|c\+\+)\n(.*?)```", path.read_text(), re.S)
    return schema, kernel, test


def fill(code: str, *bodies: str) -> str:
    """The document has '...' where a body belongs."""
    parts = re.split(r"^ *\.\.\.(?: //.*)?$", code, flags=re.M)
    assert len(parts) == len(bodies) + 1
    filled = "".join(part + body for part, body in zip(parts, [*bodies, ""], strict=True))
    assert "..." not in filled
    return filled


@pytest.fixture(scope="module")
def folder() -> Path:
    made = KEPT / "document_003"
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request: pytest.FixtureRequest) -> str:
    find_compiler(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def pack(folder: Path, compiler: str) -> Path:
    schema, kernel, _ = blocks()
    (folder / "contrib_defs.cc").write_text("#include <opgraft/contrib.h>\n" + fill(schema, SCHEMA))
    before, behind = kernel.split("Status Inverse::Compute")
    kernel = before + IMPLEMENTATION + "\nStatus Inverse::Compute" + behind
    (folder / "inverse.cc").write_text(
        "#include <opgraft/contrib.h>\n#include <cmath>\n" + fill(kernel, MEMBERS, KERNEL)
    )
    return build_pack([folder / "inverse.cc", folder / "contrib_defs.cc"], compiler)


def open_session(
    pack: Path, kind: str = "float", providers: Sequence[str] = ("CPUExecutionProvider",)
) -> onnxruntime.InferenceSession:
    model = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        g ({kind} x) => ({kind} z) {{ y = com.microsoft.Inverse (x) z = Identity (y) }}""")
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.ClearField("shape")
    model.graph.node[0].name = "the node"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(pack))
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=list(providers)
    )


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_the_kernel_inverts(pack: Path, kind: str) -> None:
    matrices = np.random.default_rng(1).normal(size=(5, 4, 3, 3)) + 4 * np.eye(3)
    x = matrices.astype({"float": np.float32}.get(kind, kind))
    (y,) = open_session(pack, kind).run(None, {"x": x})
    assert y.dtype == x.dtype
    tolerance = 1e-2 if kind == "float16" else 1e-5
    np.testing.assert_allclose(y @ x, np.broadcast_to(np.eye(3), x.shape), atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3), "[ShapeInferenceError] The matrices must be square."),
        ((3,), "[ShapeInferenceError] Input rank must be >= 2."),
        ((2, 2), "The matrix is singular."),
    ],
)
def test_it_is_our_kernel_that_refuses(pack: Path, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(Exception) as failure:
        open_session(pack).run(None, {"x": np.zeros(shape, np.float32)})
    text = str(failure.value)
    assert "node 'the node', operator com.microsoft::Inverse: " in text
    assert message in text


@pytest.mark.skipif(VERSION < (1, 26), reason="this ONNX Runtime finds no provider by its name")
def test_the_kernel_for_cuda(fake_gpu: FakeGpu, folder: Path) -> None:
    """The document has it in a folder of its own, and says of it no more than that."""
    schema, kernel, _ = blocks()
    sources = [folder / "cuda_contrib_defs.cc", folder / "cuda_inverse.cc"]
    sources[0].write_text("#include <opgraft/contrib.h>\n" + fill(schema, SCHEMA))
    before, behind = kernel.split("Status Inverse::Compute")
    kernel = before + IMPLEMENTATION + "\nStatus Inverse::Compute" + behind
    kernel = kernel.replace("kCpuExecutionProvider", "kCudaExecutionProvider")
    include = "#include <opgraft/contrib.h>\n#include <fake_kernel.h>\n#include <cmath>\n"
    sources[1].write_text(include + fill(kernel, MEMBERS, CUDA_KERNEL))
    pack = build_pack(sources, include=[Path(__file__).parents[1] / "cuda"])
    assert not _provider.find_problem()  # which registers the provider
    matrices = np.random.default_rng(1).normal(size=(5, 3, 3)) + 4 * np.eye(3)
    x = matrices.astype(np.float32)
    before_run = fake_gpu.counts()["launches"]
    (y,) = open_session(pack, "float", PROVIDERS).run(None, {"x": x})
    assert fake_gpu.counts()["launches"] == before_run + 1
    np.testing.assert_allclose(y @ x, np.broadcast_to(np.eye(3), x.shape), atol=1e-5)


def test_the_documents_test(pack: Path, folder: Path, compiler: str) -> None:
    _, _, test = blocks()
    source = folder / "inverse_test.cc"
    source.write_text("#include <opgraft/contrib_testing.h>\n" + fill(test, ""))
    printed = run_tests(compile_tests(compiler, source), pack)
    assert "[       OK ] InverseContribOpTest.two_by_two_float" in printed
