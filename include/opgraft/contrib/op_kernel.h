// Kernels in the style of ONNX Runtime's tree: classes derived from OpKernel, what they can query
// when they are created and when they run, and the macros that add them to the pack.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/contrib/kernel_def.h"
#include "opgraft/contrib/schema.h"
#include "opgraft/contrib/status.h"
#include "opgraft/contrib/tensor.h"
#include "opgraft/contrib/threadpool.h"
#include "opgraft/kernel.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {

/// An input of a node.
class NodeArg {
 public:
  NodeArg(std::string name, bool exists) : name_(std::move(name)), exists_(exists) {}
  /// The schema's name of the input, because packs do not get the names of values.
  const std::string& Name() const { return name_; }
  bool Exists() const { return exists_; }

 private:
  std::string name_;
  bool exists_;
};

class Node {
 public:
  Node(const opgraft::internal::NodeState& state, OpgraftNode* host);

  const std::string& Name() const { return state_.name; }
  const std::string& OpType() const { return state_.definition->name; }
  const std::string& Domain() const { return state_.definition->domain; }
  int SinceVersion() const { return state_.definition->since_version; }
  const std::vector<const NodeArg*>& InputDefs() const { return inputs_; }

 private:
  const opgraft::internal::NodeState& state_;
  std::deque<NodeArg> arguments_;
  std::vector<const NodeArg*> inputs_;
};

namespace contrib_internal {

/// What OpKernelInfo points to. It lives as long as the kernel.
struct KernelNode {
  KernelNode(const opgraft::internal::OperatorDefinition& definition,
             const opgraft::internal::KernelDefinition& kernel, OpgraftNode* host_node);

  const opgraft::internal::NodeState state;
  const std::span<const std::int32_t>
      kernel_types;   ///< the element type of each of the operator's types
  OpgraftNode* host;  ///< nullptr after the kernel is created
  const Node node;
  std::map<int, std::optional<Tensor>> constants;
};

}  // namespace contrib_internal

/// What a kernel can query when it is created. Copies may be kept.
class OpKernelInfo {
 public:
  explicit OpKernelInfo(contrib_internal::KernelNode* node) : node_(node) {}

  /// Gets an attribute or its default in the schema. T is float, int64_t or std::string.
  template <class T>
  Status GetAttr(const std::string& name, T* value) const {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int64_t> ||
                      std::is_same_v<T, std::string>,
                  "GetAttr: T must be float, int64_t or std::string");
    return Read(name, value);
  }
  template <class T>
  [[nodiscard]] T GetAttr(const std::string& name) const {
    T value = {};
    ORT_THROW_IF_ERROR(GetAttr(name, &value));
    return value;
  }
  template <class T>
  [[nodiscard]] T GetAttrOrDefault(const std::string& name, const T& fallback) const {
    T value = {};
    return GetAttr(name, &value).IsOK() ? value : fallback;
  }
  template <class T>
  void GetAttrOrDefault(const std::string& name, T* value, const T& fallback) const {
    *value = GetAttrOrDefault(name, fallback);
  }
  /// Gets a list of the same types.
  template <class T>
  Status GetAttrs(const std::string& name, std::vector<T>& values) const {
    return Read(name, &values);
  }
  template <class T>
  [[nodiscard]] std::vector<T> GetAttrsOrDefault(const std::string& name,
                                                 const std::vector<T>& fallback = {}) const {
    std::vector<T> values;
    return GetAttrs(name, values).IsOK() ? values : fallback;
  }
  /// Copies the list into memory of the caller; fails if the sizes differ.
  template <class T>
  Status GetAttrs(const std::string& name, std::span<T> values) const {
    std::vector<T> read;
    ORT_RETURN_IF_ERROR(Read(name, &read));
    ORT_RETURN_IF(read.size() != values.size(), "GetAttrs: attribute '", name, "' has ",
                  read.size(), " elements, expected ", values.size());
    std::copy(read.begin(), read.end(), values.begin());
    return Status::OK();
  }

  /// Gets the value of an input that is the same in every run: a copy, which lives as long as the
  /// kernel. Returns false if the input is not constant or not in host memory. After the kernel is
  /// created, finds only values that were requested before.
  bool TryGetConstantInput(int index, const Tensor** value) const;

  std::uint32_t GetInputCount() const {
    return static_cast<std::uint32_t>(node_->state.input_count);
  }
  std::uint32_t GetOutputCount() const {
    return static_cast<std::uint32_t>(node_->state.output_count);
  }
  const Node& node() const noexcept { return node_->node; }
  /// Returns an allocator of host memory. In a CUDA kernel this throws for the default type: GPU
  /// memory is available only during a run.
  AllocatorPtr GetAllocator(OrtMemType type = OrtMemTypeDefault) const;

 private:
  template <class A>
  Status Read(const std::string& name, A* value) const {
    const opgraft::AttributeValue* const found = Find(name);
    if (found == nullptr) {
      return ORT_MAKE_STATUS(ONNXRUNTIME, FAIL, "No attribute with name:'", name,
                             "' is defined in the schema.");
    }
    if (const A* const held = std::get_if<A>(found)) {
      *value = *held;
      return Status::OK();
    }
    const bool is_absent = std::holds_alternative<std::monostate>(*found);
    return ORT_MAKE_STATUS(ONNXRUNTIME, FAIL, "Attribute '", name, "' ",
                           is_absent ? "is absent, and the schema has no default."
                                     : "is not of the kind that the kernel asks for.");
  }
  const opgraft::AttributeValue* Find(const std::string& name) const;

  contrib_internal::KernelNode* node_;
};

