// The kernels of the test pack for opgraft/contrib.h, in the manner of ONNX Runtime's tree.
#include <opgraft/contrib.h>

#include <atomic>
#include <numeric>
#include <string>

namespace onnxruntime {
namespace contrib {

constexpr const char* kTestDomain = "test.contrib";

class Attributes final : public OpKernel {
 public:
  explicit Attributes(const OpKernelInfo& info) : OpKernel(info) {
    ORT_THROW_IF_ERROR(info.GetAttr<float>("number", &number_));
    int64_t count = 0;
    info.GetAttrOrDefault<int64_t>("count", &count, 0);
    std::vector<float> numbers;
    ORT_THROW_IF_ERROR(info.GetAttrs<float>("numbers", numbers));
    const auto counts = info.GetAttrsOrDefault<int64_t>("counts", {7});
    ORT_ENFORCE(!info.GetAttr<float>("absent", &number_).IsOK());
    text_ = MakeString(number_, " ", count, " ", info.GetAttr<std::string>("mode"), " ",
                       std::accumulate(numbers.begin(), numbers.end(), 0.0f), " ",
                       std::accumulate(counts.begin(), counts.end(), int64_t{0}), " ",
                       info.GetAttr<int64_t>("needed"), " ", info.GetInputCount(), " ",
                       info.node().Name(), " ", info.node().OpType());
  }
  Status Compute(OpKernelContext* ctx) const override {
    const auto* x = ctx->Input<Tensor>(0);
    Tensor* y = ctx->Output(0, {1});
    y->MutableData<std::string>()[0] =
        text_ + (x != nullptr ? " " + x->Shape().ToString() : " absent");
    return Status::OK();
  }

 private:
  float number_ = 0;
  std::string text_;
};

ONNX_OPERATOR_KERNEL_EX(Attributes, kTestDomain, 1, kCpuExecutionProvider,
                        KernelDefBuilder().TypeConstraint("T",
                                                          DataTypeImpl::GetTensorType<float>()),
                        Attributes);

class Join final : public OpKernel {
 public:
  explicit Join(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* ctx) const override {
    const auto& first = ctx->RequiredInput<Tensor>(0);
    auto whole = ctx->Output(0, first.Shape())->MutableDataAsSpan<std::string>();
    for (int i = 0; i < ctx->NumVariadicInputs(0); ++i) {
      const auto part = ctx->Input<Tensor>(i)->DataAsSpan<std::string>();
      ORT_RETURN_IF_NOT(part.size() == whole.size(), "input ", i, " has another size");
      for (size_t j = 0; j < whole.size(); ++j) whole[j] += part[j];
    }
    return Status::OK();
  }
};

ONNX_OPERATOR_KERNEL_EX(Join, kTestDomain, 1, kCpuExecutionProvider, KernelDefBuilder(), Join);

class Count final : public OpKernel {
 public:
  explicit Count(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* ctx) const override {
    Tensor* numbers = ctx->Output(0, {ctx->InputCount()});
    for (int i = 0; i < ctx->InputCount(); ++i) {
      numbers->MutableData<int64_t>()[i] = ctx->Input<Tensor>(i)->GetElementType();
    }
    return Status::OK();
  }
};

ONNX_OPERATOR_KERNEL_EX(Count, kTestDomain, 1, kCpuExecutionProvider, KernelDefBuilder(), Count);

class Fail final : public OpKernel {
 public:
  explicit Fail(const OpKernelInfo& info) : OpKernel(info), how_(info.GetAttr<std::string>("how")) {
    ORT_ENFORCE(how_ != "constructor", "made badly");
    if (how_ == "kind") ORT_IGNORE_RETURN_VALUE(info.GetAttr<int64_t>("how"));
  }
  Status Compute(OpKernelContext* ctx) const override {
    const auto* x = ctx->Input<Tensor>(0);
    if (how_ == "status") return ORT_MAKE_STATUS(ONNXRUNTIME, INVALID_ARGUMENT, "no ", 7);
    if (how_ == "graph") return ORT_MAKE_STATUS(ONNXRUNTIME, INVALID_GRAPH, "a bad graph");
    ORT_RETURN_IF(how_ == "if", "it is so");
    if (how_ == "error") ORT_RETURN_IF_ERROR(Status(common::ONNXRUNTIME, common::FAIL, "inner"));
    ORT_ENFORCE(how_ != "enforce", "forced ", 8);
    if (how_ == "throw") ORT_THROW("thrown ", 9);
    if (how_ == "not implemented") ORT_NOT_IMPLEMENTED("not yet");
    if (how_ == "standard") throw std::out_of_range("far out");
    if (how_ == "number") throw 5;
    if (how_ == "type") ORT_UNUSED_PARAMETER(x->Data<double>());
    if (how_ == "negative") ORT_UNUSED_PARAMETER(ctx->Output(0, {-1}));
    if (how_ == "twice") {
      ORT_UNUSED_PARAMETER(ctx->Output(0, {1}));
      ORT_UNUSED_PARAMETER(ctx->Output(0, {2}));
    }
    if (how_ == "dispatch") {
      utils::MLTypeCallDispatcher<double, MLFloat16>(x->GetElementType()).Invoke<Nothing>();
    }
    return Status::OK();
  }

