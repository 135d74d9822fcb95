// Kernel definitions in the style of ONNX Runtime's tree: the operator, types and provider that a
// kernel is for.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/contrib/tensor.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {

inline constexpr const char* kCpuExecutionProvider = "CPUExecutionProvider";
/// GPUs, through OpgraftCUDA or ONNX Runtime's own CUDA provider.
inline constexpr const char* kCudaExecutionProvider = "CUDAExecutionProvider";

enum OrtMemType {
  OrtMemTypeCPUInput = -2,
  OrtMemTypeCPUOutput = -1,
  OrtMemTypeCPU = OrtMemTypeCPUOutput,
  OrtMemTypeDefault = 0
};

/// The operator, versions, provider and types that a kernel is for.
struct KernelDef {
  std::string name;
  std::string domain;
  std::string provider;
  int first_version = 1;
  int last_version = std::numeric_limits<int>::max();
  std::map<std::string, std::vector<MLDataType>> constraints;
  std::vector<std::pair<int, int>> in_place;
  /// For a CUDA kernel: the inputs and outputs in host memory.
  std::vector<int> host_inputs;
  std::vector<int> host_outputs;
};

class KernelDefBuilder {
 public:
  static std::unique_ptr<KernelDefBuilder> Create() { return std::make_unique<KernelDefBuilder>(); }

  KernelDefBuilder& SetName(std::string name) {
    definition_.name = std::move(name);
    return *this;
  }
  KernelDefBuilder& SetDomain(std::string domain) {
    definition_.domain = std::move(domain);
    return *this;
  }
  KernelDefBuilder& SinceVersion(int first) {
    definition_.first_version = first;
    return *this;
  }
  KernelDefBuilder& SinceVersion(int first, int last) {
    definition_.last_version = last;
    return SinceVersion(first);
  }
  KernelDefBuilder& Provider(std::string provider) {
    definition_.provider = std::move(provider);
    return *this;
  }
  /// `name` is a type of the schema, or the name of an input or output.
  KernelDefBuilder& TypeConstraint(const std::string& name, std::vector<MLDataType> types) {
    definition_.constraints[name] = std::move(types);
    return *this;
  }
  KernelDefBuilder& TypeConstraint(const std::string& name, MLDataType type) {
    return TypeConstraint(name, std::vector<MLDataType>{type});
  }
  /// The output may reuse the input's memory.
  KernelDefBuilder& MayInplace(int input, int output) {
    definition_.in_place.emplace_back(input, output);
    return *this;
  }
  KernelDefBuilder& MayInplace(const std::vector<std::pair<int, int>>& pairs) {
    definition_.in_place.insert(definition_.in_place.end(), pairs.begin(), pairs.end());
    return *this;
  }
  /// Kernels of ONNX Runtime that declare an alias copy if the memory differs.
  KernelDefBuilder& Alias(int input, int output) { return MayInplace(input, output); }
  /// Declares an input whose elements a CUDA kernel reads on the host.
  KernelDefBuilder& InputMemoryType(OrtMemType type, int index) {
    if (type != OrtMemTypeDefault) definition_.host_inputs.push_back(index);
    return *this;
  }
  KernelDefBuilder& InputMemoryType(OrtMemType type, const std::vector<int>& indices) {
    for (const int index : indices) InputMemoryType(type, index);
    return *this;
  }
  KernelDefBuilder& OutputMemoryType(OrtMemType type, int index) {
    if (type != OrtMemTypeDefault) definition_.host_outputs.push_back(index);
    return *this;
  }
  KernelDefBuilder& OutputMemoryType(OrtMemType type, const std::vector<int>& indices) {
    for (const int index : indices) OutputMemoryType(type, index);
    return *this;
  }

  std::unique_ptr<KernelDef> Build() { return std::make_unique<KernelDef>(std::move(definition_)); }

 private:
  KernelDef definition_;
};

template <class... Types>
std::vector<MLDataType> BuildKernelDefConstraints() {
  return {DataTypeImpl::GetTensorType<Types>()...};
}

namespace contrib_internal {

template <class List>
struct ConstraintsOf;
template <template <class...> class List, class... Types>
struct ConstraintsOf<List<Types...>> {
  static std::vector<MLDataType> Get() { return BuildKernelDefConstraints<Types...>(); }
};

}  // namespace contrib_internal

template <class List>
std::vector<MLDataType> BuildKernelDefConstraintsFromTypeList() {
  return contrib_internal::ConstraintsOf<List>::Get();
}

}  // namespace onnxruntime
#pragma GCC visibility pop