struct PrePackedWeights;
class OpKernelContext;

/// The stream of a run on a GPU.
class Stream {
 public:
  Stream(void* handle, AllocatorPtr memory) : handle_(handle), memory_(std::move(memory)) {}

  /// A cudaStream_t.
  void* GetHandle() const { return handle_; }
  /// GPU memory that is valid until the work is done that the call puts on the stream.
  const AllocatorPtr& Memory() const { return memory_; }

 private:
  void* handle_;
  AllocatorPtr memory_;
};

class OpKernel {
 public:
  explicit OpKernel(const OpKernelInfo& info) : info_(info) {}
  virtual ~OpKernel() = default;
  ORT_DISALLOW_COPY_ASSIGNMENT_AND_MOVE(OpKernel);

  /// Calls may overlap.
  virtual Status Compute(OpKernelContext* context) const = 0;
  /// Never called by Opgraft. Kernels must also work with weights that are not packed.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): as in the runtime
  virtual Status PrePack(const Tensor& /*tensor*/, int /*input*/, AllocatorPtr /*allocator*/,
                         bool& is_packed, PrePackedWeights* /*weights*/) {
    is_packed = false;
    return Status::OK();
  }

  const OpKernelInfo& Info() const { return info_; }
  const onnxruntime::Node& Node() const { return info_.node(); }

 private:
  const OpKernelInfo info_;
};

/// One run of a kernel, on the thread that runs it.
class OpKernelContext {
 public:
  OpKernelContext(const contrib_internal::KernelNode& node, OpgraftCall* call);
  ~OpKernelContext();
  ORT_DISALLOW_COPY_ASSIGNMENT_AND_MOVE(OpKernelContext);

  int InputCount() const { return static_cast<int>(inputs_.size()); }
  int OutputCount() const { return static_cast<int>(outputs_.size()); }
  int NumVariadicInputs(std::size_t parameter) const;

  /// Returns nullptr for an input that is absent. T is Tensor.
  template <class T>
  const T* Input(int index) const {
    static_assert(std::is_same_v<T, Tensor>, "inputs are tensors: ctx->Input<Tensor>(i)");
    return FindInput(index);
  }
  template <class T>
  const T& RequiredInput(int index) const {
    const T* const input = Input<T>(index);
    ORT_ENFORCE(input != nullptr, "Required input at index ", index, " is not present.");
    return *input;
  }
  /// Allocates an output; returns nullptr if nothing uses it.
  Tensor* Output(int index, const TensorShape& shape);
  Tensor* Output(int index, std::initializer_list<std::int64_t> shape) {
    return Output(index, TensorShape(shape));
  }
  /// Returns an output that has already been allocated.
  template <class T>
  T* Output(int index) {
    static_assert(std::is_same_v<T, Tensor>, "outputs are tensors: ctx->Output(i, shape)");
    const bool is_allocated = index >= 0 && index < OutputCount() && outputs_[Place(index)];
    return is_allocated ? &*outputs_[Place(index)] : nullptr;
  }
  Tensor& RequiredOutput(int index, const TensorShape& shape) {
    Tensor* const output = Output(index, shape);
    ORT_ENFORCE(output != nullptr, "Required output at index ", index, " is not present.");
    return *output;
  }