 private:
  template <class T>
  struct Nothing {
    void operator()() const {}
  };
  const std::string how_;
};

ONNX_OPERATOR_KERNEL_EX(Fail, kTestDomain, 1, kCpuExecutionProvider, KernelDefBuilder(), Fail);

class AddConstant final : public OpKernel {
 public:
  explicit AddConstant(const OpKernelInfo& info) : OpKernel(info) {
    if (!info.TryGetConstantInput(1, &constant_)) ORT_THROW("the constant is not known");
  }
  Status Compute(OpKernelContext* ctx) const override {
    const auto x = ctx->RequiredInput<Tensor>(0).DataAsSpan<float>();
    auto y = ctx->Output(0, ctx->Input<Tensor>(0)->Shape())->MutableDataAsSpan<float>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] + *constant_->Data<float>();
    return Status::OK();
  }

 private:
  const Tensor* constant_ = nullptr;
};

ONNX_OPERATOR_KERNEL_EX(AddConstant, kTestDomain, 1, kCpuExecutionProvider,
                        KernelDefBuilder().MayInplace(0, 0), AddConstant);

template <typename T>
class Double final : public OpKernel {
 public:
  explicit Double(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* ctx) const override {
    const Tensor& x = ctx->RequiredInput<Tensor>(0);
    Tensor& y = ctx->RequiredOutput(0, x.Shape());
    for (int64_t i = 0; i < x.Shape().Size(); ++i) {
      y.MutableData<T>()[i] = static_cast<T>(x.Data<T>()[i] + x.Data<T>()[i]);
    }
    return Status::OK();
  }
};

#define REGISTER_DOUBLE(T)                                                                     \
  ONNX_OPERATOR_TYPED_KERNEL_EX(                                                               \
      Double, kTestDomain, 1, T, kCpuExecutionProvider,                                        \
      KernelDefBuilder().MayInplace(0, 0).TypeConstraint("T", BuildKernelDefConstraints<T>()), \
      Double<T>)

REGISTER_DOUBLE(float)
REGISTER_DOUBLE(double)
REGISTER_DOUBLE(MLFloat16)
REGISTER_DOUBLE(BFloat16)
REGISTER_DOUBLE(int8_t)
REGISTER_DOUBLE(uint64_t)

template <int64_t kNumber>
class Version final : public OpKernel {
 public:
  explicit Version(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* ctx) const override {
    *ctx->Output(0, TensorShape({}))->MutableData<int64_t>() = kNumber;
    return Status::OK();
  }
};

ONNX_OPERATOR_VERSIONED_KERNEL_EX(Version, kTestDomain, 1, 1, kCpuExecutionProvider,
                                  KernelDefBuilder(), Version<1>);
ONNX_OPERATOR_KERNEL_EX(Version, kTestDomain, 2, kCpuExecutionProvider, KernelDefBuilder(),
                        Version<2>);

class Loops final : public OpKernel {
 public:
  explicit Loops(const OpKernelInfo& info)
      : OpKernel(info), loop_(info.GetAttr<std::string>("loop")) {}
  Status Compute(OpKernelContext* ctx) const override {
    using concurrency::ThreadPool;
    const Tensor& x = ctx->RequiredInput<Tensor>(0);
    const float* from = x.Data<float>();
    float* to = ctx->Output(0, x.Shape())->MutableData<float>();
    const auto size = narrow<std::ptrdiff_t>(x.Shape().Size());
    ThreadPool* pool = ctx->GetOperatorThreadPool();
    if (loop_ == "ranges") {
      const TensorOpCost cost{sizeof(float), sizeof(float), 1000};
      ThreadPool::TryParallelFor(pool, size, cost, [&](std::ptrdiff_t first, std::ptrdiff_t last) {
        for (std::ptrdiff_t i = first; i < last; ++i) to[i] = from[i] + 1;
      });
    } else if (loop_ == "simple") {
      ThreadPool::TrySimpleParallelFor(pool, size, [&](std::ptrdiff_t i) { to[i] = from[i] + 1; });
    } else if (loop_ == "batches") {
      ThreadPool::TryBatchParallelFor(
          pool, size, [&](std::ptrdiff_t i) { to[i] = from[i] + 1; }, 3);
    } else if (loop_ == "no pool") {
      ThreadPool::TryBatchParallelFor(
          nullptr, size, [&](std::ptrdiff_t i) { to[i] = from[i] + 1; }, 0);
    } else if (loop_ == "nested") {
      AllocatorPtr allocator;
      ORT_RETURN_IF_ERROR(ctx->GetTempSpaceAllocator(&allocator));
      auto copy = IAllocator::MakeUniquePtr<float>(allocator, SafeInt<size_t>(size) + 0);
      ThreadPool::TrySimpleParallelFor(pool, 8, [&](std::ptrdiff_t part) {
        auto scratch = IAllocator::MakeUniquePtr<float>(allocator, narrow<size_t>(size));
        const auto work = ThreadPool::PartitionWork(part, 8, size);
        ThreadPool::TrySimpleParallelFor(pool, work.end - work.start, [&](std::ptrdiff_t i) {
          scratch.get()[work.start + i] = from[work.start + i] + 1;
        });
        std::copy(scratch.get() + work.start, scratch.get() + work.end, copy.get() + work.start);
      });
      std::copy(copy.get(), copy.get() + size, to);
    } else {
      ThreadPool::TrySimpleParallelFor(
          pool, size, [&](std::ptrdiff_t i) { ORT_ENFORCE(i != 5, "round ", i, " went wrong"); });
    }
    return Status::OK();
  }

