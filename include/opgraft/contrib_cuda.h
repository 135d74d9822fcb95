// CUDA kernels in the style of ONNX Runtime's tree: replaces core/providers/cuda/cuda_common.h and
// cuda_kernel.h. Needs CUDA's toolkit.
//
//   namespace onnxruntime::contrib::cuda {
//
//   class Twice final : public onnxruntime::cuda::CudaKernel {
//    public:
//     explicit Twice(const OpKernelInfo& info) : CudaKernel(info) {}
//     Status ComputeInternal(OpKernelContext* context) const override {
//       const Tensor& x = context->RequiredInput<Tensor>(0);
//       Tensor& y = context->RequiredOutput(0, x.Shape());
//       LaunchTwice(Stream(context), x.Data<float>(), y.MutableData<float>(), x.Shape().Size());
//       return Status::OK();
//     }
//   };
//
//   ONNX_OPERATOR_KERNEL_EX(Twice, "my.domain", 1, kCudaExecutionProvider,
//                           KernelDefBuilder().TypeConstraint("T",
//                           BuildKernelDefConstraints<float>()), Twice);
//
//   }  // namespace onnxruntime::contrib::cuda
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "opgraft/contrib.h"

struct __half;         // from cuda_fp16.h
struct __nv_bfloat16;  // from cuda_bf16.h

#define OPGRAFT_CUDA_STATUS(error, expression)                                     \
  ORT_MAKE_STATUS(ONNXRUNTIME, FAIL, "CUDA error ", cudaGetErrorName(error), ": ", \
                  cudaGetErrorString(error), ", in ", expression)
#define CUDA_RETURN_IF_ERROR(expression)                                                      \
  do {                                                                                        \
    const cudaError_t opgraft_error = (expression);                                           \
    if (opgraft_error != cudaSuccess) return OPGRAFT_CUDA_STATUS(opgraft_error, #expression); \
  } while (false)
#define CUDA_CALL(expression)           \
  [&]() -> ::onnxruntime::Status {      \
    CUDA_RETURN_IF_ERROR(expression);   \
    return ::onnxruntime::Status::OK(); \
  }()
#define CUDA_CALL_THROW(expression) ORT_THROW_IF_ERROR(CUDA_CALL(expression))

#pragma GCC visibility push(hidden)
namespace onnxruntime::cuda {

/// Maps an element type to CUDA's own type.
template <class T>
class ToCudaType {
 public:
  using MappedType = T;
};
template <>
class ToCudaType<MLFloat16> {
 public:
  using MappedType = __half;
};
template <>
class ToCudaType<BFloat16> {
 public:
  using MappedType = __nv_bfloat16;
};

/// The base class of CUDA kernels, which implement ComputeInternal. Tensors are on the GPU, and
/// work is put on the stream.
class CudaKernel : public OpKernel {
 public:
  explicit CudaKernel(const OpKernelInfo& info) : OpKernel(info) {}

  Status Compute(OpKernelContext* context) const final {
    Status status = ComputeInternal(context);
    if (!status.IsOK()) return status;
    const cudaError_t error = cudaGetLastError();  // from a kernel launch
    return error == cudaSuccess ? status : OPGRAFT_CUDA_STATUS(error, "the kernel");
  }
  virtual Status ComputeInternal(OpKernelContext* context) const = 0;

  /// Allocates GPU memory that is valid until the work is done that the call puts on the stream.
  template <class T>
  IAllocatorUniquePtr<T> GetScratchBuffer(std::size_t count, onnxruntime::Stream* stream) const {
    if (count == 0) return nullptr;
    ORT_ENFORCE(stream != nullptr,
                "GetScratchBuffer: the stream must be context->GetComputeStream(), not null");
    return IAllocator::MakeUniquePtr<T>(stream->Memory(), count);
  }
  /// Allocates host memory. It is not pinned: cudaMemcpyAsync copies from it before it returns.
  template <class T>
  IAllocatorUniquePtr<T> AllocateBufferOnCPUPinned(std::size_t count) const {
    return count == 0 ? nullptr : IAllocator::MakeUniquePtr<T>(IAllocator::Heap(), count);
  }

  cudaStream_t Stream(OpKernelContext* context) const {
    return static_cast<cudaStream_t>(context->GetComputeStream()->GetHandle());
  }
  onnxruntime::Stream* GetComputeStream(OpKernelContext* context) const {
    return context->GetComputeStream();
  }
  /// Returns the properties of the thread's current GPU.
  const cudaDeviceProp& GetDeviceProp() const {
    static std::mutex mutex;
    static auto* const known = new std::map<int, cudaDeviceProp>;
    int device = 0;
    CUDA_CALL_THROW(cudaGetDevice(&device));
    const std::lock_guard lock(mutex);
    if (known->find(device) == known->end()) {
      cudaDeviceProp properties = {};
      CUDA_CALL_THROW(cudaGetDeviceProperties(&properties, device));
      known->emplace(device, properties);
    }
    return known->at(device);
  }

  /// A list that is filled on the host and read on the GPU.
  template <class T>
  class CudaAsyncBuffer {
   public:
    explicit CudaAsyncBuffer(const CudaKernel* kernel) : kernel_(kernel) {}
    CudaAsyncBuffer(const CudaKernel* kernel, std::size_t count) : CudaAsyncBuffer(kernel) {
      AllocCpuPtr(count);
    }
    CudaAsyncBuffer(const CudaKernel* kernel, const T& value, std::size_t count)
        : CudaAsyncBuffer(kernel) {
      elements_.assign(count, value);
    }
    CudaAsyncBuffer(const CudaKernel* kernel, gsl::span<const T> elements)
        : CudaAsyncBuffer(kernel) {
      elements_.assign(elements.begin(), elements.end());
    }

    void AllocCpuPtr(std::size_t count) { elements_.resize(count); }
    Status CopyToGpu(onnxruntime::Stream* stream) {
      if (elements_.empty()) return Status::OK();
      gpu_ = kernel_->GetScratchBuffer<T>(elements_.size(), stream);
      CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(gpu_.get(), elements_.data(),
                                           elements_.size() * sizeof(T), cudaMemcpyHostToDevice,
                                           static_cast<cudaStream_t>(stream->GetHandle())));
      return Status::OK();
    }
    T* CpuPtr() { return elements_.data(); }
    gsl::span<T> CpuSpan() { return elements_; }
    T* GpuPtr() const { return gpu_.get(); }
    std::size_t count() const { return elements_.size(); }

   private:
    const CudaKernel* const kernel_;
    std::vector<T> elements_;
    IAllocatorUniquePtr<T> gpu_;
  };
};

}  // namespace onnxruntime::cuda
#pragma GCC visibility pop