  /// The runtime's memory, valid until the call returns; in a CUDA kernel it is on the GPU.
  [[nodiscard]] Status GetTempSpaceAllocator(AllocatorPtr* allocator) const;
  [[nodiscard]] Status GetTempSpaceCPUAllocator(AllocatorPtr* allocator) const;
  /// Returns nullptr in a CPU kernel.
  Stream* GetComputeStream() const;
  concurrency::ThreadPool* GetOperatorThreadPool() const { return &pool_; }
  const std::string& GetNodeName() const { return node_.state.name; }
  const std::string& GetOpType() const { return node_.state.definition->name; }
  const std::string& GetOpDomain() const { return node_.state.definition->domain; }
  bool GetUseDeterministicCompute() const { return true; }

  /// Called after the kernel: hands over outputs of strings, and throws if an output is missing.
  void Finish();

 private:
  class CallAllocator;
  static std::size_t Place(int index) { return static_cast<std::size_t>(index); }
  const Tensor* FindInput(int index) const;

  const contrib_internal::KernelNode& node_;
  OpgraftCall* const call_;
  mutable opgraft::Context context_;
  mutable concurrency::ThreadPool pool_{&context_};
  mutable std::vector<std::optional<Tensor>> inputs_;
  mutable std::vector<bool> is_read_;  // for each input
  std::vector<std::optional<Tensor>> outputs_;
  std::vector<bool> is_asked_;  // for each output
  mutable std::shared_ptr<CallAllocator> allocator_;
  mutable std::optional<Stream> stream_;
};

namespace contrib_internal {

using CreateFunction = std::unique_ptr<OpKernel> (*)(const OpKernelInfo&);

/// Adds a kernel to the pack, which matches it with its schema when the pack is first used.
class KernelRegistration {
 public:
  KernelRegistration(std::unique_ptr<KernelDef> definition, CreateFunction create) noexcept;
};

template <class Kernel>
std::unique_ptr<OpKernel> CreateKernel(const OpKernelInfo& info) {
  return std::make_unique<Kernel>(info);
}

}  // namespace contrib_internal

}  // namespace onnxruntime
#pragma GCC visibility pop

// For use at namespace scope, with or without a semicolon. `builder` is a KernelDefBuilder; the
// last argument is the kernel class.
#define OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, versions, ...)      \
  [[maybe_unused]] static const ::onnxruntime::contrib_internal::KernelRegistration \
      OPGRAFT_CONTRIB_JOIN(opgraft_kernel_, __COUNTER__)(                           \
          (builder)                                                                 \
              .SetName(#name)                                                       \
              .SetDomain(domain)                                                    \
              .SinceVersion versions.Provider(provider)                             \
              .Build(),                                                             \
          &::onnxruntime::contrib_internal::CreateKernel<__VA_ARGS__>);
#define ONNX_OPERATOR_KERNEL_EX(name, domain, ver, provider, builder, ...) \
  OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, (ver), __VA_ARGS__)
#define ONNX_OPERATOR_VERSIONED_KERNEL_EX(name, domain, startver, endver, provider, builder, ...) \
  OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, (startver, endver), __VA_ARGS__)
#define ONNX_OPERATOR_TYPED_KERNEL_EX(name, domain, ver, type, provider, builder, ...) \
  OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, (ver), __VA_ARGS__)
#define ONNX_OPERATOR_TWO_TYPED_KERNEL_EX(name, domain, ver, type1, type2, provider, builder, ...) \
  OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, (ver), __VA_ARGS__)
#define ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_EX(name, domain, startver, endver, type, provider, \
                                                builder, ...)                                   \
  OPGRAFT_CONTRIB_KERNEL(name, domain, provider, builder, (startver, endver), __VA_ARGS__)
#define ONNX_CPU_OPERATOR_MS_KERNEL(name, ver, builder, ...)   \
  ONNX_OPERATOR_KERNEL_EX(name, ::onnxruntime::kMSDomain, ver, \
                          ::onnxruntime::kCpuExecutionProvider, builder, __VA_ARGS__)
#define ONNX_CPU_OPERATOR_TYPED_MS_KERNEL(name, ver, type, builder, ...)   \
  ONNX_OPERATOR_TYPED_KERNEL_EX(name, ::onnxruntime::kMSDomain, ver, type, \
                                ::onnxruntime::kCpuExecutionProvider, builder, __VA_ARGS__)