 private:
  const std::string loop_;
};

ONNX_OPERATOR_KERNEL_EX(Loops, kTestDomain, 1, kCpuExecutionProvider, KernelDefBuilder(), Loops);

class Shapes final : public OpKernel {
 public:
  explicit Shapes(const OpKernelInfo& info)
      : OpKernel(info), times_(info.GetAttr<int64_t>("times")) {}
  Status Compute(OpKernelContext* ctx) const override {
    TensorShape shape = ctx->Input<Tensor>(0)->Shape();
    shape[1] *= times_;
    Tensor* y = ctx->Output(0, shape);
    std::fill_n(y->MutableData<float>(), shape.Size(), 0.0f);
    return Status::OK();
  }

 private:
  const int64_t times_;
};

ONNX_OPERATOR_KERNEL_EX(Shapes, kTestDomain, 1, kCpuExecutionProvider, KernelDefBuilder(), Shapes);

class Broadcast final : public OpKernel {
 public:
  explicit Broadcast(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* ctx) const override {
    const TensorShape& a = ctx->Input<Tensor>(0)->Shape();
    const TensorShape& b = ctx->Input<Tensor>(1)->Shape();
    TensorShapeVector sizes =
        a.NumDimensions() > b.NumDimensions() ? a.AsShapeVector() : b.AsShapeVector();
    for (size_t i = 1; i <= std::min(a.NumDimensions(), b.NumDimensions()); ++i) {
      sizes[sizes.size() - i] = std::max(a[a.NumDimensions() - i], b[b.NumDimensions() - i]);
    }
    Tensor* y = ctx->Output(0, sizes);
    std::fill_n(y->MutableData<float>(), y->Shape().Size(), 0.0f);
    if (Tensor* size = ctx->Output(1, {1})) *size->MutableData<int64_t>() = y->Shape().Size();
    return Status::OK();
  }
};

ONNX_CPU_OPERATOR_MS_KERNEL(OpgraftTestBroadcast, 1, KernelDefBuilder(), Broadcast);

}  // namespace contrib
}  // namespace onnxruntime
