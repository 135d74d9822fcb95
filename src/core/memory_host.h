// A host for packs without a runtime: runs operators in memory, and evaluates shape rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/schema.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

/// Attributes by name. An attribute that is missing here has its default.
using GivenAttributes = std::map<std::string, OpgraftAttribute, std::less<>>;

/// Receives the outputs of a run.
class OutputReceiver {
 public:
  virtual ~OutputReceiver() = default;
  /// Allocates a whole output; returns nullptr if there is not enough memory. Not for strings.
  virtual void* Allocate(std::size_t index, std::int32_t element_type,
                         std::span<const std::int64_t> shape) = 0;
  virtual void Store(std::size_t index, std::span<const std::int64_t> shape,
                     std::span<const OpgraftText> texts) = 0;
};

/// Calls `body(argument, i)` for each i below `total`, in any order, and returns when all are done.
using ParallelLoop = void (*)(std::size_t total, void (*body)(void*, std::size_t), void* argument);

/// A ParallelLoop that runs in the calling thread.
void LoopInOrder(std::size_t total, void (*body)(void*, std::size_t), void* argument);

/// A kernel of a pack's operator, made for inputs of certain types. It can be run any number of
/// times, from any thread.
class NativeKernel {
 public:
  /// An absent input has the type 0. Messages begin with the operator's name. `schema` must outlive
  /// the kernel; `attributes` need not.
  static Status Make(const Schema& schema, const std::vector<std::int64_t>& input_types,
                     std::size_t outputs, const GivenAttributes& attributes,
                     std::unique_ptr<NativeKernel>* made);

  NativeKernel(const NativeKernel&) = delete;
  NativeKernel& operator=(const NativeKernel&) = delete;
  ~NativeKernel() { kernel_.destroy(state_); }

  /// The inputs must have the types that the kernel was made for.
  Status Run(std::span<const OpgraftTensor> inputs, OutputReceiver& receiver,
             ParallelLoop loop = &LoopInOrder) const;

 private:
  NativeKernel(const Schema& schema, const OpgraftKernel& kernel, std::size_t outputs);

  const Schema& schema_;
  const OpgraftKernel& kernel_;
  const std::size_t outputs_;
  std::vector<std::int32_t> output_types_;
  void* state_ = nullptr;
};

/// Runs an operator of a pack once, with the given number of outputs. An absent input has the
/// element type 0. Messages begin with the operator's name.
Status RunNative(const Schema& schema, std::span<const OpgraftTensor> inputs, std::size_t outputs,
                 const GivenAttributes& attributes, OutputReceiver& receiver);

/// What is known about a value before anything runs.
struct KnownValue {
  std::int32_t element_type = 0;  ///< 0 if the input is absent or the output unknown
  SymbolicShape shape = std::nullopt;
  OpgraftTensor constant = {};  ///< absent if its elements are not known
};

/// Evaluates the shape rule. Outputs without a shape have at least their element types, if known.
Status InferNative(const Schema& schema, const std::vector<KnownValue>& inputs, std::size_t outputs,
                   const GivenAttributes& attributes, std::vector<KnownValue>* inferred);

}  // namespace opgraft
